"""The table and the report of a study (rules/report.smk)."""

from __future__ import annotations

from typing import Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.files.system import digest_file
from phrasemt.printed.results import file_of
from phrasemt.stages.stage import Stage, files, named, of
from phrasemt.study.compared import ComparedFigure, compared_figures
from phrasemt.study.schema import SEED

_title = of(lambda job: job.study.title or job.study.study)


class MakeTable(Stage):
    """Make the table of results as JSON, Markdown, LaTeX and CSV."""

    module = "phrasemt.report.tables"
    inputs = named(
        lists="system_scores metric_scores comparison attention_analysis perplexity_scores chunk_accuracies "
        "contrast_accuracy compared_splits"
    )
    outputs = files(table=Paths.table, markdown=Paths.markdown_table, latex=Paths.latex_table, csv=Paths.csv_table)

    study: str = of(lambda job: job.study.study)
    title: str = _title
    baseline: str = of(lambda job: job.study.baseline)
    baselines: dict[str, str] = of(lambda job: job.study.baselines)  # of each system, what it is compared with
    pool_groups: dict[str, str] = of(lambda job: job.study.pool_groups)  # of each system
    # Lists and not mappings: settings travel as JSON with sorted keys, and the order of systems is that of the table.
    # Name and title of each row; of each metric of the study name, heading and better scores.
    systems: list[tuple[str, str]] = of(lambda job: list(job.study.titles.items()))
    metrics: list[tuple[str, str, Literal["higher", "lower"]]] = of(
        lambda job: [(name, metric.heading or name, metric.better) for name, metric in job.study.metrics.items()]
    )
    # Name and title of each system that translates.
    translating: list[tuple[str, str]] = of(
        lambda job: [(name, title) for name, title in job.study.titles.items() if name in job.study.translating]
    )
    forced: list[str] = of(lambda job: job.study.forced)  # systems with nats of the references
    trained: list[str] = of(lambda job: list(job.study.models))  # systems that are models of the study
    seeds_of: dict[str, list[int]] = of(lambda job: {name: job.study.seeds_of(name) for name in job.study.systems})
    outside: list[str] = of(lambda job: list(job.study.outside))  # systems whose translations other programs made
    # Data set and test set of each block; data set and set of contrastive pairs.
    test_sets: list[tuple[str, str]] = of(
        lambda job: [(name, test_set) for name, data in job.study.datasets.items() for test_set in data.test_sets]
    )
    contrasts: list[tuple[str, str]] = of(
        lambda job: [(name, split) for name, data in job.study.datasets.items() for split in data.contrastive]
    )
    language_models: list[str] = of(lambda job: job.study.language_models)  # with perplexities, not translations
    chunking: list[str] = of(lambda job: job.study.chunking)  # systems that decide about chunks
    seeds: list[int] = of(lambda job: job.study.seeds)
    # Places of printed figures that systems stand for; sha256 of the printed results of each of their papers.
    figures: list[ComparedFigure] = of(lambda job: list(compared_figures(job.study)))
    printed: dict[str, str] = of(
        lambda job: {
            paper: digest_file(file_of(paper))
            for paper in {one.place.split("/")[0] for one in compared_figures(job.study)}
        }
    )
    controls: dict[str, list[str]] = of(lambda job: job.study.controls)  # of systems


class WriteReport(Stage):
    """Write one self-contained HTML page about the study."""

    module = "phrasemt.report.report"
    inputs = named(
        "table",
        lists="training_record dropped_pairs compared_splits round_trip phrase_statistics chunk_statistics card "
        "attention_analysis attention_weights contrast_accuracy tokens translated_tokens system_scores subwords "
        "parses phrase_columns chunk_columns",
    )
    outputs = files(report=Paths.report)
    libraries = ("jinja2",)

    title: str = _title
    controls: dict[str, list[str]] = of(lambda job: job.study.controls)  # of systems
    samples: int = of(lambda job: job.study.comparison.samples)
    seed: int = SEED  # of the bootstrap
    repeated: list[str] = of(lambda job: job.study.repeated)  # systems with several trainings
    chunking: list[str] = of(lambda job: job.study.chunking)  # systems that are given the chunks of references
    kinds: dict[str, str] = of(lambda job: job.study.pool_groups)  # of each system: among them deviations are pooled
