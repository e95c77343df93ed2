"""Scores of each system, and the significance of its difference to the baseline (rules/scoring.smk)."""

from __future__ import annotations

from typing import Any, Literal, Self

from phrasemt.stages.stage import Stage, Wildcards
from phrasemt.study.datasets import ReferenceLength
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Tokenizer


class SystemOnTestSets(Stage):
    """Base of the stages that score a trained system on all test sets of a data set.

    The names say which cells of the table the scores are for.
    """

    job_name = "{dataset}.{source}-{target}/{system}.{seed}"

    dataset: str
    system: str
    seed: int
    test_sets: list[str]

    @classmethod
    def cell_of(cls, study: Study, wildcards: Wildcards) -> dict[str, Any]:
        """The values of these fields."""
        return {
            "dataset": wildcards["dataset"],
            "system": wildcards["system"],
            "seed": int(wildcards["seed"]),
            "test_sets": list(study.datasets[wildcards["dataset"]].test_sets),
        }


class ScoreSystem(SystemOnTestSets):
    """Compute BLEU in all conventions, chrF and TER, with signatures."""

    module = "phrasemt.scoring.bleu"
    libraries = ("sacrebleu",)

    references: list[int]  # number of references of each test set
    reference_length: ReferenceLength
    target_tokenizer: Tokenizer

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        dataset = study.datasets[wildcards["dataset"]]
        return cls(
            **cls.cell_of(study, wildcards),
            references=[len(dataset.references(test_set)) for test_set in dataset.test_sets],
            reference_length=dataset.reference_length,
            target_tokenizer=dataset.tokenizer("target"),
        )


class ScoreMetric(SystemOnTestSets):
    """Run the program of a metric of the study on the translations of a system."""

    module = "phrasemt.scoring.external"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{metric}"

    metric: str
    better: Literal["higher", "lower"]
    command: str
    words: list[str]  # of the command
    references: list[int]  # number of references of each test set

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        dataset, metric = study.datasets[wildcards["dataset"]], study.metrics[wildcards["metric"]]
        return cls(
            **cls.cell_of(study, wildcards),
            metric=wildcards["metric"],
            better=metric.better,
            command=metric.command,
            words=metric.words,
            references=[len(dataset.references(test_set)) for test_set in dataset.test_sets],
        )


class ScoreByLength(Stage):
    """Compute BLEU on groups of source lengths, with intervals."""

    module = "phrasemt.scoring.lengths"
    job_name = "{dataset}.{source}-{target}/{system}"
    libraries = ("numpy",)

    dataset: str
    system: str
    seeds: list[int]
    test_sets: list[str]
    limits: list[int]  # the largest number of words of each group but the last
    samples: int
    seed: int  # of the bootstrap

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            dataset=wildcards["dataset"],
            system=wildcards["system"],
            seeds=study.seeds_of(wildcards["system"]),
            test_sets=list(study.datasets[wildcards["dataset"]].test_sets),
            limits=study.analyses.lengths,
            samples=study.comparison.samples,
            seed=study.comparison.seed,
        )


class CompareSystems(Stage):
    """Test the difference of a system to the baseline by paired bootstrap."""

    module = "phrasemt.scoring.significance"
    job_name = "{dataset}.{source}-{target}/{system}"
    libraries = ("numpy",)

    dataset: str
    system: str
    baseline: str
    samples: int
    seed: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            dataset=wildcards["dataset"],
            system=wildcards["system"],
            baseline=study.baseline_of(wildcards["system"]),
            samples=study.comparison.samples,
            seed=study.comparison.seed,
        )
