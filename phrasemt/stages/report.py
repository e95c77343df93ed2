"""The table and the report of a study (rules/report.smk)."""

from __future__ import annotations

from typing import Literal, Self

from phrasemt.stages.stage import Stage, Wildcards, files
from phrasemt.study.compared import (
    AnalysedFigure,
    ComparedCost,
    ComparedFigure,
    StudiedClaim,
    analysed_figures,
    compared_costs,
    compared_figures,
    studied_claims,
)
from phrasemt.study.schema import SEED, Study


class MakeTable(Stage):
    """Make the table of results as JSON, Markdown, LaTeX and CSV."""

    module = "phrasemt.report.tables"
    inputs = files(
        scores=["SystemScores"],
        metrics=["MetricScores"],
        comparisons=["Comparison"],
        perplexities=["PerplexityScores"],
        chunks=["ChunkAccuracies"],
        contrasts=["ContrastAccuracy"],
        averages=["AverageScores"],
        splits=["ComparedSplits"],
    )
    outputs = files(table="Table", markdown="MarkdownTable", latex="LatexTable", csv="CsvTable")

    study: str
    title: str
    baseline: str
    baselines: dict[str, str]  # of each system, what it is compared with
    # Lists and not mappings: settings travel as JSON with sorted keys, and the order of systems is that of the table.
    systems: list[tuple[str, str]]  # name and title of each row
    metrics: list[tuple[str, str, Literal["higher", "lower"]]]  # of the user: name, heading, better scores
    translating: list[tuple[str, str]]  # name and title of each system that translates
    trained: list[str]  # systems that are models of the study
    seeds_of: dict[str, list[int]]  # of each system
    outside: list[str]  # systems whose translations other programs made
    unseeded: list[str]  # systems in which nothing is drawn at random
    test_sets: list[tuple[str, str]]  # data set and test set of each block
    datasets: list[str]
    contrasts: list[tuple[str, str]]  # data set and set of contrastive pairs
    language_models: list[str]  # systems with perplexities in place of translations
    chunking: list[str]  # systems that decide about chunks
    seeds: list[int]
    figures: list[ComparedFigure]  # printed figures that systems stand for

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        systems = list(study.titles.items())
        return cls(
            study=study.study,
            title=study.title or study.study,
            baseline=study.baseline,
            baselines=study.baselines,
            systems=systems,
            metrics=[(name, metric.heading or name, metric.better) for name, metric in study.metrics.items()],
            translating=[(name, title) for name, title in systems if name in study.translating],
            test_sets=[(name, test_set) for name, dataset in study.datasets.items() for test_set in dataset.test_sets],
            datasets=list(study.datasets),
            contrasts=[(name, split) for name, dataset in study.datasets.items() for split in dataset.contrastive],
            language_models=study.language_models,
            chunking=study.chunking,
            trained=list(study.models),
            outside=list(study.outside),
            unseeded=study.unseeded,
            seeds_of={name: study.seeds_of(name) for name in study.systems},
            seeds=study.seeds,
            figures=list(compared_figures(study)),
        )


class WriteReport(Stage):
    """Write one self-contained HTML page about the study."""

    module = "phrasemt.report.report"
    inputs = files(
        table="Table",
        records=["TrainingRecord"],
        dropped=["DroppedPairs"],
        splits=["ComparedSplits"],
        round_trips=["RoundTrip"],
        phrases=["PhraseStatistics"],
        chunks=["ChunkStatistics"],
        annotators=["Card"],
        lengths=["LengthScores"],
        analyses=["AttentionAnalysis"],
        attention=["AttentionWeights"],
        contrasts=["ContrastAccuracy"],
        source=["Tokens"],
        references=["Tokens"],
        translations=["TranslatedTokens"],
        scores=["SystemScores"],
        compared=["SystemScores"],
        source_units=["Subwords | Tokens"],
        target_units=["Subwords | Tokens"],
        parses=["Parses"],
        phrase_columns=["PhraseColumns"],
        chunk_columns=["ChunkColumns"],
    )
    outputs = files(report="Report")
    libraries = ("jinja2", "matplotlib")

    title: str
    costs: list[ComparedCost]  # printed costs of systems, for the section that has times
    claims: list[StudiedClaim]  # of the papers that systems stand for
    figures: list[AnalysedFigure]  # printed figures that analyses find
    lengths: list[int]  # of sources: the largest number of words of each group but the last
    samples: int
    seed: int  # of the bootstrap
    repeated: list[str]  # systems with several trainings
    unseeded: list[str]  # systems in which nothing is drawn at random

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            title=study.title or study.study,
            costs=list(compared_costs(study)),
            claims=list(studied_claims(study)),
            figures=list(analysed_figures(study)),
            lengths=study.analyses.lengths,
            samples=study.comparison.samples,
            seed=SEED,
            repeated=study.repeated,
            unseeded=study.unseeded,
        )
