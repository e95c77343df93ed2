"""The stage `write_report`: one HTML page about a study, which needs no other file, no network and no script.

The page shows the results table, the learning curves, the settings, the data, and the origin of each number. Jinja
fills in `report.html` beside this module; `sections/` prepares the content. Equal inputs give equal bytes.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import jinja2
from markupsafe import Markup

from phrasemt.files.lines import write_text
from phrasemt.paper.cells import Table
from phrasemt.paper.sections.data import read_cleaning, read_splits
from phrasemt.paper.sections.origins import Origins
from phrasemt.paper.sections.results import anchor, contrast_figures, differences, files_behind
from phrasemt.paper.sections.settings import settings_of_systems
from phrasemt.paper.sections.syntax import (
    ChunkStatistics,
    PhraseStatistics,
    length_figures,
    read_annotators,
    read_measured,
)
from phrasemt.paper.sections.trainings import check_trainings, curves, read_training
from phrasemt.scoring.scores import read_artefact
from phrasemt.stages.paper import WriteReport
from phrasemt.workflow.paths import ANY_STUDY

log = logging.getLogger("phrasemt.paper.report")


def write_report(
    *,
    settings: WriteReport,
    cores: int,
    table: Path,
    records: list[Path],
    dropped: list[Path],
    splits: list[Path],
    phrases: list[Path],
    chunks: list[Path],
    annotators: list[Path],
    report: Path,
) -> None:
    """Write the page of a study.

    Raises DataError when a training of the table has no record, MismatchError when a score file is not the one that the
    table was made from, and DamagedFileError for a file that cannot be read or has changed since its stage wrote it.
    """
    content = read_artefact(table, Table)
    titles = dict(content.systems)
    trainings = [read_training(path) for path in records]
    check_trainings(content, trainings)
    measured_phrases = read_measured(phrases, ANY_STUDY.phrase_statistics, PhraseStatistics)
    origins = Origins()
    scores = {
        anchor(block, row): [origins.of(path, sha256) for path, sha256 in files_behind(row).items()]
        for block in content.blocks
        for row in block.rows
    }
    others = [origins.of(path) for path in [table, *records, *dropped, *splits, *phrases, *chunks, *annotators]]
    page = _template().render(
        title=settings.title,
        table=content,
        titles=titles,
        anchor=anchor,
        differences=list(differences(content)),
        curves=[(dataset, list(curves(dataset, trainings, titles))) for dataset in content.datasets],
        contrasts=list(contrast_figures(content)),
        trainings=trainings,
        settings=settings_of_systems(content, records),
        splits=read_splits(splits),
        cleanings=[read_cleaning(path) for path in dropped],
        annotators=read_annotators(annotators),
        phrases=measured_phrases,
        phrase_figures=list(length_figures(measured_phrases)),
        chunks=read_measured(chunks, ANY_STUDY.chunk_statistics, ChunkStatistics),
        scores=scores,
        others=others,
        versions=origins.versions(),
    )
    write_text(report, page)
    log.info("write_report: %d trainings, %d score files", len(trainings), sum(len(files) for files in scores.values()))


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(minus=lambda text: re.sub(r"^-", "−", text), svg=lambda drawing: Markup(drawing.svg))
    return environment.get_template("report.html")
