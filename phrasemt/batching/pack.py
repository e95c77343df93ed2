"""The stage `pack_examples`: a split's subwords as ids, in the example store of `phrasemt.batching.example`."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.batching.example import COLUMNS, describe
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.columns import Lists, RowBatch, write_columns
from phrasemt.files.lines import LineBlock, read_parallel_blocks
from phrasemt.files.parallel import batched, map_in_order
from phrasemt.settings import PackSettings
from phrasemt.symbols import UNK
from phrasemt.text.vocab import Vocabulary

log = logging.getLogger("phrasemt.pack_examples")

_PAIRS_PER_BLOCK = 8192
_BLOCKS_PER_RECORD_BATCH = 8
# Subwords of one data set are all but unseen characters known to its vocabulary; this many unknown are a mix-up.
_MOST_UNKNOWN = 0.5


@dataclass(frozen=True)
class _PackedBlock:
    rows: NDArray[np.int64]
    source: Lists
    target: Lists


def pack_examples(
    *,
    settings: PackSettings,
    cores: int,
    rows: Path,
    source: Path,
    target: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    examples: Path,
) -> None:
    """Store a split as ids, in the order of its files, with the row of each pair.

    Raises DataError when the files are out of step or rows do not increase, MismatchError when a vocabulary knows
    less than half of its side.
    """
    vocabularies = Vocabulary.from_file(source_vocabulary), Vocabulary.from_file(target_vocabulary)
    blocks = map_in_order(
        _look_up,
        read_parallel_blocks(rows, source, target, lines=_PAIRS_PER_BLOCK),
        jobs=cores,
        prepare=_vocabularies,
        arguments=vocabularies,
    )
    unknown = np.zeros(2, dtype=np.int64)
    subwords = np.zeros(2, dtype=np.int64)

    def batches() -> Iterator[RowBatch]:
        pairs, last_row = 0, -1
        for batch in batched(blocks, _BLOCKS_PER_RECORD_BATCH):
            for block in batch:
                _check_rows(rows, block.rows, after=last_row, line=pairs)
                last_row = int(block.rows[-1])
                pairs += len(block.rows)
                subwords[:] += [len(block.source.values), len(block.target.values)]
                unknown[:] += [np.count_nonzero(side.values == UNK) for side in (block.source, block.target)]
            sides = Lists.joined([block.source for block in batch]), Lists.joined([block.target for block in batch])
            yield np.concatenate([block.rows for block in batch]), dict(zip(COLUMNS, sides, strict=True))

    pairs = write_columns(examples, columns=COLUMNS, description=describe(*vocabularies), batches=batches())
    shares = unknown / np.maximum(subwords, 1)
    for share, side, vocabulary in zip(shares, (source, target), (source_vocabulary, target_vocabulary), strict=True):
        if share > _MOST_UNKNOWN:
            raise MismatchError(
                f"most subwords are not in the vocabulary {vocabulary}",
                where=side,
                expected="few unknown subwords",
                found=f"{share:.1%}",
                next_step="use the vocabulary built from this data set's training text, of the same side",
            )
    log.info(
        "pack_examples: %s pairs, %s source subwords (%s unknown), %s target subwords (%s unknown)",
        f"{pairs:,}",
        *(text for count, share in zip(subwords, shares, strict=True) for text in (f"{count:,}", f"{share:.2%}")),
    )


def _vocabularies(source: Vocabulary, target: Vocabulary) -> tuple[Vocabulary, Vocabulary]:
    return source, target


def _look_up(vocabularies: tuple[Vocabulary, Vocabulary], blocks: tuple[LineBlock, ...]) -> _PackedBlock:
    rows, source, target = (block.lines() for block in blocks)
    # What is no number becomes -1, so that the check of the order, which knows the line, reports it.
    numbers = np.array([int(row) if row.isascii() and row.isdigit() else -1 for row in rows], dtype=np.int64)
    return _PackedBlock(numbers, *(map(_look_up_side, vocabularies, (source, target))))


def _look_up_side(vocabulary: Vocabulary, sentences: list[str]) -> Lists:
    # Between two words that are not cut there may be two spaces.
    subwords = [[*filter(None, sentence.split(" "))] for sentence in sentences]
    lengths = np.array([*map(len, subwords)], dtype=np.int32)
    return Lists(lengths, vocabulary.ids([*itertools.chain.from_iterable(subwords)]))


def _check_rows(path: Path, rows: NDArray[np.int64], *, after: int, line: int) -> None:
    steps = np.diff(rows, prepend=after)
    if (steps <= 0).any():
        first = int(np.argmax(steps <= 0))
        raise DataError(
            "rows must be increasing numbers",
            where=f"{path}, line {line + first + 1}",
            next_step="run clean_pairs again",
        )
