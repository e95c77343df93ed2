"""The plan of updates, and the division of an update into micro-batches.

The plan says which pairs each update trains on. It depends on the lengths of the sentences, the study and the seed, and
on nothing else. The division into micro-batches and among processes depends on the machine. It changes no sum over an
update, with two exceptions: the elements that dropout removes, and phrases whose length follows from the padded length
of the batch (`ntok_scope: batch`).

A padded micro-batch holds pairs of similar length. On a GPU a Transformer reads packed ones: rows of a fixed number of
positions, each with several pairs, so that an update is one micro-batch, or two with the pairs that are longer than a
row, and micro-batches differ in the number of rows alone.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemt.batching.batch import Packing
from phrasemt.errors import DataError

# Target tokens of a block: pairs of similar length that an update takes together, as one device of the papers does. A
# block is one micro-batch with little padding, and an update of a paper's size has blocks of several lengths.
BLOCK_TOKENS = 4_096
# Rows that are shuffled and sorted together, a pool. A larger corpus is cut into segments of neighbouring rows, and
# each epoch distributes the segments among pools anew. So the plan needs the same memory for any corpus, and reads the
# file nearly in its order.
POOL_ROWS = 2**20
_SEGMENT_ROWS = 64
# On a CPU a padded micro-batch ends before a longer sentence that would raise its padding above both limits: positions,
# which cost about as much as one more micro-batch, and part of its positions. On a GPU padding costs less than the
# launches of one more micro-batch.
_MAX_PADDING = 256
_MAX_PADDING_SHARE = 0.05


class Lengths(Protocol):
    """Lengths of sentences by row: an array, or a column of a memory-mapped file."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: NDArray[np.int64], /) -> NDArray[np.int32]: ...


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """The rows of every update of every epoch.

    source_lengths, target_lengths: subwords of each row, without special tokens.
    update_size: target tokens of an update with `</s>`; with `by_sentences`, rows of an update. Both approximately.
    max_length: rows with a side of more subwords are left out. Each epoch has every other row once.
    """

    source_lengths: Lengths
    target_lengths: Lengths
    update_size: int
    max_length: int
    seed: int
    by_sentences: bool = False

    def __post_init__(self) -> None:
        """Raises DataError when no row is short enough."""
        if not self.pairs:
            raise DataError(
                "no training pair is short enough",
                expected=f"a pair of at most {self.max_length} subwords a side",
                found=f"{len(self.source_lengths)} longer pairs",
                next_step="raise training.max_length",
            )

    @property
    def pairs(self) -> int:
        """Number of rows that are short enough for training."""
        return self._totals[0]

    @property
    def updates_per_epoch(self) -> int:
        """Approximate number of updates of an epoch."""
        return max(1, round(self._totals[1] / self.update_size))

    @functools.cached_property
    def _totals(self) -> tuple[int, int]:
        """Number of rows that are short enough, and the sum of their sizes."""
        pools = map(self._short_enough, self._pools(np.arange(self._segments)))
        pairs, sizes = zip(*((len(rows), int(self._sizes(rows).sum())) for rows in pools), strict=True)
        return sum(pairs), sum(sizes)

    def positions(self, rows: NDArray[np.int64]) -> int:
        """Return the sum of the positions of the longer sides of rows, `</s>` included, without padding."""
        return int(self._positions(rows).sum())

    def longest(self, count: int) -> tuple[NDArray[np.int64], int]:
        """Return the `count` longest rows (or all rows, if there are fewer), the longest first, and its positions."""
        rows = np.empty(0, np.int64)
        for pool in self._pools(np.arange(self._segments)):
            rows = np.concatenate([rows, self._short_enough(pool)])
            rows = rows[np.argsort(-self._positions(rows), kind="stable")[:count]]
        return rows, int(self._positions(rows[:1])[0])

    def _positions(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Positions of the longer side of each row, `</s>` included."""
        return np.maximum(self.source_lengths[rows], self.target_lengths[rows]) + 1

    def _short_enough(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[self._positions(rows) <= self.max_length + 1]  # positions include `</s>`

    def _sizes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Size of each row in the unit of `update_size`."""
        lengths = self.target_lengths[rows].astype(np.int64)
        return np.ones_like(lengths) if self.by_sentences else lengths + 1

    @property
    def _segments(self) -> int:
        return math.ceil(len(self.source_lengths) / _SEGMENT_ROWS)

    def _pools(self, segments: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Divide segments equally among pools; yield the rows of each pool in the order of the corpus."""
        for some in np.array_split(segments, max(1, round(len(self.source_lengths) / POOL_ROWS))):
            rows = (np.sort(some)[:, None] * _SEGMENT_ROWS + np.arange(_SEGMENT_ROWS)).ravel()
            yield rows[rows < len(self.source_lengths)]

    def epoch(self, epoch: int) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of each update of an epoch. Epochs count from 0."""
        random = np.random.default_rng([self.seed, epoch])
        segments = np.random.default_rng([self.seed, epoch, 1]).permutation(self._segments)
        for pool in self._pools(segments):
            if len(rows := self._short_enough(pool)):
                yield from self._updates_of_pool(rows, random)

    def _updates_of_pool(self, rows: NDArray[np.int64], random: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        rows = random.permutation(rows)
        # The sort is stable: rows of equal lengths keep their random order, so each epoch combines them differently.
        rows = rows[np.lexsort((self.source_lengths[rows], self.target_lengths[rows]))]
        sizes = self._sizes(rows)
        block_of_row = (np.cumsum(sizes) - sizes) // min(BLOCK_TOKENS, self.update_size)
        edges = np.flatnonzero(np.diff(block_of_row)) + 1
        blocks, size_of_block = np.split(rows, edges), np.add.reduceat(sizes, [0, *edges])
        order = random.permutation(len(blocks))
        blocks, size_of_block = [blocks[index] for index in order], size_of_block[order]

        # Divide the pool into updates of equal size; a block belongs to the update in which its middle lies. A fixed
        # size would leave a small last update with a noisy gradient.
        updates = max(1, round(size_of_block.sum() / self.update_size))
        starts = np.cumsum(size_of_block) - size_of_block
        update_of_block = (2 * starts + size_of_block) * updates // (2 * size_of_block.sum())
        edges = np.flatnonzero(np.diff(update_of_block)) + 1
        for first, last in itertools.pairwise([0, *edges.tolist(), len(blocks)]):
            yield np.concatenate(blocks[first:last])

    def updates(self, *, first_epoch: int = 0, first_update: int = 0) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield (epoch, update within the epoch, rows) without end, beginning at an update of an epoch."""
        epoch = first_epoch
        while True:
            for index, rows in enumerate(self.epoch(epoch)):
                if epoch > first_epoch or index >= first_update:
                    yield epoch, index, rows
            epoch += 1


def micro_batches(
    rows: Sequence[int] | NDArray[np.int64],
    source_lengths: Lengths,
    target_lengths: Lengths,
    *,
    capacity: int,
    device: str,
    rank: int = 0,
    ranks: int = 1,
) -> list[NDArray[np.int64]]:
    """Return the micro-batches that process `rank` of `ranks` computes, each of rows of similar lengths.

    capacity: largest number of positions of a micro-batch on either side, padding included. A sentence longer than
    that has a micro-batch of its own. device: type of the device, which decides how much padding pays.
    All processes together have each row once, and about equally many positions, whatever their capacities. With more
    processes than rows some have no micro-batch. Each process takes neighbouring lengths: with all lengths a tenth or
    more of a small share would be padding.
    """
    rows = np.asarray(rows, dtype=np.int64)
    source, target = source_lengths[rows], target_lengths[rows]
    order = np.lexsort((source, target))
    rows, positions = rows[order], np.maximum(source, target)[order].astype(np.int64) + 1  # with `</s>`
    # Divide all positions equally among the processes; a row belongs to the process in whose part its middle lies.
    mine = (2 * np.cumsum(positions) - positions) * ranks // (2 * positions.sum()) == rank
    return _divide(rows[mine], positions[mine], capacity, device)


def packed_rows_of_rank(
    rows: NDArray[np.int64],
    sides_N2: NDArray[np.int64],
    rows_of: Sequence[int],
    *,
    capacity: int,
    rank: int,
    ranks: int,
) -> list[tuple[NDArray[np.int64], Packing | None]]:
    """Return the packed micro-batches of an update that process `rank` of `ranks` computes, the pairs in row order.

    sides_N2: positions of source and target of each pair. rows_of: the numbers of positions of a row, increasing; a
    pair stands in rows of the first number that is enough, and the last one must be enough for all.
    capacity: largest number of positions of a micro-batch in rows of the first length. Attention needs memory for each
    pair of positions of a row, so longer rows have fewer. A micro-batch has at least one row.
    """
    mine = np.argsort(-sides_N2.max(1), kind="stable")[rank::ranks]  # every process has all lengths
    bucket = np.searchsorted(rows_of, sides_N2[mine].max(1))
    parts: list[tuple[NDArray[np.int64], Packing | None]] = []
    for index, positions in enumerate(rows_of):
        pairs = mine[bucket == index]
        packed = best_fit(sides_N2[pairs], positions)
        at_once = max(1, capacity * rows_of[0] // positions**2)
        for first in range(0, len(packed), at_once):
            some = packed[first : first + at_once]
            order = np.array([*itertools.chain.from_iterable(some)], np.int64)
            parts.append((rows[pairs[order]], Packing([len(row) for row in some], positions)))
    return parts


def best_fit(sides_N2: NDArray[np.int64], positions: int) -> list[list[int]]:
    """Return rows of pairs, each of at most this number of positions on either side; a pair must fit a row.

    sides_N2: positions of both sides of each pair, the longest first. Each goes into the fullest row that has room.
    """
    packed: list[list[int]] = []
    free_source_R, free_target_R = np.full((2, len(sides_N2)), positions)
    for pair, (source, target) in enumerate(sides_N2.tolist()):
        row = rows = len(packed)
        fits = np.flatnonzero((free_source_R[:rows] >= source) & (free_target_R[:rows] >= target))
        if len(fits):
            row = int(fits[(free_source_R[fits] + free_target_R[fits]).argmin()])
        else:
            packed.append([])
        packed[row].append(pair)
        free_source_R[row] -= source
        free_target_R[row] -= target
    return packed


def _divide(
    rows: NDArray[np.int64], positions_of_rows: NDArray[np.int64], capacity: int, device: str
) -> list[NDArray[np.int64]]:
    """Divide sorted rows into micro-batches of neighbours, as `micro_batches` describes."""
    padding = _MAX_PADDING if device == "cpu" else math.inf
    cuts, longest, first, real = [], 0, 0, 0
    for index, length in enumerate(positions_of_rows.tolist()):
        longest = max(longest, length)
        positions = longest * (index - first + 1)
        wasteful = positions - real - length > max(padding, _MAX_PADDING_SHARE * positions)
        if index > first and (positions > capacity or wasteful):
            cuts.append(index)
            first, longest, real = index, length, 0
        real += length
    return np.split(rows, cuts) if len(rows) else []
