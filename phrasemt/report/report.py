"""The stage `write_report`: one HTML page about a study, which needs no other file and no network.

Each section is made by a module of `sections/`; phrasemt/report/page.py is their frame. Equal inputs give equal bytes
up to the last section, "This run".
"""

from __future__ import annotations

import logging
from pathlib import Path

from phrasemt.artefacts import by_kind
from phrasemt.artefacts.card import Card
from phrasemt.artefacts.corpus import ComparedSplits, DroppedPairs, RoundTrip, Subwords, Tokens
from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.syntax import ChunkStatistics, PhraseStatistics
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.training import TrainingRecord
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.files.lines import write_text
from phrasemt.report.page import fill, write_page
from phrasemt.report.sections.analyses import (
    analyses_section,
    attention_analyses,
    contrast_analyses,
    control_analyses,
    gain_analyses,
    length_analyses,
)
from phrasemt.report.sections.results import origins_section, results_section, scorecard_section
from phrasemt.report.sections.sentences import of_side, read_test_sets, sentences_section
from phrasemt.report.sections.this_run import run_section
from phrasemt.report.sections.trainings import (
    check_trainings,
    curves_section,
    data_section,
    read_training,
    syntax_section,
    systems_section,
)
from phrasemt.scoring.gains import PairedTest, decided_pairs, gains_of, words_of
from phrasemt.stages.report import WriteReport

log = logging.getLogger("phrasemt.report.report")


def write_report(*, settings: WriteReport, cores: int, table: Path, files: list[Path], report: Path) -> None:
    """Write the page of a study.

    Raises DataError when a training of the table has no record, MismatchError when a score file is not the one that the
    table was made from, and DamagedFileError for a file that cannot be read or has changed since its stage wrote it.
    """
    read = by_kind(files, WriteReport.inputs["files"])
    content = Table.read(table)
    titles = dict(content.systems)
    records = read[TrainingRecord]
    trainings = [read_training(path) for path in records]
    check_trainings(content, trainings)
    test = PairedTest(samples=settings.samples, seed=settings.seed, repeated=settings.repeated)
    of_attention = [AttentionAnalysis.read(path) for path in read[AttentionAnalysis]]
    decided = decided_pairs(map(ContrastAccuracy.read, read[ContrastAccuracy]), test)
    scores = map(SystemScores.read, read[SystemScores])
    words = words_of(of_side(read[Tokens], "source"))
    gains = list(gains_of(scores=scores, analyses=of_attention, words=words, test=test))
    parts = [
        *length_analyses(gains, titles),
        *gain_analyses(content, settings.controls, gains),
        *control_analyses(content, settings.controls, gains),
        *contrast_analyses(content, settings.controls, decided),
        *attention_analyses(of_attention, titles),
    ]
    named_by_the_table = {*read[SystemScores], *read[Subwords]}
    others = [table, *(path for path in files if path not in named_by_the_table)]
    sections = [
        sentences_section(content, read_test_sets(read)),
        results_section(content),
        scorecard_section(content),
        analyses_section(parts),
        curves_section(content.datasets, trainings, titles),
        systems_section(content, trainings, records),
        syntax_section(read[PhraseStatistics], read[ChunkStatistics], read[Card]),
        data_section(read[DroppedPairs], read[ComparedSplits], read[RoundTrip]),
        origins_section(content, others),
        run_section(content, trainings),
    ]
    shown = [section for section in sections if section is not None]
    write_text(report, write_page(settings.title, fill("report.html", table=content, titles=titles), shown))
    log.info("write_report: %d trainings, %d sections", len(trainings), len(shown))
