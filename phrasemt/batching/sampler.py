"""Which sentences an update sees, and how an update is cut into micro-batches.

The plan of updates follows from the lengths, the study and the seed alone. How an update is cut into
micro-batches, and over how many processes, follows from the machine and changes no sum (but for which units dropout
takes, and where a model's phrases follow from its batch, `ntok_scope: batch`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemt.errors import DataError

# Sentences of similar length stand together in blocks of about so many target tokens. It is what one device gets in the
# papers' set-ups (8 x 4,096 tokens): one micro-batch without padding, and an update of a paper's size mixes lengths.
BLOCK_TOKENS = 4_096
# Rows that are shuffled and sorted at once. A larger corpus is dealt out to pools in short runs of rows, other ones in
# every epoch, so that the plan takes the same memory for any corpus, and reads files nearly in their order.
POOL_ROWS = 2**20
_RUN = 64
# Padding of a micro-batch, in positions and as a share, above which it takes no longer sentences. One micro-batch more
# costs about as much as these positions.
_PADDING_POSITIONS = 256
_PADDING = 0.05


class Lengths(Protocol):
    """Of sentences, by row: an array, or what reads it from a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: NDArray[np.int64], /) -> NDArray[np.int32]: ...


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """The rows of every update of every epoch.

    source_lengths, target_lengths: subwords per row, without special symbols. Rows with a side longer than `max_length`
    positions (`</s>` included) are left out. An update has about `update_size` target tokens (`</s>` included),
    or with `by_sentences` about so many rows; every other row is seen exactly once per epoch.
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
                expected=f"a pair of at most {self.max_length - 1} subwords a side",
                found=f"{len(self.source_lengths)} longer pairs",
                next_step="raise training.max_length",
            )

    @property
    def pairs(self) -> int:
        """How many rows are short enough."""
        return self._totals[0]

    @property
    def updates_of_an_epoch(self) -> int:
        """About how many updates see all rows once."""
        return max(1, round(self._totals[1] / self.update_size))

    @functools.cached_property
    def _totals(self) -> tuple[int, int]:
        """Rows that are short enough, and the sum of their sizes."""
        pools = map(self._short_enough, self._pools(np.arange(self._runs)))
        pairs, sizes = zip(*((len(rows), int(self._sizes(rows).sum())) for rows in pools), strict=True)
        return sum(pairs), sum(sizes)

    def longest(self, count: int) -> tuple[NDArray[np.int64], int]:
        """So many of the longest rows, if there are as many, the longest first; and its positions."""
        rows = np.empty(0, np.int64)
        for pool in self._pools(np.arange(self._runs)):
            rows = np.concatenate([rows, self._short_enough(pool)])
            rows = rows[np.argsort(-self._positions(rows), kind="stable")[:count]]
        return rows, int(self._positions(rows[:1])[0])

    def _positions(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Of the longer side of each row, `</s>` included."""
        return np.maximum(self.source_lengths[rows], self.target_lengths[rows]) + 1

    def _short_enough(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[self._positions(rows) <= self.max_length]

    def _sizes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each row counts for in the size of an update."""
        lengths = self.target_lengths[rows].astype(np.int64)
        return np.ones_like(lengths) if self.by_sentences else lengths + 1

    @property
    def _runs(self) -> int:
        return math.ceil(len(self.source_lengths) / _RUN)

    def _pools(self, runs: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The rows of runs in equal pools, each in the order of the corpus."""
        for some in np.array_split(runs, max(1, round(len(self.source_lengths) / POOL_ROWS))):
            rows = (np.sort(some)[:, None] * _RUN + np.arange(_RUN)).ravel()
            yield rows[rows < len(self.source_lengths)]

    def epoch(self, epoch: int) -> Iterator[NDArray[np.int64]]:
        """The updates of an epoch (counted from 0), each an array of rows."""
        random = np.random.default_rng([self.seed, epoch])
        runs = np.random.default_rng([self.seed, epoch, 1]).permutation(self._runs)
        for pool in self._pools(runs):
            if len(rows := self._short_enough(pool)):
                yield from self._of_pool(rows, random)

    def _of_pool(self, rows: NDArray[np.int64], random: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        rows = random.permutation(rows)
        # The sort is stable, so rows of equal lengths keep their random order and meet other rows in every epoch.
        rows = rows[np.lexsort((self.source_lengths[rows], self.target_lengths[rows]))]
        sizes = self._sizes(rows)
        block_of_row = (np.cumsum(sizes) - sizes) // min(BLOCK_TOKENS, self.update_size)
        edges = np.flatnonzero(np.diff(block_of_row)) + 1
        blocks, size_of_block = np.split(rows, edges), np.add.reduceat(sizes, [0, *edges])
        order = random.permutation(len(blocks))
        blocks, size_of_block = [blocks[index] for index in order], size_of_block[order]

        # A block goes to the equal share of the pool that its middle lies in, so no update is a small remainder with
        # a noisy gradient.
        updates = max(1, round(size_of_block.sum() / self.update_size))
        starts = np.cumsum(size_of_block) - size_of_block
        update_of_block = (2 * starts + size_of_block) * updates // (2 * size_of_block.sum())
        edges = np.flatnonzero(np.diff(update_of_block)) + 1
        for first, last in _ranges(edges, len(blocks)):
            yield np.concatenate(blocks[first:last])

    def updates(self, *, first_epoch: int = 0, first_update: int = 0) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """(epoch, update within the epoch, rows) without end, from a place on."""
        epoch = first_epoch
        while True:
            for index, rows in enumerate(self.epoch(epoch)):
                if epoch > first_epoch or index >= first_update:
                    yield epoch, index, rows
            epoch += 1


def _ranges(edges: NDArray[np.int64], end: int) -> Iterator[tuple[int, int]]:
    yield from zip([0, *edges.tolist()], [*edges.tolist(), end], strict=True)


def micro_batches(
    rows: Sequence[int] | NDArray[np.int64],
    source_lengths: Lengths,
    target_lengths: Lengths,
    *,
    capacity: int,
) -> list[NDArray[np.int64]]:
    """Rows cut into micro-batches of at most `capacity` positions a side, padding included, similar lengths together.

    A sentence longer than the capacity stands alone.
    """
    return _cut(*_by_length(rows, source_lengths, target_lengths), capacity)


def share(
    rows: Sequence[int] | NDArray[np.int64],
    source_lengths: Lengths,
    target_lengths: Lengths,
    *,
    capacity: int,
    rank: int,
    ranks: int,
) -> list[NDArray[np.int64]]:
    """The micro-batches of an update that process `rank` of `ranks` computes: about as many positions as each other's.

    Together the processes have each row once, whatever the capacity of each. With more processes than rows some have
    none. Each has lengths of its own, because with all lengths a small share would be padding for a tenth and more.
    """
    rows, positions = _by_length(rows, source_lengths, target_lengths)
    # A row belongs to the process in whose equal share of all positions its middle lies.
    mine = (2 * np.cumsum(positions) - positions) * ranks // (2 * positions.sum()) == rank
    return _cut(rows[mine], positions[mine], capacity)


def _by_length(
    rows: Sequence[int] | NDArray[np.int64], source_lengths: Lengths, target_lengths: Lengths
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows, similar lengths together, and the positions of the longer side of each, `</s>` included."""
    rows = np.asarray(rows, dtype=np.int64)
    source, target = source_lengths[rows], target_lengths[rows]
    order = np.lexsort((source, target))
    return rows[order], np.maximum(source, target)[order].astype(np.int64) + 1


def _cut(rows: NDArray[np.int64], positions_of_rows: NDArray[np.int64], capacity: int) -> list[NDArray[np.int64]]:
    """Neighbours together, as `micro_batches` says."""
    cuts, longest, first, real = [], 0, 0, 0
    for index, length in enumerate(positions_of_rows.tolist()):
        longest = max(longest, length)
        positions = longest * (index - first + 1)
        wasteful = positions - real - length > max(_PADDING_POSITIONS, _PADDING * positions)
        if index > first and (positions > capacity or wasteful):
            cuts.append(index)
            first, longest, real = index, length, 0
        real += length
    return np.split(rows, cuts) if len(rows) else []
