"""One update: sum the gradients of micro-batches over all processes, then take a step of the optimiser."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.batching.batch import Batch
from phrasemt.batching.reader import BatchReader, RankBatches, RankReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.compiling import SWITCH, compiles_on, compiling
from phrasemt.nn.precision import ProductsOfTraining, usable_precision, use_precision
from phrasemt.stages.training import TrainModel
from phrasemt.training.optimizer import ScheduledOptimizer
from phrasemt.training.process_group import ALONE, ProcessGroup
from phrasemt.training.replay import Replays

log = logging.getLogger("phrasemt.train_model")

# Tokens of a micro-batch on a CPU, padding included. Every value gives the same sums.
CPU_POSITIONS = 8_192
# On a GPU the trainer first tries micro-batches of this many tokens, padding included, then smaller ones.
_MAX_GPU_POSITIONS = 2**18
_USABLE_PART_OF_MEMORY = 0.9
_UPDATES_TO_COUNT = 100  # a later one that is an eighth larger is divided
# Whether models read packed rows, by type of device: on a GPU they save launches of kernels; on a CPU padded batches of
# similar length need 0.8 of the time (docs/log/performance.md).
PACKED = {"cpu": False, "cuda": True}
COMPILER = "inductor"  # backend of torch.compile


@dataclass(frozen=True, kw_only=True)
class UpdateResult:
    """Sums of one update over all micro-batches and processes.

    objective, nll, parts: as in `phrasemt.nn.losses.Loss`. skipped: True if the loss or gradient was not finite, so
    that the optimiser took no step.
    """

    objective: float
    nll: float
    tokens: int
    micro_batches: int
    parts: Mapping[str, float]
    learning_rate: float
    skipped: bool


@dataclass(frozen=True, kw_only=True)
class PendingUpdate:
    """An update that the device may still compute.

    stop: whether any process wants to stop. tokens: real target tokens of all processes. names, numbers: the sums of
    `UpdateResult`, and whether the optimiser took a step; they are on the host after the event `ready`.
    """

    stop: bool
    tokens: int
    learning_rate: float
    names: Sequence[str]
    numbers: Tensor
    ready: torch.cuda.Event | None

    def result(self) -> UpdateResult:
        """Wait for the device, and return the numbers of the update."""
        if self.ready is not None:
            self.ready.synchronize()
        sums = dict(zip(self.names, self.numbers.tolist(), strict=True))
        stepped = bool(sums.pop("stepped"))
        return UpdateResult(
            objective=sums.pop("objective"),
            nll=sums.pop("nll"),
            tokens=self.tokens,
            micro_batches=round(sums.pop("micro_batches")),
            parts=sums,
            learning_rate=self.learning_rate if stepped else 0.0,
            skipped=not stepped,
        )


class Trainer:
    """A model with its optimiser.

    capacity: the largest number of tokens of a micro-batch, padding included: of packed rows, their number times the
    tokens of one. It shrinks when memory runs out.
    rank_reader: reads the micro-batches of an update that this process computes.
    precision: of matrix products; the precision of the settings, where the device has units for it.
    """

    def __init__(
        self, model: TranslationModel[Any, Any], reader: BatchReader, settings: TrainModel, group: ProcessGroup = ALONE
    ) -> None:
        self.model = model
        self._parameters = list(model.parameters())
        self.settings = settings.training
        self.optimizer = ScheduledOptimizer(
            self._parameters, self.settings.optimizer, width=settings.rate_width, rate_factors=model.rate_factors()
        )
        self.capacity = CPU_POSITIONS
        self._seed = settings.seed
        self._reader = reader
        self._group = group
        self.device = model.device
        compiles = compiles_on(self.device)
        packs = compiles or PACKED[self.device.type]
        rows_of = _rows_of(model.positions_in_row, self.settings.max_length) if packs else ()
        replays = self.device.type == "cuda" and (model.repeats or bool(rows_of))
        self._replays = Replays(self._backward, self._parameters) if replays else None
        self.rank_reader = RankReader(
            reader, self.device.type, group.rank, group.size, rows_of=rows_of, fixed=self._replays is not None
        )
        self._compiler = COMPILER if compiles and rows_of else None
        self.precision = usable_precision(self.settings.precision, self.device)
        use_precision(self.precision)
        self._products = ProductsOfTraining(model, self.precision, self.device)

    def update(self, number: int, rows: NDArray[np.int64], of_rank: RankBatches | None = None) -> UpdateResult:
        """Do one update and wait for its numbers."""
        return self.begin(number, rows, of_rank).result()

    def begin(
        self,
        number: int,
        rows: NDArray[np.int64],
        of_rank: RankBatches | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> PendingUpdate:
        """Begin one update: accumulate the gradient of the mean loss of all rows, then take a step.

        The mean is over real target tokens, or over sentences if the study gives the size of an update in sentences.
        number: of the update, from 1. It determines dropout, together with the seed and the rank.
        rows: positions in the example store. of_rank: the micro-batches of this process, if they were made ahead.
        stop: whether this process wants to stop, for all processes to know.
        If memory runs out or the compiler fails in one process, all begin again, that one with smaller micro-batches or
        without a compiler. Without a finite loss and gradient there is no step. The host waits for other hosts and,
        except with Adadelta, never for a GPU, so the next update can begin before this one is computed.
        """
        tokens = int(self._reader.examples.target_lengths[rows].sum()) + len(rows)
        units = tokens if self.settings.sentences_per_update is None else len(rows)
        self.model.train()
        while True:
            torch.manual_seed(_seed(self._seed, number, self._group.rank))
            if of_rank is None or of_rank.capacity != self.capacity:
                of_rank = self.rank_reader.read(rows, self.capacity)
            sums: dict[str, Tensor] = {}
            failed = short_of_memory = False
            try:
                self._zero_gradients()
                # Without micro-batches this would be (loss(batch(rows)).objective / units).backward().
                for batch in of_rank.batches:
                    for name, value in self._passes(batch.to(self.device), of_rank.weight / units).items():
                        sums[name] = sums.get(name, 0.0) + value * of_rank.weight
            except torch.OutOfMemoryError:
                failed = short_of_memory = True
            except Exception as error:
                self._stop_compiling(error)
                failed = True
            if short_of_memory:  # here, because the error keeps the tensors of the failed pass until its handler ends
                self._shrink()
            self._group.sum_gradients(self._parameters)
            failed, stopping = (total > 0 for total in self._group.sum([failed, stop()]))
            if not failed:
                break
        sums["micro_batches"] = torch.full((), of_rank.weight * len(of_rank.batches), device=self.device)
        numbers = torch.stack([value.double() for value in sums.values()])
        self._group.add(numbers)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        finite = torch.isfinite(numbers[[*sums].index("objective")]) & torch.isfinite(norm)
        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, self.settings.clip_norm, norm)
        learning_rate = self.optimizer.step(number, finite)
        names, on_host = [*sums, "stepped"], torch.cat((numbers, finite[None].double())).to("cpu", non_blocking=True)
        ready = _recorded_event() if self.device.type == "cuda" else None
        return PendingUpdate(
            stop=stopping, tokens=tokens, learning_rate=learning_rate, names=names, numbers=on_host, ready=ready
        )

    def _zero_gradients(self) -> None:
        if self._replays is None:
            self.optimizer.wrapped.zero_grad(set_to_none=True)
        else:
            self._replays.zero_gradients()

    def _passes(self, batch: Batch, scale: float) -> Mapping[str, Tensor]:
        """Forward and backward pass, by a CUDA graph where there is one."""
        return self._backward(batch, scale) if self._replays is None else self._replays(batch, scale)

    def _backward(self, batch: Batch, scale: float | Tensor) -> dict[str, Tensor]:
        """Add the gradients of a micro-batch times `scale` to those of the parameters; return its sums of losses."""
        with self._products(), compiling(self._compiler):
            loss = self.model.loss(batch, label_smoothing=self.settings.label_smoothing)
        (loss.objective * scale).backward()  # type: ignore[no-untyped-call]
        sums = {"objective": loss.objective, "nll": loss.nll, **loss.parts}
        return {name: value.detach() for name, value in sums.items()}

    def _stop_compiling(self, error: Exception) -> None:
        """Compile no more, after an error that the compiler may have raised. Raises the error if it was not in use."""
        if self._compiler is None or isinstance(error, PhrasemtError):
            raise error
        self._compiler = None
        message = " ".join(f"{error}".split("\n")[:2])  # the second line names the cause
        what = "train_model: warning: the compiler of torch fails; the training continues without it (%s=off): %s: %s"
        log.warning(what, SWITCH, type(error).__name__, message)

    def _shrink(self) -> None:
        """Halve the capacity, after memory ran out. Raises PhrasemtError when it cannot become smaller."""
        self._free_gradients()
        longest = self.settings.max_length + 2  # `<s>` and `</s>`
        if self.capacity <= longest:
            what = "the memory of the device is too small for a single pair"
            next_step = "lower training.max_length, or train on a device with more memory"
            raise PhrasemtError(what, expected=f"memory for the model and {longest} tokens", next_step=next_step)
        self.capacity = max(self.capacity // 2, longest)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _free_gradients(self) -> None:
        if self._replays is not None:
            self._replays.forget()
        self.optimizer.wrapped.zero_grad(set_to_none=True)

    def find_capacity(self, plan: UpdatePlan) -> None:
        """On a GPU, find the largest capacity that fits into the memory, by trials with full rows or the longest pairs.

        No trial has many more tokens than a micro-batch that holds a whole update. Some memory is left for the two
        moments of the optimiser. The trials do not change the model.
        """
        if self.device.type != "cuda":
            return
        updates = itertools.islice(plan.updates(), _UPDATES_TO_COUNT)
        whole = max(self.rank_reader.positions(rows) for _, _, rows in updates)
        most = min(_MAX_GPU_POSITIONS, max(whole * 9 // 8, self.settings.max_length + 2))
        moments = 2 * sum(parameter.nbytes for parameter in self._parameters)
        memory = torch.cuda.get_device_properties(self.device).total_memory
        room = _USABLE_PART_OF_MEMORY * torch.cuda.get_per_process_memory_fraction(self.device) * memory - moments
        if self._replays is not None:
            room /= 2  # graphs keep their memory while a batch of another shape is computed
        self.capacity = most
        while self._memory_needed(self.rank_reader.trial(plan, self.capacity)) > room:
            self._shrink()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)  # the memory of the training is reported, not that of trials
        log.info("micro-batches of at most %s tokens, padding included, fit the memory", f"{self.capacity:,}")

    def _memory_needed(self, batch: Batch) -> float:
        """Return the bytes of GPU memory that a micro-batch needs; infinity when memory runs out."""
        torch.cuda.reset_peak_memory_stats(self.device)
        self.model.train()
        try:
            self._zero_gradients()
            self._passes(batch.to(self.device), 1.0)
        except torch.OutOfMemoryError:
            return math.inf
        except Exception as error:
            self._stop_compiling(error)
            return self._memory_needed(batch)
        finally:
            self._free_gradients()
        return torch.cuda.max_memory_reserved(self.device)


def _rows_of(row: int | None, max_length: int) -> tuple[int, ...]:
    """Numbers of positions that packed rows have: those of most rows, and those of rows for longer pairs."""
    if row is None:
        return ()
    longest = max_length + 2  # with `<s>` and `</s>`
    return (row, -(-longest // 8) * 8) if longest > row else (row,)


def _recorded_event() -> torch.cuda.Event:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
