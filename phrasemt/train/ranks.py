"""The processes that train one model together, each with a copy of it on a device of its own (data parallelism).

Each computes the gradient of its share of an update; the shares are added before the step, which is then the same
everywhere. They are added once per update, after all micro-batches, and not during the backward pass as torch's
DistributedDataParallel does: so a process may have more micro-batches than another, or begin its share again after it
ran out of memory, without the others noticing.

Who starts the processes says so in the environment, by the names of `torchrun`: RANK, WORLD_SIZE, LOCAL_RANK and, with
several machines, MASTER_ADDR and MASTER_PORT. `phrasemt.machine.launch` starts them on one machine.
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

from phrasemt.errors import PhrasemtError
from phrasemt.machine.launch import RENDEZVOUS, SHARED_MEMORY
from phrasemt.train.shared_memory import SharedMemory

# A process that hears nothing of another one for so long gives up. The first one may evaluate for minutes meanwhile.
PATIENCE = timedelta(minutes=30)
# Gradients added at once: large enough for a network, small enough for the copy that is made of them.
_BYTES_AT_ONCE = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """A process among all of a training: number `rank` of `size`, number `local` on its machine.

    memory: what the processes share, if all are on one machine.
    """

    rank: int = 0
    size: int = 1
    local: int = 0
    memory: SharedMemory | None = None

    @property
    def first(self) -> bool:
        """Whether this process is the one that evaluates and writes files."""
        return self.rank == 0

    def add_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Add up the gradients of all processes, in place."""
        if self.size == 1:
            return
        gradients: list[Tensor] = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        if self.memory and all(one.device.type == "cpu" and one.dtype == torch.float32 for one in gradients):
            self.memory.add(gradients, self.wait)
            return
        waiting: list[Tensor] = []
        size = 0
        for gradient in gradients:
            waiting.append(gradient)
            size += gradient.nbytes
            if size >= _BYTES_AT_ONCE:
                _add(waiting)
                waiting, size = [], 0
        if waiting:
            _add(waiting)

    def add(self, sums: Sequence[float]) -> list[float]:
        """Each of some numbers, added up over all processes."""
        if self.size == 1:
            return list(sums)
        total = torch.tensor(sums, dtype=torch.float64)
        with _together():
            distributed.all_reduce(total)
        return total.tolist()

    def of_all(self, number: int) -> list[int]:
        """A number of each process."""
        return [int(one) for one in self.add([number * (rank == self.rank) for rank in range(self.size)])]

    def any(self, here: bool) -> bool:
        """Whether it holds in any process."""
        return self.add([float(here)]) != [0.0]

    def of_first(self, value: Any) -> Any:
        """The first process's value in all processes; it must be made of what JSON knows."""
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.first else b""
        length = torch.tensor([len(text)])
        with _together():
            distributed.broadcast(length, src=0)
            letters = torch.empty(int(length), dtype=torch.uint8)
            if self.first:
                letters.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            distributed.broadcast(letters, src=0)
        return json.loads(letters.numpy().tobytes())

    def wait(self) -> None:
        """Until all processes are here."""
        self.any(False)


ALONE = Ranks()


class LostProcessError(PhrasemtError):
    """Another process has ended. The exit code is the highest, so that not this one is named as the cause."""

    exit_code = 99


@contextmanager
def _together() -> Iterator[None]:
    """Around what all processes do at once. Raises LostProcessError when another one has ended or is not heard of."""
    try:
        yield
    except RuntimeError as error:
        raise LostProcessError(
            "lost another process of this training",
            found=str(error).partition("\n")[0],
            next_step="see the messages of the others; the same command goes on at the last saved state",
        ) from error


def _add(gradients: list[Tensor]) -> None:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    with _together():
        distributed.all_reduce(flat)
    for gradient, total in zip(gradients, torch.split(flat, [one.numel() for one in gradients]), strict=True):
        gradient.copy_(total.view_as(gradient))


@contextmanager
def joined(processes: int, *, patience: timedelta = PATIENCE) -> Iterator[Ranks]:
    """Join the other processes of this training. A training of one process joins nobody.

    processes: how many were asked for. Raises PhrasemtError when there are others than asked for.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size != processes:
        raise PhrasemtError(
            "another number of training processes than asked for",
            expected=f"{processes} (--processes)",
            found=f"{size} (WORLD_SIZE)",
            next_step="start one process per GPU on every node, see profiles/README.md",
        )
    if size == 1:
        yield Ranks()
        return
    rank, shared = int(os.environ["RANK"]), os.environ.get(SHARED_MEMORY)
    memory = SharedMemory(int(shared), rank, size) if shared else None
    ranks = Ranks(rank=rank, size=size, local=int(os.environ["LOCAL_RANK"]), memory=memory)
    if torch.cuda.is_available():
        if ranks.local >= torch.cuda.device_count():
            raise PhrasemtError(
                "no GPU for this training process",
                expected=f"at least {ranks.local + 1} GPUs on this node",
                found=torch.cuda.device_count(),
                next_step="ask for as many GPUs as processes",
            )
        torch.cuda.set_device(ranks.local)
    file = os.environ.get(RENDEZVOUS)
    distributed.init_process_group(
        backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"file://{file}" if file else "env://",
        rank=ranks.rank,
        world_size=ranks.size,
        timeout=patience,
    )
    yield ranks
    # No process ends while another process still waits for a message. The group itself ends with the processes
    # (phrasemt.machine.launch.leave).
    ranks.wait()
