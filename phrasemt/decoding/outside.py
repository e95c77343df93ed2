"""Translations of other programs as tokens and as text, and the stage `import_translations`, which reads them.

Lines lose a byte order mark, carriage returns and runs of white space, as the texts of a data set do. Raw text is
tokenised by the tokeniser of the data set; tokens are detokenised by it, and unescaped Moses tokens are escaped as the
project's are, so that `don't` and `don &apos;t` count as the same tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from phrasemt.errors import DataError, check_equal
from phrasemt.files.lines import count_lines, read_lines, write_lines
from phrasemt.files.preprocessing import Preprocessing, check_same_preprocessing, normalise_spaces
from phrasemt.scoring.bleu import check_side, warn_of_leftovers
from phrasemt.stages.decoding import ImportTranslations
from phrasemt.study.tokenization import Tokenizer
from phrasemt.symbols import escape, unescape
from phrasemt.text.tokenize import line_detokenizer, line_tokenizer

log = logging.getLogger("phrasemt.import_translations")


def import_translations(
    *, settings: ImportTranslations, cores: int, translations: Path, reference: Path, tokens: Path, text: Path
) -> None:
    """Write the translations of another program as tokens and as text, line by line beside the test set.

    reference: the target side of the test set, which has as many lines and is prepared alike.
    Raises MismatchError for a file with another number of lines, DataError for one with bytes that are not UTF-8,
    without text, of another form than text (such as a log), or of tokens or escapes in place of text.
    """
    lines = list(read_lines(translations))
    sentences = count_lines(reference)
    what = f"the number of translations is not that of the lines of {reference}"
    next_step = "translate this test set; a sentence without a translation is an empty line"
    check_equal(sentences, len(lines), what, where=translations, next_step=next_step)
    of_line = both_forms(settings.target_tokenizer, tokenised=False)
    token_lines, text_lines = (list(side) for side in zip(*map(of_line, lines), strict=True))
    if not any(token_lines):
        raise DataError("the translations hold no text", where=translations, next_step="name another file")
    Preprocessing.of(lines).check_plain_text(translations)
    counts = check_side(translations, token_lines, translations, text_lines)
    check_same_preprocessing({str(translations): counts, str(reference): Preprocessing.of(read_lines(reference))})
    warn_of_leftovers(translations, text_lines, counts)
    write_lines(tokens, token_lines)
    write_lines(text, text_lines)
    blank = token_lines.count("")
    log.info("import_translations: %d sentences, %d of them without a translation", sentences, blank)


def both_forms(tokenizer: Tokenizer, *, tokenised: bool) -> Callable[[str], tuple[str, str]]:
    """A function from a line to its tokens, separated by single spaces, and its text. tokenised: lines are tokens."""
    tokenize, detokenize = line_tokenizer(tokenizer), line_detokenizer(tokenizer)

    def of_tokens(line: str) -> tuple[str, str]:
        tokens = normalise_spaces(line)
        if tokenizer.unit == "moses":
            tokens = escape(unescape(tokens))
        return tokens, detokenize(tokens)

    def of_text(line: str) -> tuple[str, str]:
        text = normalise_spaces(line)
        return tokenize(text), text

    return of_tokens if tokenised else of_text
