"""Shares: the micro-batches of an update that one process computes, made ahead while a GPU computes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from phrasemt.batching.batch import Batch
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches_of_rank
from phrasemt.batching.tensors import Tensors
from phrasemt.errors import PhrasemtError
from phrasemt.machine.launch import PASSED_ON

Rows = NDArray[np.int64]
# An update of a plan: epoch, number within the epoch, rows.
PlannedUpdate = tuple[int, int, Rows]

# Processes that make shares ahead, by type of device. Making one takes about as long as an H100 computes it. A CPU
# would take the time of these processes from the training, which makes its share itself in 0.5 % of its time.
WORKERS = {"cpu": 0, "cuda": 2}


@dataclass(frozen=True, kw_only=True)
class Share(Tensors):
    """The micro-batches of an update that one process computes.

    weight: of their sums in the update; 0 where a process without rows computes one that counts nothing.
    capacity: that they were cut for.
    """

    batches: tuple[Batch, ...]
    weight: float
    capacity: int

    def pin_memory(self) -> Share:
        """Return a copy in memory that the GPU reads while the host goes on. DataLoader calls this."""
        return self.map(lambda x, _: x.pin_memory())


@dataclass(frozen=True)
class ShareReader(Dataset[tuple[PlannedUpdate, Share | PhrasemtError]]):
    """Makes the shares of process `rank` of `ranks`, for a device of this type."""

    reader: BatchReader
    device: str
    rank: int = 0
    ranks: int = 1

    def read(self, rows: Rows, capacity: int) -> Share:
        """Return the share of an update, in micro-batches of at most `capacity` positions.

        Raises DamagedFileError for phrases or chunks that do not fit their sentence.
        """
        examples = self.reader.examples
        parts = micro_batches_of_rank(
            rows,
            examples.source_lengths,
            examples.target_lengths,
            capacity=capacity,
            device=self.device,
            rank=self.rank,
            ranks=self.ranks,
        )
        batches = tuple(self.reader(part) for part in parts or [rows[:1]])
        return Share(batches=batches, weight=1.0 if parts else 0.0, capacity=capacity)

    def ahead(
        self, updates: Iterable[PlannedUpdate], capacity: Callable[[], int]
    ) -> Generator[tuple[PlannedUpdate, Share]]:
        """Yield each update of a plan with its share, which a worker has made in the meantime on a GPU.

        capacity: returns the present one. A share may have been made for the one before. Closing the generator ends
        the workers. Raises DamagedFileError as `read`.
        """
        workers = WORKERS[self.device]
        loader = DataLoader(
            self,
            batch_size=None,  # an update of the plan is an index of this data set, and its share the item
            sampler=((update, capacity()) for update in updates),
            collate_fn=lambda item: item,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            pin_memory=self.device == "cuda",
            generator=torch.Generator(),  # for seeds of workers, which draw nothing; the global one stays as it is
        )
        # Signals to stop concern the training, which goes on until it has saved its state. A worker inherits that they
        # are blocked, so none ends it, not even in its first instant. A worker whose training was killed ends by itself
        # within five seconds (torch.utils.data).
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            shares = iter(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            for update, share in shares:
                if isinstance(share, PhrasemtError):
                    raise share
                yield update, share
        finally:
            del shares  # ends the workers

    def __getitem__(self, item: tuple[PlannedUpdate, int]) -> tuple[PlannedUpdate, Share | PhrasemtError]:
        update, capacity = item
        try:
            return update, self.read(update[2], capacity)
        except PhrasemtError as error:  # DataLoader would raise it with the worker's traceback as its message
            return update, error
