"""Token files: one sentence per line, tokens separated by single spaces. Moses tokens and subwords have this form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phrasemt.files.lines import LineBlock, read_blocks, write_atomic
from phrasemt.files.parallel import map_in_order


def convert_lines(
    text: Path, tokens: Path, *, cores: int, prepare: Callable[..., Callable[[str], str]], arguments: tuple[Any, ...]
) -> tuple[int, int]:
    """Write `prepare(*arguments)(line)` for each line of a text; returns the numbers of written lines and tokens."""
    lines = count = 0
    converted = map_in_order(_convert, read_blocks(text), jobs=cores, prepare=prepare, arguments=arguments)
    with write_atomic(tokens) as stream:
        for data, lines_of_block, tokens_of_block in converted:
            stream.write(data)
            lines += lines_of_block
            count += tokens_of_block
    return lines, count


def _convert(convert: Callable[[str], str], block: LineBlock) -> tuple[bytes, int, int]:
    sentences = [convert(line) for line in block.lines()]
    text = "\n".join(sentences) + "\n"
    assert text.count("\n") == len(sentences), "a line must stay one line"
    return text.encode("utf-8"), len(sentences), text.count(" ") + len(sentences) - sentences.count("")


def count_tokens(path: Path, *, cores: int) -> Counter[str]:
    """Frequency of each token of a file, in the order of first appearance. Memory grows with the types only."""
    counts: Counter[str] = Counter()
    for part in map_in_order(_count, read_blocks(path), jobs=cores, prepare=_nothing):
        counts.update(part)  # the parts come in order, so tokens keep the order of their first appearance
    return counts


def _count(prepared: None, block: LineBlock) -> Counter[str]:
    counts = Counter(" ".join(block.lines()).split(" "))
    del counts[""]  # from empty lines; a Counter ignores a missing key
    return counts


def _nothing() -> None:
    return None
