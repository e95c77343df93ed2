"""Sums over the processes of one machine, in memory that they share.

gloo sends gradients through sockets, which takes a tenth of the time of an update. Here each process writes its
gradients once, sums one part of the numbers of all processes, and reads all sums.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class SharedMemory:
    """An anonymous file that the launcher has opened for `size` processes. rank: number of this process."""

    def __init__(self, descriptor: int, rank: int, size: int) -> None:
        self._descriptor, self._rank, self._size = descriptor, rank, size
        self._slots_RN = torch.empty(size, 0)

    def add(self, tensors: Sequence[Tensor], wait: Callable[[], None]) -> None:
        """Sum float32 tensors over all processes, in place. All processes get bit-identical sums.

        wait: a barrier, which returns when all processes have called it.
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
        """Map the file as a tensor [R processes, N numbers]."""
        size = self._size * numbers * torch.float32.itemsize
        if self._rank == 0:
            os.ftruncate(self._descriptor, size)
        wait()
        return torch.frombuffer(mmap.mmap(self._descriptor, size), dtype=torch.float32).view(self._size, numbers)
