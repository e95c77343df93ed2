"""The stage `write_report`: one HTML page about a study, which needs no other file and no network.

Each section is made by a module of `sections/`; phrasemt/report/page.py is their frame. Equal inputs give equal bytes
up to the last section, "This run".
"""

from __future__ import annotations

import logging
from pathlib import Path

from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.files.lines import write_text
from phrasemt.report.claims import Measured, claims_section
from phrasemt.report.page import fill, write_page
from phrasemt.report.sections.analyses import analyses_section, contrast_analyses, gain_analyses, length_analyses
from phrasemt.report.sections.attention import attention_analyses
from phrasemt.report.sections.data import data_section, syntax_section
from phrasemt.report.sections.results import findings_section, origins_section, results_section, scorecard_section
from phrasemt.report.sections.sentences import read_test_sets, sentences_section
from phrasemt.report.sections.this_run import run_section
from phrasemt.report.sections.trainings import check_trainings, curves_section, read_training, systems_section
from phrasemt.scoring.gains import PairedTest, decided_pairs, read_gains
from phrasemt.stages.report import WriteReport

log = logging.getLogger("phrasemt.report.report")


def write_report(
    *,
    settings: WriteReport,
    cores: int,
    table: Path,
    records: list[Path],
    dropped: list[Path],
    splits: list[Path],
    round_trips: list[Path],
    phrases: list[Path],
    chunks: list[Path],
    annotators: list[Path],
    lengths: list[Path],
    analyses: list[Path],
    attention: list[Path],
    contrasts: list[Path],
    source: list[Path],
    references: list[Path],
    translations: list[Path],
    scores: list[Path],
    compared: list[Path],
    source_units: list[Path],
    target_units: list[Path],
    parses: list[Path],
    phrase_columns: list[Path],
    chunk_columns: list[Path],
    report: Path,
) -> None:
    """Write the page of a study.

    Raises DataError when a training of the table has no record, MismatchError when a score file is not the one that the
    table was made from, and DamagedFileError for a file that cannot be read or has changed since its stage wrote it.
    """
    content = Table.read(table)
    titles = dict(content.systems)
    trainings = [read_training(path) for path in records]
    check_trainings(content, trainings)
    test = PairedTest(
        samples=settings.samples, seed=settings.seed, repeated=settings.repeated, unseeded=settings.unseeded
    )
    of_attention = [AttentionAnalysis.read(path) for path in analyses]
    decided = decided_pairs(map(ContrastAccuracy.read, contrasts), test)
    gains = list(read_gains(scores=map(SystemScores.read, compared), analyses=of_attention, source=source, test=test))
    parts = [
        *length_analyses(lengths, titles),
        *gain_analyses(settings, content, gains),
        *contrast_analyses(content, decided),
        *attention_analyses(analyses, attention, titles),
    ]
    test_sets = read_test_sets(
        source=source,
        references=references,
        translations=translations,
        scores=scores,
        source_units=source_units,
        target_units=target_units,
        parses=parses,
        phrases=phrase_columns,
        chunks=chunk_columns,
        attention=attention,
    )
    others = [table, *records, *dropped, *splits, *round_trips, *phrases, *chunks, *annotators]
    others += [*lengths, *analyses, *attention, *contrasts]
    others += [*source, *references, *translations, *parses, *phrase_columns, *chunk_columns]
    evidence = Measured(table=content, trainings=trainings, gains=gains, attention=of_attention, contrasts=decided)
    sections = [
        findings_section(content),
        sentences_section(content, test_sets),
        results_section(content),
        scorecard_section(content),
        claims_section(settings.claims, settings.figures, evidence),
        analyses_section(parts),
        curves_section(content.datasets, trainings, titles),
        systems_section(content, trainings, records),
        syntax_section(phrases, chunks, annotators),
        data_section(dropped, splits, round_trips),
        origins_section(content, others),
        run_section(content, trainings, settings.costs),
    ]
    shown = [section for section in sections if section is not None]
    write_text(report, write_page(settings.title, fill("report.html", table=content, titles=titles), shown))
    log.info("write_report: %d trainings, %d sections", len(trainings), len(shown))
