"""The scores of the sentences of a test set with the lengths of their sources, and the decisions about contrastive
pairs with their distances: what gains by length and by distance come from.

The report, its claims and the commands share one object for each test set, and with it the samples of its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.scores import GainByLength, Scores, SystemScores
from phrasemt.artefacts.text import Tokens
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.files.lines import read_lines
from phrasemt.scoring.gains import NATS, Bounds, Gains, PairedTest, gains_on_pairs, nats_per_token

BLEU = "bleu_tok"


@dataclass(frozen=True, kw_only=True)
class ScoredTestSet:
    """A test set in one metric. words: of each source [sentences]. of_systems: the scores of all their trainings.

    test: of their differences.
    """

    dataset: str
    test_set: str
    metric: str
    words: NDArray[np.int64]
    of_systems: Mapping[str, Sequence[Scores]]
    test: PairedTest

    @property
    def name(self) -> str:
        """The data set and the test set."""
        return f"{self.dataset}, {self.test_set}"

    def gain(
        self, baseline: str, system: str, *, groups: Sequence[Bounds], joint: Sequence[Bounds]
    ) -> GainByLength | None:
        """The gain of a system over any other one (phrasemt/scoring/gains.py); None if one of them has no scores."""
        if not {baseline, system} <= self.of_systems.keys():
            return None
        return self._gains.of(baseline, system, groups=groups, joint=joint)

    @cached_property
    def _gains(self) -> Gains:
        return Gains(self.of_systems, self.words, metric=self.metric, test=self.test)


@dataclass(frozen=True, kw_only=True)
class DecidedPairs:
    """The decisions of systems about a set of contrastive pairs. of_systems: the files of all their trainings.

    test: of their differences.
    """

    dataset: str
    contrast_set: str
    of_systems: Mapping[str, Sequence[ContrastAccuracy]]
    test: PairedTest

    @property
    def name(self) -> str:
        """The data set and the set of pairs."""
        return f"{self.dataset}, {self.contrast_set}"

    @property
    def kinds(self) -> list[str]:
        """The kinds of mistakes of the pairs."""
        return [kind.kind for kind in next(iter(self.of_systems.values()))[0].kinds]

    def gains(self, kind: int | None) -> Gains:
        """The differences of systems. kind: the place of a kind of mistake; None: all.

        Raises MismatchError for systems that decided about other pairs.
        """
        if kind not in self._gains:
            self._gains[kind] = gains_on_pairs(self.of_systems, kind=kind, test=self.test)
        return self._gains[kind]

    @cached_property
    def _gains(self) -> dict[int | None, Gains]:
        return {}


def decided_pairs(files: Iterable[ContrastAccuracy], test: PairedTest) -> list[DecidedPairs]:
    """Return each set of contrastive pairs with all that decided about it. files: of all trainings."""
    of_sets: dict[tuple[str, str], dict[str, list[ContrastAccuracy]]] = {}
    for file in files:
        of_sets.setdefault((file.dataset, file.contrast_set), {}).setdefault(file.system, []).append(file)
    return [
        DecidedPairs(dataset=dataset, contrast_set=name, of_systems=of_systems, test=test)
        for (dataset, name), of_systems in of_sets.items()
    ]


def read_scored(
    *, scores: Iterable[SystemScores], analyses: Iterable[AttentionAnalysis], source: Sequence[Path], test: PairedTest
) -> Iterator[ScoredTestSet]:
    """Yield each test set in BLEU, then in nats per token; none whose scores are about other sentences.

    scores, analyses: of all trainings. source: tokens of the test sets.
    """
    words = {}
    for path in source:
        names = Tokens.pattern.names(path)
        words[names["dataset"], names["split"]] = np.array([len(line.split()) for line in read_lines(path)])
    found: dict[tuple[str, str, str], dict[str, list[Scores]]] = {}  # by data set, test set and metric
    for file in scores:
        for test_set, of_test_set in file.test_sets.items():
            if BLEU in of_test_set.statistics:
                of_systems = found.setdefault((file.dataset, test_set, BLEU), {})
                of_systems.setdefault(file.system, []).append(of_test_set)
    for analysis in analyses:
        of_systems = found.setdefault((analysis.dataset, analysis.test_set, NATS), {})
        forced = nats_per_token(analysis.sentence_nats, analysis.sentence_tokens)
        of_systems.setdefault(analysis.system, []).append(forced)
    for (dataset, test_set, metric), of_systems in found.items():
        of_words = words.get((dataset, test_set))
        if of_words is not None and all(one.sentences == len(of_words) for of in of_systems.values() for one in of):
            yield ScoredTestSet(
                dataset=dataset, test_set=test_set, metric=metric, words=of_words, of_systems=of_systems, test=test
            )
