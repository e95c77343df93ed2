"""Tokens of texts that need no rules of Moses, and the text of such tokens.

Where words have no spaces between them: characters, or Chinese words by jieba. A space of the text is then a token of
its own, U+2581, so the text can be restored exactly. Texts that are tokenised already: what stands between spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from phrasemt.symbols import SPACE, escape, unescape

_CONTROL = re.compile(r"[\x00-\x1f]")


def character_tokenizer() -> Callable[[str], str]:
    """A function from a line of text to its escaped characters, separated by single spaces."""
    return lambda line: _tokens(_plain(line))


def jieba_tokenizer() -> Callable[[str], str]:
    """A function from a line of text to its escaped Chinese words, separated by single spaces."""
    import jieba  # takes 0.3 s, and only Chinese texts need it

    words = jieba.Tokenizer()
    # Not `initialize`, which reads a cache by marshal from a folder that every user of the machine can write to.
    with words.get_dict_file() as dictionary:
        words.FREQ, words.total = words.gen_pfdict(dictionary)
    words.initialized = True
    return lambda line: _tokens(words.cut(_plain(line)))


def space_tokenizer() -> Callable[[str], str]:
    """A function from a line of text to its escaped words, separated by single spaces."""
    return lambda line: escape(_plain(line))


def join_unspaced(line: str) -> str:
    """The text of a line of characters or Chinese words."""
    text = unescape(line).replace(" ", "").replace(SPACE, " ")
    return " ".join(text.split())


def _plain(line: str) -> str:
    """A line with single spaces, and without control characters, which the tokenisers of Moses remove, too."""
    return _CONTROL.sub("", " ".join(line.split())).strip()


def _tokens(words: Iterable[str]) -> str:
    return " ".join(escape(word.replace(" ", SPACE)) for word in words)
