"""The stage `translate_with_moses`: translate a split by Moses' decoder.

The tables are first filtered to the phrases of the split, because Moses keeps them in memory.
"""

from __future__ import annotations

import logging
from pathlib import Path

from phrasemt.artefacts.moses import TunedWeights
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines, write_lines, write_text
from phrasemt.files.system import work_folder
from phrasemt.moses.casing import restore_case
from phrasemt.moses.configuration import moses_ini, untuned_weights
from phrasemt.moses.installation import run
from phrasemt.stages.moses import TranslateWithMoses
from phrasemt.symbols import escape, unescape
from phrasemt.text.tokenize import line_detokenizer

log = logging.getLogger("phrasemt.translate_with_moses")


def translate_with_moses(
    *,
    settings: TranslateWithMoses,
    cores: int,
    weights: list[Path],
    language_model: Path,
    phrase_table: Path,
    reordering_table: Path,
    source: Path,
    tokens: Path,
    text: Path,
) -> None:
    """Translate each line of a split; the translation of a blank line is blank (T6).

    weights: the tuned ones; without a file, the untuned ones. tokens: with the first word in upper case if the system
    has a truecaser. text: detokenised. Raises PhrasemtError if the decoder leaves out a sentence.
    """
    values = TunedWeights.read(weights[0]).weights if weights else untuned_weights()
    ini = moses_ini(settings.model, settings.decoding, language_model, phrase_table, reordering_table, values)
    lines = [line.strip() for line in read_lines(source)]
    with work_folder(tokens) as work:
        write_text(work / "moses.ini", ini)
        found = iter(_decode([line for line in lines if line], work, cores, cased=settings.model.case == "truecase"))
        best = [next(found) if line else "" for line in lines]
    write_lines(tokens, best)
    write_lines(text, map(line_detokenizer(settings.target_tokenizer), best))
    log.info("translate_with_moses: %d sentences, %d words", len(best), sum(len(line.split()) for line in best))


def _decode(sentences: list[str], work: Path, cores: int, *, cased: bool) -> list[str]:
    """The translation of each sentence, as escaped tokens. cased: begin it in upper case."""
    if not sentences:
        return []
    source, best, filtered = work / "source", work / "best", work / "filtered"
    write_lines(source, sentences)
    run("scripts/training/filter-model-given-input.pl", filtered, work / "moses.ini", source, work=work)
    run(
        "bin/moses", "-threads", cores, "-config", filtered / "moses.ini", "-input-file", source, stdout=best, work=work
    )
    if cased:
        restore_case(best, work / "cased", work)
        best = work / "cased"
    # Unknown words are copied from the source, and its tokens may be written without escapes.
    found = [escape(unescape(line.strip())) for line in read_lines(best)]
    what, next_step = "the decoder left out sentences", "see the log of this stage"
    check_equal(len(sentences), len(found), what, where=source.parent, next_step=next_step)
    return found
