"""Data parallelism: processes that train one model together, each with a copy of the model on its own device.

Each process computes the gradient of its share of an update. The gradients are summed before the step, so all
processes take the same step. They are summed once per update, after all micro-batches; torch's
DistributedDataParallel sums them during each backward pass. So processes may have different numbers of micro-batches,
and a process that runs out of memory can begin its share again without the others.

The launcher describes the processes by the environment variables of `torchrun`: RANK, WORLD_SIZE, LOCAL_RANK and, for
several machines, MASTER_ADDR and MASTER_PORT. `phrasemt.machine.launch` starts the processes of one machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor

from phrasemt.errors import PhrasemtError, check_equal
from phrasemt.machine.launch import RENDEZVOUS, place_in_group

# A process gives up after waiting this long for another one. The others may wait minutes while the first evaluates.
PATIENCE = timedelta(minutes=30)
# Size of a message with gradients: large enough for a network's full speed, small because the message is a copy.
_BYTES_PER_MESSAGE = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
    """One process of a training, and its communication with the others.

    rank: number of this process, from 0 to size - 1. local_rank: its number among the processes of its machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which evaluates and writes files."""
        return self.rank == 0

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Sum the gradients over all processes, in place. Raises LostProcessError."""
        if self.size == 1:
            return
        gradients: list[Tensor] = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        waiting: list[Tensor] = []
        size = 0
        for gradient in gradients:
            waiting.append(gradient)
            size += gradient.nbytes
            if size >= _BYTES_PER_MESSAGE:
                _add(waiting)
                waiting, size = [], 0
        if waiting:
            _add(waiting)

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum over all processes of each number. Raises LostProcessError."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64)
        with _together():
            distributed.all_reduce(total)
        return total.tolist()

    def gather(self, number: int) -> list[int]:
        """Return the numbers of all processes, in the order of their ranks. Raises LostProcessError."""
        return [int(one) for one in self.sum([number * (rank == self.rank) for rank in range(self.size)])]

    def any(self, here: bool) -> bool:
        """Return whether `here` is True in any process. Raises LostProcessError."""
        return self.sum([float(here)]) != [0.0]

    def broadcast(self, value: Any) -> Any:
        """Return the value of the first process in all processes. JSON must be able to represent it.

        Raises LostProcessError.
        """
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.is_first else b""
        length = torch.tensor([len(text)])
        with _together():
            distributed.broadcast(length, src=0)
            message = torch.empty(int(length), dtype=torch.uint8)
            if self.is_first:
                message.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            distributed.broadcast(message, src=0)
        return json.loads(message.numpy().tobytes())

    def barrier(self) -> None:
        """Wait until all processes have called this. Raises LostProcessError."""
        self.any(False)


ALONE = ProcessGroup()


class LostProcessError(PhrasemtError):
    """Another process of the training has ended.

    The launcher reports the process with the lowest exit code as the cause, so this one has a high exit code.
    """

    exit_code = 99


@contextmanager
def _together() -> Iterator[None]:
    """Surround a collective operation. Raises LostProcessError when another process has ended or does not answer."""
    try:
        yield
    except RuntimeError as error:
        what = "lost another process of this training"
        next_step = "see the messages of the other processes; the same command resumes from the last saved state"
        raise LostProcessError(what, found=str(error).partition("\n")[0], next_step=next_step) from error


def _add(gradients: list[Tensor]) -> None:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    with _together():
        distributed.all_reduce(flat)
    for gradient, total in zip(gradients, torch.split(flat, [one.numel() for one in gradients]), strict=True):
        gradient.copy_(total.view_as(gradient))


@contextmanager
def join_processes(processes: int, *, patience: timedelta = PATIENCE) -> Iterator[ProcessGroup]:
    """Connect to the other processes of this training, if there are any.

    processes: the number that the caller asked for. Raises PhrasemtError for another number of processes, and for a
    process without a GPU of its own on a machine with GPUs.
    """
    size = place_in_group("WORLD_SIZE", 1)
    what = "the number of training processes (WORLD_SIZE) is not the requested one (--processes)"
    next_step = "start one process per GPU on every node, see profiles/README.md"
    check_equal(processes, size, what, next_step=next_step)
    if size == 1:
        yield ProcessGroup()
        return
    group = ProcessGroup(rank=place_in_group("RANK", 0), size=size, local_rank=place_in_group("LOCAL_RANK", 0))
    if torch.cuda.is_available():
        if group.local_rank >= torch.cuda.device_count():
            raise PhrasemtError(
                "no GPU for this training process",
                expected=f"at least {group.local_rank + 1} GPUs on this node",
                found=torch.cuda.device_count(),
                next_step="request one GPU for each process of a node",
            )
        torch.cuda.set_device(group.local_rank)
    file = os.environ.get(RENDEZVOUS)
    distributed.init_process_group(
        backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"file://{file}" if file else "env://",
        rank=group.rank,
        world_size=group.size,
        timeout=patience,
    )
    yield group
    # A process must not end while another waits for a message of it. The group itself ends with the processes
    # (phrasemt.machine.launch.leave).
    group.barrier()
