"""Positions of words among the subwords that encoder and decoder read."""

from __future__ import annotations

import itertools
import re

from phrasemt.errors import DataError
from phrasemt.files.lines import LineBlock
from phrasemt.symbols import SEPARATOR


def word_offsets(tokens: str, subwords: str) -> list[int] | None:
    """The position of the first subword of each word of a line, then the position of `</s>`.

    tokens: a line of words; subwords: its line of `apply_subwords`, or the words again if models read whole words.
    Returns None if the two lines are different sentences.
    """
    parts = [*filter(None, subwords.split(" "))]
    if subwords.replace(f"{SEPARATOR} ", "") == tokens and not subwords.endswith(SEPARATOR):
        return [0, *(end for end, part in enumerate(parts, start=1) if not part.endswith(SEPARATOR))]
    return _offsets_by_characters(tokens, " ".join(parts))


def _offsets_by_characters(tokens: str, subwords: str) -> list[int] | None:
    """`word_offsets` of lines in which a word ends in @@ or two spaces follow a word."""
    words = [f"({f'(?:{SEPARATOR} )?'.join(map(re.escape, word))})" for word in tokens.split(" ") if word]
    match = re.fullmatch(" ".join(words), subwords)
    return list(itertools.accumulate((cut.count(" ") + 1 for cut in match.groups()), initial=0)) if match else None


def offsets_of_block(tokens: LineBlock, subwords: LineBlock) -> tuple[list[str], list[list[int]]]:
    """The lines of tokens and the offsets of their words (`word_offsets`).

    Raises DataError, with file and line, if words and subwords are different sentences.
    """
    lines = tokens.lines()
    found = []
    for number, (line, cut) in enumerate(zip(lines, subwords.lines(), strict=True)):
        if (offsets := word_offsets(line, cut)) is None:
            raise DataError(
                "words and subwords belong to different sentences",
                where=f"{tokens.path} and {subwords.path}, line {tokens.first + number}",
                expected=repr(line[:80]),
                found=repr(cut[:80]),
                next_step="run apply_subwords again",
            )
        found.append(offsets)
    return lines, found


def row_numbers(rows: LineBlock, *, after: int) -> list[int]:
    """The rows of a block of a `.rows` file. Raises DataError, with file and line, if they do not increase."""
    numbers = [int(line) if line.isascii() and line.isdigit() else -1 for line in rows.lines()]
    for number, (last, row) in enumerate(itertools.pairwise([after, *numbers]), start=rows.first):
        if row <= last:
            raise DataError(
                "rows must be increasing numbers",
                where=f"{rows.path}, line {number}",
                next_step="run clean_pairs again",
            )
    return numbers
