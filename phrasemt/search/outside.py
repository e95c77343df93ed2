"""Translations and references of other programs, as tokens and as text.

Lines lose a byte order mark, carriage returns and runs of white space, as the texts of a data set do. Raw text is
tokenised by the tokeniser of the data set; tokens are detokenised by it, and unescaped Moses tokens are escaped as the
project's are, so that `don't` and `don &apos;t` count as the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable

from phrasemt.corpus.normalise import normalise_spaces
from phrasemt.study.tokenization import Tokenizer
from phrasemt.symbols import escape, unescape
from phrasemt.text.tokenize import line_detokenizer, line_tokenizer


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
