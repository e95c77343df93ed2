"""Files of tokens: one sentence per line, one space between two tokens. The form of Moses tokens and of subwords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from phrasemt.lines import read_lines, write_lines
from phrasemt.parallel import chunked, map_in_order

_LINES_PER_CHUNK = 8192


def write_tokens(path: Path, sentences: Iterable[str]) -> tuple[int, int]:
    """Write sentences; returns the numbers of lines and of tokens."""
    tokens = 0

    def counted() -> Iterator[str]:
        nonlocal tokens
        for sentence in sentences:
            tokens += sentence.count(" ") + 1 if sentence else 0
            yield sentence

    return write_lines(path, counted()), tokens


def count_tokens(path: Path, *, cores: int) -> Counter[str]:
    """How often each token of a file occurs, in the order of first appearance. Memory grows with the types only."""
    counts: Counter[str] = Counter()
    for part in map_in_order(_count, chunked(read_lines(path), _LINES_PER_CHUNK), jobs=cores, prepare=_nothing):
        counts.update(part)  # keeps the order of first appearance, since the parts come in order
    return counts


def _count(prepared: None, lines: list[str]) -> Counter[str]:
    counts = Counter(" ".join(lines).split(" "))
    del counts[""]  # empty lines; a Counter forgives a missing key
    return counts


def _nothing() -> None:
    return None
