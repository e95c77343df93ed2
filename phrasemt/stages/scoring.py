"""Scores of each system, and the significance of its difference to the baseline (rules/scoring.smk)."""

from __future__ import annotations

from typing import Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.stages.stage import Stage, files, named, of
from phrasemt.study.schema import SEED
from phrasemt.study.tokenization import Tokenizer


class SystemOnTestSets(Stage):
    """Base of the stages that score a trained system on all test sets of a data set.

    The names say which cells of the table the scores are for.
    """

    dataset: str
    system: str
    seed: int
    test_sets: list[str] = of(lambda job: job.dataset.test_sets)


class ScoreSystem(SystemOnTestSets):
    """Compute BLEU in all conventions, chrF and TER, with signatures."""

    module = "phrasemt.scoring.bleu"
    inputs = named(lists="tokens text reference_tokens reference")
    outputs = files(scores=Paths.system_scores)
    libraries = ("sacrebleu",)

    references: list[int] = of(lambda job: job.references)
    target_tokenizer: Tokenizer = of(lambda job: job.target_tokenizer)


class ScoreMetric(SystemOnTestSets):
    """Run the program of a metric of the study on the translations of a system."""

    module = "phrasemt.scoring.external"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{metric}"
    inputs = named(lists="text reference source files")
    outputs = files(scores=Paths.metric_scores)

    metric: str
    better: Literal["higher", "lower"] = of(lambda job: job.study.metrics[job.wildcards["metric"]].better)
    command: str = of(lambda job: job.study.metrics[job.wildcards["metric"]].command)
    words: list[str] = of(lambda job: job.study.metrics[job.wildcards["metric"]].words)  # of the command
    references: list[int] = of(lambda job: job.references)


class Bootstrap(Stage):
    """Base of the stages that resample the sentences of the test sets of a data set."""

    module = "phrasemt.scoring.significance"
    libraries = ("numpy", "scipy")

    dataset: str
    kinds: dict[str, str] = of(lambda job: job.study.pool_groups)  # of each system: among them deviations are pooled
    samples: int = of(lambda job: job.study.comparison.samples)
    seed: int = SEED


class MeasureVariation(Bootstrap):
    """Measure how much scores differ between trainings that differ in their seed only."""

    inputs = named(lists="repeated repeated_metrics repeated_forced")
    outputs = files(variation=Paths.seed_variation)


class CompareSystems(Bootstrap):
    """Test the difference of a system to the baseline by paired bootstrap."""

    inputs = named(lists="baseline system variation baseline_metrics system_metrics forced")
    outputs = files(comparison=Paths.comparison)

    system: str
    baseline: str = of(lambda job: job.study.baseline_of(job.wildcards["system"]))
