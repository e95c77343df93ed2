"""The table and the report of a study (rules/report.smk)."""

from __future__ import annotations

from typing import Any, Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.files.system import digest_file
from phrasemt.printed.results import file_of
from phrasemt.stages.stage import Stage, StudyJob, files, of
from phrasemt.study.compared import ComparedFigure, compared_figures
from phrasemt.study.schema import SEED


class MakeTable(Stage):
    """Make the table of results as JSON, Markdown, LaTeX and CSV."""

    module = "phrasemt.report.tables"
    inputs = files(
        system_scores=[Paths.system_scores],
        metric_scores=[Paths.metric_scores],
        comparison=[Paths.comparison],
        attention_analysis=[Paths.attention_analysis],
        perplexity_scores=[Paths.perplexity_scores],
        chunk_accuracies=[Paths.chunk_accuracies],
        contrast_accuracy=[Paths.contrast_accuracy],
        compared_splits=[Paths.compared_splits],
    )
    outputs = files(table=Paths.table, markdown=Paths.markdown_table, latex=Paths.latex_table, csv=Paths.csv_table)

    study: str = of(lambda job: job.study.study)
    title: str
    baseline: str = of(lambda job: job.study.baseline)
    baselines: dict[str, str] = of(lambda job: job.study.baselines)  # of each system, what it is compared with
    pool_groups: dict[str, str] = of(lambda job: job.study.pool_groups)  # of each system
    # Lists and not mappings: settings travel as JSON with sorted keys, and the order of systems is that of the table.
    systems: list[tuple[str, str]]  # name and title of each row
    metrics: list[tuple[str, str, Literal["higher", "lower"]]]  # of the study: name, heading, better scores
    translating: list[tuple[str, str]]  # name and title of each system that translates
    forced: list[str] = of(lambda job: job.study.forced)  # systems with nats of the references
    trained: list[str]  # systems that are models of the study
    seeds_of: dict[str, list[int]]  # of each system
    outside: list[str]  # systems whose translations other programs made
    test_sets: list[tuple[str, str]]  # data set and test set of each block
    contrasts: list[tuple[str, str]]  # data set and set of contrastive pairs
    language_models: list[str] = of(lambda job: job.study.language_models)  # with perplexities, not translations
    chunking: list[str] = of(lambda job: job.study.chunking)  # systems that decide about chunks
    seeds: list[int] = of(lambda job: job.study.seeds)
    figures: list[ComparedFigure]  # places of printed figures that systems stand for
    printed: dict[str, str]  # sha256 of the printed results of each of their papers
    controls: dict[str, list[str]] = of(lambda job: job.study.controls)  # of systems

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        study, datasets = job.study, job.study.datasets.items()
        figures = list(compared_figures(study))
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
            "figures": figures,
            "printed": {paper: digest_file(file_of(paper)) for paper in {one.place.split("/")[0] for one in figures}},
        }


class WriteReport(Stage):
    """Write one self-contained HTML page about the study."""

    module = "phrasemt.report.report"
    inputs = files(
        table=Paths.table,
        training_record=[Paths.training_record],
        dropped_pairs=[Paths.dropped_pairs],
        compared_splits=[Paths.compared_splits],
        round_trip=[Paths.round_trip],
        phrase_statistics=[Paths.phrase_statistics],
        chunk_statistics=[Paths.chunk_statistics],
        card=[Paths.card],
        attention_analysis=[Paths.attention_analysis],
        attention_weights=[Paths.attention_weights],
        contrast_accuracy=[Paths.contrast_accuracy],
        tokens=[Paths.tokens],
        translated_tokens=[Paths.translated_tokens],
        system_scores=[Paths.system_scores],
        subwords=[Paths.subwords],
        parses=[Paths.parses],
        phrase_columns=[Paths.phrase_columns],
        chunk_columns=[Paths.chunk_columns],
    )
    outputs = files(report=Paths.report)
    libraries = ("jinja2",)

    title: str
    controls: dict[str, list[str]] = of(lambda job: job.study.controls)  # of systems
    samples: int = of(lambda job: job.study.comparison.samples)
    seed: int = SEED  # of the bootstrap
    repeated: list[str] = of(lambda job: job.study.repeated)  # systems with several trainings
    chunking: list[str] = of(lambda job: job.study.chunking)  # systems that are given the chunks of references
    kinds: dict[str, str] = of(lambda job: job.study.pool_groups)  # of each system: among them deviations are pooled

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        return {"title": job.study.title or job.study.study}
