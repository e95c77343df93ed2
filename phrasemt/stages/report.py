"""The table and the report of a study (rules/report.smk)."""

from __future__ import annotations

from typing import Any, Literal

from phrasemt.stages.stage import Stage, StudyJob, files, of
from phrasemt.study.compared import ComparedFigure, compared_figures
from phrasemt.study.schema import SEED


class MakeTable(Stage):
    """Make the table of results as JSON, Markdown, LaTeX and CSV."""

    module = "phrasemt.report.tables"
    inputs = files(
        system_scores=["SystemScores"],
        metric_scores=["MetricScores"],
        comparison=["Comparison"],
        perplexity_scores=["PerplexityScores"],
        chunk_accuracies=["ChunkAccuracies"],
        contrast_accuracy=["ContrastAccuracy"],
        compared_splits=["ComparedSplits"],
    )
    outputs = files(table="Table", markdown="MarkdownTable", latex="LatexTable", csv="CsvTable")

    study: str = of("study.study")
    title: str
    baseline: str = of("study.baseline")
    baselines: dict[str, str] = of("study.baselines")  # of each system, what it is compared with
    # Lists and not mappings: settings travel as JSON with sorted keys, and the order of systems is that of the table.
    systems: list[tuple[str, str]]  # name and title of each row
    metrics: list[tuple[str, str, Literal["higher", "lower"]]]  # of the study: name, heading, better scores
    translating: list[tuple[str, str]]  # name and title of each system that translates
    trained: list[str]  # systems that are models of the study
    seeds_of: dict[str, list[int]]  # of each system
    outside: list[str]  # systems whose translations other programs made
    test_sets: list[tuple[str, str]]  # data set and test set of each block
    contrasts: list[tuple[str, str]]  # data set and set of contrastive pairs
    language_models: list[str] = of("study.language_models")  # systems with perplexities in place of translations
    chunking: list[str] = of("study.chunking")  # systems that decide about chunks
    seeds: list[int] = of("study.seeds")
    figures: list[ComparedFigure]  # printed figures that systems stand for
    controls: dict[str, list[str]] = of("study.controls")  # of systems

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        study, datasets = job.study, job.study.datasets.items()
        systems = list(study.titles.items())
        return {
            "title": study.title or study.study,
            "systems": systems,
            "metrics": [(name, metric.heading or name, metric.better) for name, metric in study.metrics.items()],
            "translating": [(name, title) for name, title in systems if name in study.translating],
            "trained": list(study.models),
            "outside": list(study.outside),
            "seeds_of": {name: study.seeds_of(name) for name in study.systems},
            "test_sets": [(name, test_set) for name, dataset in datasets for test_set in dataset.test_sets],
            "contrasts": [(name, split) for name, dataset in datasets for split in dataset.contrastive],
            "figures": list(compared_figures(study)),
        }


class WriteReport(Stage):
    """Write one self-contained HTML page about the study."""

    module = "phrasemt.report.report"
    inputs = files(
        table="Table",
        training_record=["TrainingRecord"],
        dropped_pairs=["DroppedPairs"],
        compared_splits=["ComparedSplits"],
        round_trip=["RoundTrip"],
        phrase_statistics=["PhraseStatistics"],
        chunk_statistics=["ChunkStatistics"],
        card=["Card"],
        attention_analysis=["AttentionAnalysis"],
        attention_weights=["AttentionWeights"],
        contrast_accuracy=["ContrastAccuracy"],
        tokens=["Tokens"],
        translated_tokens=["TranslatedTokens"],
        system_scores=["SystemScores"],
        subwords=["Subwords"],
        parses=["Parses"],
        phrase_columns=["PhraseColumns"],
        chunk_columns=["ChunkColumns"],
    )
    outputs = files(report="Report")
    libraries = ("jinja2", "matplotlib")

    title: str
    controls: dict[str, list[str]] = of("study.controls")  # of systems
    samples: int = of("study.comparison.samples")
    seed: int = SEED  # of the bootstrap
    repeated: list[str] = of("study.repeated")  # systems with several trainings

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        return {"title": job.study.title or job.study.study}
