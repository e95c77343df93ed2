"""Data parallelism: processes that train one model together, each with a copy of the model on its own device.

Gradients are summed once per update, after the last backward pass of each process, so processes may have different
numbers of micro-batches, and one whose memory ran out within a pass takes part all the same.

A collective operation that takes half an hour fails (`PATIENCE`), so a process that hangs ends the training.

The launcher (`phrasemt.machine.launch`, torchrun or srun) sets the environment variables of `torchrun`: RANK,
WORLD_SIZE, LOCAL_RANK and, for several machines, MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from phrasemt.errors import PhrasemtError, check_equal
from phrasemt.machine.launch import RENDEZVOUS, place_in_group

Item = TypeVar("Item")
Result = TypeVar("Result")

# Processes of slow nodes may load their programs for minutes before they join.
_TIME_TO_JOIN = timedelta(minutes=30)
# Far longer than a process waits for one that has more to do: a micro-batch, the search of one batch of dev, compiling.
PATIENCE = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
    """One process of a training, and its communication with the others.

    rank: number of this process, from 0 to size - 1.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which writes files."""
        return self.rank == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Surround a collective operation. Raises LostProcessError when another process has ended, or hangs."""
        try:
            yield
        except RuntimeError as error:
            what = "lost another process of this training"
            raise LostProcessError(what, found=str(error).partition("\n")[0], next_step=_RESUME) from error

    def add(self, numbers: Tensor) -> None:
        """Sum a tensor over all processes, in place and on its device. Raises LostProcessError."""
        if self.size > 1:
            with self.together():
                distributed.all_reduce(numbers)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum the gradients of parameters over all processes, in the same tensors; a missing one counts as zeros.

        Raises LostProcessError.
        """
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        self.add(flat := torch.cat([gradient.flatten() for gradient in gradients]))
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, total in zip(gradients, torch.split(flat, sizes), strict=True):
            gradient.copy_(total.view_as(gradient))

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum over all processes of each number. Raises LostProcessError."""
        if self.size == 1:
            return list(numbers)
        self.add(total := torch.tensor(numbers, dtype=torch.float64))
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, in the order of their ranks. JSON must be able to represent them.

        Raises LostProcessError.
        """
        return [self.broadcast(value, rank) for rank in range(self.size)]

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return in all processes what a function returns for each item, in the order of the items.

        This process computes every size-th item. JSON must be able to represent what the function returns; of a group
        it comes back as JSON has it. Raises LostProcessError.
        """
        parts = self.gather([function(items[number]) for number in range(self.rank, len(items), self.size)])
        return [parts[number % self.size][number // self.size] for number in range(len(items))]

    def any(self, here: bool) -> bool:
        """Return whether `here` is True in any process. Raises LostProcessError."""
        return self.sum([float(here)]) != [0.0]

    def broadcast(self, value: Any, rank: int = 0) -> Any:
        """Return the value of one process, by default the first, in all processes. JSON must be able to represent it.

        Raises LostProcessError.
        """
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.rank == rank else b""
        length = torch.tensor([len(text)])
        with self.together():
            distributed.broadcast(length, src=rank)
            message = torch.empty(int(length), dtype=torch.uint8)
            if self.rank == rank:
                message.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            distributed.broadcast(message, src=rank)
        return json.loads(message.numpy().tobytes())

    def barrier(self) -> None:
        """Wait until all processes have called this. Raises LostProcessError."""
        self.any(False)


ALONE = ProcessGroup()
_RESUME = "see the messages of the other processes; the same command resumes from the last saved state"


_ONE_EACH = "request one GPU for each process of a node"


class LostProcessError(PhrasemtError):
    """Another process of the training has ended, or hangs.

    The launcher reports the process with the lowest exit code as the cause, so this one has a high exit code.
    """

    exit_code = 99


@contextmanager
def join_processes(processes: int) -> Iterator[ProcessGroup]:
    """Connect to the other processes of this training, if there are any.

    processes: the number that the caller asked for. Raises PhrasemtError for another number of processes, and for a
    process without a GPU of its own on a machine with GPUs.
    """
    rank, size = place_in_group("RANK", 0), place_in_group("WORLD_SIZE", 1)
    what = "the number of training processes (WORLD_SIZE) is not the requested one (--processes)"
    next_step = "start one process per GPU on every node, see profiles/README.md"
    check_equal(processes, size, what, next_step=next_step)
    if size == 1:
        yield ProcessGroup()
        return
    if torch.cuda.is_available():
        _take_gpu(place_in_group("LOCAL_RANK", 0))
    file = os.environ.get(RENDEZVOUS)
    url = f"file://{file}" if file else "env://"
    store, _, _ = next(rendezvous(url, rank, size, timeout=_TIME_TO_JOIN))
    _wait_for_all(store, rank, size)
    group = ProcessGroup(rank=rank, size=size)
    with group.together():
        distributed.init_process_group(
            backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=PATIENCE,
        )
    if torch.cuda.is_available():
        _refuse_shared_gpus(group.gather(str(torch.cuda.get_device_properties("cuda").uuid)))
    yield group
    # A process must not end while another waits for a message of it. The group itself ends with the processes
    # (phrasemt.machine.launch.leave).
    group.barrier()


def _take_gpu(local_rank: int) -> None:
    """Use the GPU with this number, or the only one: `srun --gpus-per-task=1` shows each process its own GPU alone."""
    count = torch.cuda.device_count()
    if local_rank >= count > 1:
        raise PhrasemtError(
            "no GPU for this training process",
            expected=f"at least {local_rank + 1} GPUs on this node, or one that only this process sees",
            found=count,
            next_step=_ONE_EACH,
        )
    torch.cuda.set_device(0 if count == 1 else local_rank)


def _refuse_shared_gpus(gpus: Sequence[str]) -> None:
    """gpus: the identifier of each process's GPU."""
    if shared := sorted({gpu for gpu in gpus if gpus.count(gpu) > 1}):
        what, expected = "processes of this training share a GPU", f"{len(gpus)} GPUs, one for each process"
        raise PhrasemtError(what, expected=expected, found=", ".join(shared), next_step=_ONE_EACH)


def _wait_for_all(store: Store, rank: int, size: int) -> None:
    """Wait until all processes have started. Raises LostProcessError when one does not."""
    store.set(f"started/{rank}", "")
    try:
        store.wait([f"started/{number}" for number in range(size)], _TIME_TO_JOIN)
    except RuntimeError as error:
        missing = [str(number) for number in range(size) if not store.check([f"started/{number}"])]
        absent = f"nothing of process {', '.join(missing)}"
        what = f"not all processes of this training have started within {_TIME_TO_JOIN}"
        raise LostProcessError(what, found=absent, next_step="see the messages of the other processes") from error
