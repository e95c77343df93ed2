"""The gain of a system over another one by the length of the source (Xu et al. 2020, Figure 3), or by the distance of
words that must agree (Figure 4), with its slope.

A paper that claims longer sentences to gain more claims a slope: how much the gain grows each time the source doubles.
Scores like BLEU exist for groups of sentences only, so the slope is that of the least-squares line through the gains of
the groups over the mean of log2 of their lengths, weighted by their sentences. Its interval and its p-value come from
the same samples of sentences and trainings as those of any score (phrasemt/scoring/significance.py), for each training
has a slope of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import MetricComparison, Scores, SystemScores
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.scoring.scores import ACCURACY, NATS, accuracy_scores, as_array, corpus_scores, nats_of, of_clusters
from phrasemt.scoring.significance import FEWEST, ResampledRuns, Variations, compare_runs, resample, seed_variations

BLEU = "bleu_tok"

# Of a group: its smallest and its largest number of words; None for no limit.
Bounds = tuple[int, int | None]
# Distances in which differences are tested: with fewer, larger groups a test has more power.
DISTANCES: tuple[Bounds, ...] = ((1, 2), (3, 4), (5, 8), (9, 12), (13, None))
MORE_THAN_10: Bounds = (11, None)  # Xu et al. (2020), Figure 4
ALL: Bounds = (0, None)
LENGTHS = (15, 30, 45)  # words of a source: limits of the groups (Xu et al. 2020, Figure 3)


@dataclass(frozen=True)
class LengthRange:
    """Sentences with low to high words in the source. high: None for no limit."""

    low: int
    high: int | None
    sentences: int

    @property
    def name(self) -> str:
        if self.high is None:
            return f">{self.low - 1}" if self.low > 0 else "all"
        return f"≤{self.high}" if self.low == 0 else f"{self.low}-{self.high}"


@dataclass(frozen=True, kw_only=True)
class GainByLength:
    """The gain of a system in one metric by the length of the source, system minus baseline.

    joint: further ranges of lengths. slope: its difference is how much the gain grows for twice as many words, positive
    where longer sentences gain more, also in a metric that counts mistakes; None with fewer than two groups.
    """

    groups: Mapping[LengthRange, MetricComparison]
    joint: Mapping[LengthRange, MetricComparison]
    slope: MetricComparison | None


def groups_up_to(limits: Sequence[int]) -> list[Bounds]:
    """Groups of lengths that meet: up to the first limit, from there up to the second, ..., and above the last."""
    return list(zip([0, *(limit + 1 for limit in limits)], [*limits, None], strict=True))


def quarters(words: NDArray[np.int64]) -> list[Bounds]:
    """The groups whose limits are the quartiles of the lengths; fewer where quartiles are equal."""
    limits = sorted({math.floor(limit) for limit in np.quantile(words, [0.25, 0.5, 0.75])})
    return groups_up_to([limit for limit in limits if limit < words.max()])


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """How differences are tested.

    samples, seed: of the bootstrap. repeated: the systems that show how much trainings differ, those with several
    trainings of their own; None: all. kinds: of systems, among which deviations are pooled; by default all are of one.
    """

    samples: int
    seed: int
    repeated: Collection[str] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Drawn:
    """The samples of all systems on the same sentences, and how much trainings differ there."""

    of_systems: Mapping[str, ResampledRuns]
    variations: Variations


@dataclass(frozen=True, kw_only=True)
class Gains:
    """Differences of systems on one test set by the length of the source, in one metric.

    The samples of a group are drawn once, for all systems and all pairs of them: the report and the commands
    share one object for each test set. name: of data set and test set. of_systems: the scores of the trainings
    of each system. words: of each source [sentences]. test: of the differences. clusters: see `of_clusters`; None: each
    sentence is drawn alone.
    """

    name: str
    of_systems: Mapping[str, Sequence[Scores]]
    words: NDArray[np.int64]
    metric: str
    test: PairedTest
    clusters: NDArray[np.int64] | None = None
    _drawn: dict[tuple[Bounds, int | None], _Drawn] = field(default_factory=dict, init=False)
    _slopes: dict[tuple[Bounds, ...], _Drawn | None] = field(default_factory=dict, init=False)

    def large(self, groups: Sequence[Bounds]) -> list[Bounds]:
        """The groups with enough sentences or clusters of them."""
        return [one for one in groups if self._clusters(self._rows(one)).size >= FEWEST]

    def of(
        self, baseline: str, system: str, *, groups: Sequence[Bounds] = (), joint: Sequence[Bounds] = ()
    ) -> GainByLength:
        """Test the difference of two systems in each group, and the slope of the gain.

        joint: further groups to test, such as (11, None) for more than 10 words, without part in the slope.
        """
        found = tuple(one for one in groups if self._rows(one).size)
        if found not in self._slopes:
            self._slopes[found] = self._fitted(found)
        slopes = self._slopes[found]
        return GainByLength(
            groups=self._compared(baseline, system, found),
            joint=self._compared(baseline, system, [one for one in joint if self._rows(one).size]),
            slope=None if slopes is None else self._compare(slopes, baseline, system),
        )

    def _rows(self, one: Bounds) -> NDArray[np.int64]:
        low, high = one
        return np.flatnonzero((self.words >= low) & (self.words <= (math.inf if high is None else high)))

    def _clusters(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self.clusters is None else np.unique(self.clusters[rows])

    def _compared(self, baseline: str, system: str, groups: Sequence[Bounds]) -> dict[LengthRange, MetricComparison]:
        return {
            LengthRange(*bounds, len(self._rows(bounds))): self._compare(self._resampled(bounds), baseline, system)
            for bounds in groups
        }

    def _compare(self, drawn: _Drawn, baseline: str, system: str) -> MetricComparison:
        found = compare_runs(
            drawn.of_systems[baseline],
            drawn.of_systems[system],
            variations=drawn.variations,
            kinds=[self.test.kinds.get(name, "") for name in (baseline, system)],
        )
        return found[self.metric]

    def _with_variations(self, of_systems: Mapping[str, ResampledRuns]) -> _Drawn:
        repeated = (
            (self.test.kinds.get(name, ""), one)
            for name, one in of_systems.items()
            if self.test.repeated is None or name in self.test.repeated
        )
        return _Drawn(of_systems, seed_variations(repeated))

    def _resampled(self, one: Bounds, number: int | None = None) -> _Drawn:
        """All systems on the sentences of a group.

        number: of the group among those of a slope, whose samples are drawn apart, for they are added. A cluster may
        lie in several groups, so these have the same samples of all clusters.
        """
        if (one, number) not in self._drawn:
            rows = self._rows(one)
            seed = self.test.seed if number is None or self.clusters is not None else [self.test.seed, number]
            trainings = [_of_rows(scores, self.metric, rows) for side in self.of_systems.values() for scores in side]
            if self.clusters is not None:
                among = None if number is None else self.clusters
                trainings = [of_clusters(scores, self.clusters[rows], among) for scores in trainings]
            drawn, start, of_systems = resample(trainings, samples=self.test.samples, seed=seed), 0, {}
            for system, side in self.of_systems.items():
                of_systems[system] = drawn.part(slice(start, start + len(side)))
                start += len(side)
            self._drawn[one, number] = self._with_variations(of_systems)
        return self._drawn[one, number]

    def _fitted(self, groups: tuple[Bounds, ...]) -> _Drawn | None:
        """The slopes of all systems as if they were scores; None for fewer than two groups of different lengths."""
        rows_of = [self._rows(one) for one in groups]
        weights = np.array([len(rows) for rows in rows_of], dtype=np.float64)
        places = np.array([np.log2(np.maximum(self.words[rows], 1)).mean() for rows in rows_of])
        centred = places - (weights @ places / weights.sum() if groups else 0)
        if len(groups) < 2 or not (variance := weights @ centred**2):
            return None
        name, metric = self.metric, next(iter(self.of_systems.values()))[0].metrics[self.metric]
        line = (-1 if metric.better == "lower" else 1) * weights * centred / variance
        drawn = [self._resampled(one, number).of_systems for number, one in enumerate(groups)]
        fitted = {}
        for system in self.of_systems:
            parts = [of_systems[system] for of_systems in drawn]
            fitted[system] = ResampledRuns(
                metrics={name: metric},
                scores={name: line @ np.stack([part.scores[name] for part in parts])},
                statistics={name: np.concatenate([part.statistics[name] for part in parts], axis=1)},
                samples={name: np.tensordot(line, np.stack([part.samples[name] for part in parts]), axes=1)},
            )
        return self._with_variations(fitted)


def gains_of_pairs(files: Iterable[ContrastAccuracy], test: PairedTest) -> Iterator[Gains]:
    """Yield the gains in accuracy, in percent, by the distance of words that must agree: of all pairs of a set, and
    of each kind of mistake where a set has several.

    files: of all trainings. Pairs without a distance belong to no group but `ALL`. Raises MismatchError for systems
    that decided about other pairs.
    """
    sets: dict[str, dict[str, list[ContrastAccuracy]]] = {}
    for file in files:
        sets.setdefault(f"{file.dataset}, {file.contrast_set}", {}).setdefault(file.system, []).append(file)
    for name, of_systems in sets.items():
        first = next(iter(of_systems.values()))[0]
        pairs = first.decisions.model_dump(exclude={"right"})
        for file in (file for side in of_systems.values() for file in side):
            what, next_step = "the decisions are about other pairs", "score all systems on the same pairs"
            same = file.decisions.model_dump(exclude={"right"}) == pairs
            check_equal(True, same, what, where=f"{file.system}, seed {file.seed}", next_step=next_step)
        kinds = {
            f"{name}, {kind.kind}": [place for place, of_pair in enumerate(first.decisions.kinds) if of_pair == number]
            for number, kind in enumerate(first.kinds)
        }
        if len(kinds) > 1:
            kinds = {name: list(range(len(first.decisions.kinds)))} | kinds
        clusters = first.decisions.clusters
        for heading, chosen in kinds.items():
            yield Gains(
                name=heading,
                of_systems={
                    system: [accuracy_scores([file.decisions.right[place] for place in chosen]) for file in side]
                    for system, side in of_systems.items()
                },
                words=np.array([first.decisions.distances[place] or 0 for place in chosen], dtype=np.int64),
                metric=ACCURACY,
                test=test,
                clusters=None if clusters is None else np.array(clusters)[chosen],
            )


def words_of(sources: Iterable[Path]) -> dict[tuple[str, str], NDArray[np.int64]]:
    """The words of each source, by data set and test set. sources: tokens of the test sets."""
    names = [(Paths.tokens.names(path), path) for path in sources]
    return {
        (of["dataset"], of["split"]): np.array([len(line.split()) for line in read_lines(path)]) for of, path in names
    }


def gains_of(
    *,
    scores: Iterable[SystemScores],
    analyses: Iterable[AttentionAnalysis],
    words: Mapping[tuple[str, str], NDArray[np.int64]],
    test: PairedTest,
) -> Iterator[Gains]:
    """Yield the gains on each test set in BLEU, then in nats per token; none whose scores are about other sentences.

    scores, analyses: of all trainings. words: of each source, by data set and test set.
    """
    found: dict[tuple[str, str, str], dict[str, list[Scores]]] = {}  # by data set, test set and metric
    for file in scores:
        for test_set, one in file.test_sets.items():
            if BLEU in one.statistics:
                found.setdefault((file.dataset, test_set, BLEU), {}).setdefault(file.system, []).append(one)
    for analysis in analyses:
        of_systems = found.setdefault((analysis.dataset, analysis.test_set, NATS), {})
        of_systems.setdefault(analysis.system, []).append(nats_of(analysis))
    for (dataset, test_set, metric), of_systems in found.items():
        own = words.get((dataset, test_set))
        if own is not None and all(one.sentences == len(own) for side in of_systems.values() for one in side):
            yield Gains(name=f"{dataset}, {test_set}", of_systems=of_systems, words=own, metric=metric, test=test)


def _of_rows(scores: Scores, name: str, rows: NDArray[np.int64]) -> Scores:
    """The scores of some sentences in one metric, computed anew."""
    lines, metric = [scores.statistics[name][row] for row in rows], scores.metrics[name]
    metric = metric.model_copy(update={"score": float(corpus_scores(metric, as_array(lines).sum(0)))})
    update = {"sentences": len(rows), "statistics": {name: lines}, "metrics": {name: metric}}
    return scores.model_copy(update=update)
