"""The table and the report of a study (rules/paper.smk)."""

from __future__ import annotations

from typing import Self

from phrasemt.stages.stage import Stage, Wildcards
from phrasemt.study.claims import Claim, claims
from phrasemt.study.schema import Study


class MakeTable(Stage):
    """Make the table of results as JSON, Markdown, LaTeX and CSV."""

    module = "phrasemt.paper.tables"
    inputs = ("scores*", "comparisons*", "perplexities*", "chunks*", "contrasts*", "averages*", "splits*")
    outputs = ("table", "markdown", "latex", "csv")

    study: str
    title: str
    baseline: str
    # Lists and not mappings: settings travel as JSON with sorted keys, and the order of systems is that of the table.
    systems: list[tuple[str, str]]  # name and title of each row
    translating: list[tuple[str, str]]  # the same for the systems that translate
    trained: list[str]  # systems that are trained; the other rows translate with their weights
    seeds_of: dict[str, list[int]]  # of each system
    test_sets: list[tuple[str, str]]  # data set and test set of each block
    datasets: list[str]
    contrasts: list[str]  # data sets with contrastive pairs
    language_models: list[str]  # systems with perplexities in place of translations
    chunking: list[str]  # systems that decide about chunks
    seeds: list[int]
    claims: list[Claim]  # printed figures that systems stand for

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        systems = [(name, system.title or name) for name, system in study.systems.items()]
        return cls(
            study=study.study,
            title=study.title or study.study,
            baseline=study.baseline,
            systems=systems,
            translating=[(name, title) for name, title in systems if name in study.translating],
            test_sets=[(name, test_set) for name, dataset in study.datasets.items() for test_set in dataset.test_sets],
            datasets=list(study.datasets),
            contrasts=[name for name, dataset in study.datasets.items() if dataset.generator],
            language_models=study.language_models,
            chunking=study.chunking,
            trained=study.trained,
            seeds_of={name: study.seeds_of(name) for name in study.systems},
            seeds=study.seeds,
            claims=list(claims(study)),
        )


class WriteReport(Stage):
    """Write one self-contained HTML page about the study."""

    module = "phrasemt.paper.report"
    inputs = (
        "table",
        "records*",
        "dropped*",
        "splits*",
        "round_trips*",
        "phrases*",
        "chunks*",
        "annotators*",
        "lengths*",
        "analyses*",
        "attention*",
        # Of the test sets, for the explorer of sentences.
        "source*",
        "references*",
        "translations*",
        "scores*",
        "source_units*",
        "target_units*",
        "parses*",
        "phrase_columns*",
        "chunk_columns*",
    )
    outputs = ("report",)
    libraries = ("jinja2", "matplotlib")

    title: str

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(title=study.title or study.study)
