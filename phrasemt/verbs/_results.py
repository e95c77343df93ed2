"""The score files, analyses of attention and decisions on contrastive pairs of a study, so far as they are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.scoring.gains import PairedTest
from phrasemt.study.schema import Study
from phrasemt.workflow.paths import Paths

_Kind = TypeVar("_Kind", bound=JsonFile)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Files of the systems of a study. source: tokens of its test sets."""

    scores: list[SystemScores]
    attention: list[AttentionAnalysis]
    contrasts: list[ContrastAccuracy]
    source: list[Path]

    @classmethod
    def of(cls, study: Study, datasets: Iterable[str]) -> Self:
        """Read the files about some data sets. Those of systems and seeds that the study lacks now are left out."""
        found = cls(scores=[], attention=[], contrasts=[], source=[])
        trainings = [{"system": system, "seed": seed} for system in study.systems for seed in study.seeds_of(system)]
        for name in datasets:
            dataset, paths = study.datasets[name], Paths.of(study, name)
            language = dataset.languages[0]
            sources = [Path(paths.tokens.at(split=test_set, language=language)) for test_set in dataset.test_sets]
            found.source.extend(path for path in sources if path.exists())
            for one in trainings:
                found.scores.extend(_read(SystemScores, [paths.system_scores.at(**one)]))
                analyses = [paths.attention_analysis.at(split=test_set, **one) for test_set in dataset.test_sets]
                found.attention.extend(_read(AttentionAnalysis, analyses))
                contrasts = [paths.of_kind(ContrastAccuracy).at(split=split, **one) for split in dataset.contrastive]
                found.contrasts.extend(_read(ContrastAccuracy, contrasts))
        return found


def paired_test(study: Study) -> PairedTest:
    """The test of a study's report."""
    comparison = study.comparison
    return PairedTest(
        samples=comparison.samples, seed=comparison.seed, repeated=study.repeated, unseeded=study.unseeded
    )


def _read(kind: type[_Kind], paths: Iterable[str]) -> Iterator[_Kind]:
    return (kind.read(path) for path in map(Path, paths) if path.exists())
