"""The lines of a split: their rows, and positions of words among the subwords that encoder and decoder read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from phrasemt.artefacts.corpus import Rows
from phrasemt.errors import DataError
from phrasemt.files.lines import LineBlock
from phrasemt.symbols import SEPARATOR

Item = TypeVar("Item")

LINES_PER_BLOCK = 8192


@dataclass(frozen=True)
class SplitLines(Generic[Item]):
    """Some lines of a split. given: for each line its item of your files; None without such files."""

    rows: list[int]
    tokens: LineBlock
    subwords: LineBlock
    given: list[Item] | None

    def place(self, number: int) -> str:
        """The file and the line of a sentence, for messages."""
        return f"{self.tokens.path}, line {self.tokens.first + number}"


def split_lines(
    rows: Path, tokens: Path, subwords: Path, *, what: str, files: Sequence[Path], items: Iterable[Item]
) -> Iterator[SplitLines[Item]]:
    """The lines of a split in blocks of LINES_PER_BLOCK.

    items: the items of your files (`files`) for each raw pair, dropped pairs included; what: their name in messages.
    Raises DataError if the files have unequal numbers of lines, and if there are too few items.
    """
    rest = iter(items)
    last = -1
    for numbers, (tokens_block, subwords_block) in Rows.blocks(rows, tokens, subwords, lines=LINES_PER_BLOCK):
        steps = itertools.pairwise([last, *numbers])
        given = [item for before, row in steps for item in itertools.islice(rest, row - before - 1, row - before)]
        if files and len(given) < len(numbers):
            raise DataError(
                f"the file of {what} has too few sentences",
                where=", ".join(map(str, files)),
                expected=f"at least {numbers[-1] + 1}, one for each raw pair",
                next_step=f"give the {what} of every raw sentence, dropped sentences included",
            )
        yield SplitLines(numbers, tokens_block, subwords_block, given if files else None)
        last = numbers[-1]


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
    all_offsets = []
    for number, (line, cut) in enumerate(zip(lines, subwords.lines(), strict=True)):
        if (offsets := word_offsets(line, cut)) is None:
            raise DataError(
                "words and subwords belong to different sentences",
                where=f"{tokens.path} and {subwords.path}, line {tokens.first + number}",
                expected=repr(line[:80]),
                found=repr(cut[:80]),
                next_step="run apply_subwords again",
            )
        all_offsets.append(offsets)
    return lines, all_offsets
