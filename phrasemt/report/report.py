"""The stage `write_report`: one HTML page about a study, which needs no other file and no network.

Each section is made by a module of `sections/`; phrasemt/report/page.py is their frame. Equal inputs give equal bytes.
"""

from __future__ import annotations

import logging
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.files.lines import write_text
from phrasemt.report.page import write_page
from phrasemt.report.sections.analyses import attention_sections, controls_section, lengths_section, pairs_section
from phrasemt.report.sections.results import (
    caveats,
    metrics_section,
    origins_section,
    results_section,
    scorecard_section,
)
from phrasemt.report.sections.sentences import of_side, read_test_sets, sentences_section
from phrasemt.report.sections.trainings import (
    check_trainings,
    curves_section,
    data_section,
    read_training,
    syntax_section,
    systems_section,
)
from phrasemt.report.summary import answer
from phrasemt.scoring.gains import PairedTest, gains_of, gains_of_pairs, words_of
from phrasemt.stages.report import WriteReport

log = logging.getLogger("phrasemt.report.report")


def write_report(
    *,
    settings: WriteReport,
    cores: int,
    table: Path,
    training_record: list[Path],
    dropped_pairs: list[Path],
    compared_splits: list[Path],
    round_trip: list[Path],
    phrase_statistics: list[Path],
    chunk_statistics: list[Path],
    card: list[Path],
    attention_analysis: list[Path],
    attention_weights: list[Path],
    contrast_accuracy: list[Path],
    tokens: list[Path],
    translated_tokens: list[Path],
    system_scores: list[Path],
    subwords: list[Path],
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
    trainings = [read_training(path) for path in training_record]
    check_trainings(content, trainings)
    test = PairedTest(samples=settings.samples, seed=settings.seed, repeated=settings.repeated, kinds=settings.kinds)
    of_attention = [AttentionAnalysis.read(path) for path in attention_analysis]
    of_pairs = gains_of_pairs(map(ContrastAccuracy.read, contrast_accuracy), test)
    scores = map(SystemScores.read, system_scores)
    words = words_of(of_side(Paths.tokens, tokens, "source"))
    comparable = [one for one in of_attention if one.system not in settings.chunking]
    gains = list(gains_of(scores=scores, analyses=comparable, words=words, test=test))
    test_sets = read_test_sets(
        tokens=tokens,
        subwords=subwords,
        translated_tokens=translated_tokens,
        system_scores=system_scores,
        parses=parses,
        phrase_columns=phrase_columns,
        chunk_columns=chunk_columns,
        attention_weights=attention_weights,
    )
    # The table names the score files and what they are made of.
    others = [table, *training_record, *dropped_pairs, *compared_splits, *round_trip, *phrase_statistics]
    others += [*chunk_statistics, *card, *attention_analysis, *attention_weights, *contrast_accuracy, *tokens]
    others += [*translated_tokens, *parses, *phrase_columns, *chunk_columns]
    sections = [
        results_section(content, trainings),
        sentences_section(content, test_sets),
        lengths_section(content, settings.controls, gains),
        controls_section(content, settings.controls, gains),
        pairs_section(content, settings.controls, of_pairs),
        *attention_sections(of_attention, dict(content.systems)),
        curves_section(content, trainings),
    ]
    shown = [section for section in sections if section is not None]
    details = [
        scorecard_section(content, shown),
        systems_section(content, trainings, training_record),
        syntax_section(phrase_statistics, chunk_statistics, card),
        data_section(dropped_pairs, compared_splits, round_trip),
        metrics_section(content),
        origins_section(content, others),
    ]
    shown += [section for section in details if section is not None]
    caveat = caveats(content, settings.controls, trainings)
    write_text(report, write_page(settings.title, answer(content), caveat, shown))
    log.info("write_report: %d trainings, %d sections", len(trainings), len(shown))
