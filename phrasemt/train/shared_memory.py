"""Sums over the processes of one machine, in memory that all of them see.

gloo sends the gradients through sockets, which takes a tenth of the time of an update. Here each process writes its own
once, adds up a part of all, and reads the sums.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class SharedMemory:
    """An anonymous file that the launcher has opened for the `size` processes, of which this is number `rank`."""

    def __init__(self, descriptor: int, rank: int, size: int) -> None:
        self._descriptor, self._rank, self._size = descriptor, rank, size
        self._slots_RN = torch.empty(size, 0)

    def add(self, tensors: Sequence[Tensor], wait: Callable[[], None]) -> None:
        """Add up tensors of float32 over all processes, in place; in one order, so that all get the same.

        wait: returns when all processes have called it.
        """
        numbers = sum(tensor.numel() for tensor in tensors)
        if self._slots_RN.shape[1] != numbers:
            self._slots_RN = self._mapped(numbers, wait)
        torch.cat([tensor.flatten() for tensor in tensors], out=self._slots_RN[self._rank])
        wait()
        first, last = (numbers * rank // self._size for rank in (self._rank, self._rank + 1))
        sums, *others = self._slots_RN[:, first:last]
        for other in others:
            sums += other
        wait()
        parts = torch.split(self._slots_RN[0], [tensor.numel() for tensor in tensors])
        for tensor, total in zip(tensors, parts, strict=True):
            tensor.copy_(total.view_as(tensor))
        wait()

    def _mapped(self, numbers: int, wait: Callable[[], None]) -> Tensor:
        """Room for so many numbers of each process: [R processes, N numbers]."""
        size = self._size * numbers * torch.float32.itemsize
        if self._rank == 0:
            os.ftruncate(self._descriptor, size)
        wait()
        return torch.frombuffer(mmap.mmap(self._descriptor, size), dtype=torch.float32).view(self._size, numbers)
