"""One update: sum the gradients of micro-batches over all processes, then take a step of the optimiser.

As in torch's DistributedDataParallel, the sum over processes begins while the last backward pass still runs. That class
cannot go on after memory ran out within the pass, when some messages are sent and others are not; here the process then
sends the other messages, and all processes begin the update again.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as distributed
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasemt.batching.batch import Batch
from phrasemt.batching.reader import BatchReader, RankBatches, RankReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.precision import ProductsOfTraining, usable_precision, use_precision
from phrasemt.stages.training import TrainModel
from phrasemt.study.schema import Adadelta, Adam
from phrasemt.training.compiled import Compiled, compiles_on
from phrasemt.training.process_group import ALONE, ProcessGroup
from phrasemt.training.replay import Replays


def noam(update: int, *, width: int, settings: Adam) -> float:
    """Return the learning rate of update t = 1, 2, ... (Vaswani et al. 2017, Eq. 3).

    It is factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5), where d is the model width.
    """
    return float(settings.factor * width**-0.5 * min(update**-0.5, update * settings.warmup**-1.5))


class _Adadelta(torch.optim.Adadelta):
    """Adadelta that changes nothing where `found_inf` is 1, as torch's fused Adam, without an answer to the host."""

    found_inf: Tensor

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step with the gradients, of which nothing is kept on a GPU when it is none."""
        skipped = self.found_inf > 0
        if skipped.device.type == "cpu":
            if not skipped:
                super().step()
            return
        for group in self.param_groups:
            parameters: list[Tensor] = []
            gradients: list[Tensor] = []
            squares: list[Tensor] = []
            steps: list[Tensor] = []  # squares of earlier ones
            self._init_group(group, parameters, gradients, squares, steps, [])
            rho, kept = group["rho"], torch.full_like(parameters[0].flatten()[0], group["rho"]).masked_fill_(skipped, 1)
            for gradient in gradients:
                gradient.masked_fill_(skipped, 0)
            torch._foreach_mul_(squares, kept)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - rho)
            roots, taken = (torch._foreach_add(sums, group["eps"]) for sums in (squares, steps))
            torch._foreach_sqrt_(roots)
            torch._foreach_sqrt_(taken)
            torch._foreach_div_(taken, roots)
            torch._foreach_mul_(taken, gradients)
            torch._foreach_mul_(steps, kept)
            torch._foreach_addcmul_(steps, taken, taken, 1 - rho)
            torch._foreach_add_(parameters, taken, alpha=-group["lr"])


class ScheduledOptimizer:
    """An optimiser with its schedule of learning rates.

    width: the model width in Adam's schedule (`noam`). Some parameters learn at `rate_factors` times the rate.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        settings: Adam | Adadelta,
        *,
        width: int,
        rate_factors: Mapping[nn.Parameter, float],
    ) -> None:
        self.wrapped: torch.optim.Adam | _Adadelta
        self._rate: Callable[[int], float]
        by_factor: dict[float, list[nn.Parameter]] = defaultdict(list)
        for parameter in parameters:
            by_factor[rate_factors.get(parameter, 1.0)].append(parameter)
        groups = [{"params": parameters, "factor": factor} for factor, parameters in by_factor.items()]
        if isinstance(settings, Adam):
            betas = (settings.beta1, settings.beta2)
            self.wrapped = torch.optim.Adam(groups, lr=0.0, betas=betas, eps=settings.epsilon, fused=True)
            self._rate = partial(noam, width=width, settings=settings)
        else:
            self.wrapped = _Adadelta(groups, lr=1.0, rho=settings.rho, eps=settings.epsilon)
            self._rate = lambda update: 1.0

    def step(self, update: int, finite: Tensor) -> float:
        """Take the step of an update (counted from 1) with the parameters' gradients; return its learning rate.

        finite: scalar on the device, False for no step. The host does not ask for it.
        """
        rate = self._rate(update)
        for group in self.wrapped.param_groups:
            group["lr"] = rate * group["factor"]
        self.wrapped.found_inf = 1 - finite.float()  # type: ignore[union-attr]
        self.wrapped.step()
        return rate


# Size of a message, as in DistributedDataParallel: large enough for a network's full speed, small enough that most
# messages travel during the backward pass.
_BYTES_PER_MESSAGE = 25 * 2**20

Message = list[nn.Parameter]


class GradientSum:
    """Sums the gradients of parameters over the processes of a group, in place, once in an update.

    The first backward pass shows in which order gradients become complete; the messages of all updates follow it, so a
    resumed training adds in the same order.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], group: ProcessGroup) -> None:
        self._parameters, self._group = list(parameters), group
        self._messages: list[Message] | None = None
        self._message_of: dict[nn.Parameter, int] = {}
        self._in_last_pass = False
        self._complete: list[nn.Parameter] = []
        self._missing: list[int] = []
        self._sent: list[tuple[Tensor, distributed.Work]] = []
        if group.size > 1:
            for parameter in self._parameters:
                parameter.register_post_accumulate_grad_hook(self._completed)  # type: ignore[no-untyped-call]

    def begin_last_pass(self) -> None:
        """The next backward pass is the last one of an update in this process."""
        self._in_last_pass = True

    def finish(self) -> None:
        """Send what the last pass has not sent, with zeros for missing gradients, and wait for all sums.

        Every process calls this once in each update, also one whose memory ran out. Raises LostProcessError.
        """
        self._in_last_pass = False
        if self._group.size == 1:
            return
        if self._messages is None:
            self._arrange()
        assert self._messages is not None
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for message in self._messages[len(self._sent) :]:
            self._send(message)
        for message, (flat, work) in zip(self._messages, self._sent, strict=True):
            with self._group.together():
                work.wait()
            sums = torch.split(flat, [parameter.numel() for parameter in message])
            for parameter, total in zip(message, sums, strict=True):
                assert parameter.grad is not None
                parameter.grad.copy_(total.view_as(parameter))
        self._sent.clear()
        self._missing = [len(message) for message in self._messages]

    def _completed(self, parameter: nn.Parameter) -> None:
        """A backward pass has completed this gradient. Send all messages that are complete, in their order."""
        if not self._in_last_pass:
            return
        if self._messages is None:
            self._complete.append(parameter)
            return
        self._missing[self._message_of[parameter]] -= 1
        while len(self._sent) < len(self._messages) and not self._missing[len(self._sent)]:
            self._send(self._messages[len(self._sent)])

    def _send(self, message: Message) -> None:
        flat = torch.cat([parameter.grad.flatten() for parameter in message if parameter.grad is not None])
        with self._group.together():
            work = distributed.all_reduce(flat, async_op=True)
        assert work is not None
        self._sent.append((flat, work))

    def _arrange(self) -> None:
        """Divide the parameters into messages, in the order in which the first process completed their gradients."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters)}
        first = [numbers[parameter] for parameter in self._complete]
        order = self._group.broadcast([*first, *sorted(set(numbers.values()).difference(first))])
        self._messages, size = [[]], 0
        for number in order:
            if size >= _BYTES_PER_MESSAGE:
                self._messages.append([])
                size = 0
            self._messages[-1].append(self._parameters[number])
            size += self._parameters[number].nbytes
        self._message_of = {one: index for index, message in enumerate(self._messages) for one in message}
        self._complete.clear()


log = logging.getLogger("phrasemt.train_model")

# Positions of a micro-batch on a CPU, padding included. Every value gives the same sums.
CPU_POSITIONS = 8_192
# On a GPU the trainer tries micro-batches of this many positions first, then smaller ones, until they fit.
_MAX_GPU_POSITIONS = 2**18
_USABLE_PART_OF_MEMORY = 0.9
_UPDATES_TO_COUNT = 100  # one that comes later and is an eighth larger is cut
# Whether models read packed rows, by type of device: on a GPU they save launches of kernels; on a CPU padded batches of
# similar length need 0.8 of the time (docs/log/performance.md).
PACKED = {"cpu": False, "cuda": True}


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
class BegunUpdate:
    """An update that the device may still compute.

    stop: whether any process wants to stop. read: waits for the device.
    """

    stop: bool
    read: Callable[[], UpdateResult]


class Trainer:
    """A model with its optimiser.

    capacity: the largest number of positions of a micro-batch, padding included: of packed rows, their number times the
    positions of one. It shrinks when memory runs out.
    rank_reader: reads the micro-batches of an update that this process computes.
    precision: of matrix products; the precision of the settings, where the device has units for it.
    """

    def __init__(
        self, model: TranslationModel[Any, Any], reader: BatchReader, settings: TrainModel, group: ProcessGroup = ALONE
    ) -> None:
        self.model = model
        self.settings = settings.training
        self.optimizer = ScheduledOptimizer(
            model.parameters(), self.settings.optimizer, width=settings.rate_width, rate_factors=model.rate_factors()
        )
        self.capacity = CPU_POSITIONS
        self._seed = settings.seed
        self._reader = reader
        self._group = group
        self._gradients = GradientSum(model.parameters(), group)
        self.device = model.device
        replays = model.repeats and self.device.type == "cuda"
        self._replays = Replays(self._add_gradients, model.parameters()) if replays else None
        compiles = compiles_on(self.device)
        packs = compiles or PACKED[self.device.type]
        rows_of = _rows_of(model.positions_in_row, self.settings.max_length) if packs else ()
        self.rank_reader = RankReader(
            reader, self.device.type, group.rank, group.size, rows_of=rows_of, fixed=self._replays is not None
        )
        self._compiled = Compiled(model, wanted=compiles and bool(rows_of))
        self.precision = usable_precision(self.settings.precision, self.device)
        use_precision(self.precision)
        self._products = ProductsOfTraining(model, self.precision, self.device)

    def update(self, number: int, rows: NDArray[np.int64], mine: RankBatches | None = None) -> UpdateResult:
        """Do one update and wait for its numbers."""
        return self.begin(number, rows, mine).read()

    def begin(
        self,
        number: int,
        rows: NDArray[np.int64],
        mine: RankBatches | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> BegunUpdate:
        """Begin one update: accumulate the gradient of the mean loss of all rows, then take a step.

        Without micro-batches this would be (loss(batch(rows)).objective / tokens).backward(); optimizer.step().
        The mean is over real target tokens, or over sentences if the study gives the size of an update in sentences.
        number: of the update, from 1. It determines dropout, together with the seed and the rank.
        rows: positions in the example store. mine: the micro-batches of this process, if they were made ahead.
        stop: whether this process wants to stop, for all processes to know.
        Without a finite loss and gradient there is no step. The host waits for the other hosts but never for a GPU, so
        the next update can begin before the numbers of this one are read.
        """
        while (computed := self._try_gradients(number, rows, mine, stop)) is None:
            pass
        sums, stopping = computed
        numbers = torch.stack([one.double() for one in sums.values()])
        self._group.add(numbers)
        parameters = list(self.model.parameters())
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        finite = torch.isfinite(numbers[0]) & torch.isfinite(norm)
        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.settings.clip_norm, norm)
        learning_rate = self.optimizer.step(number, finite)
        there = torch.cat((numbers, finite[None].double())).to("cpu", non_blocking=True)
        ready = torch.cuda.Event() if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        if ready is not None:
            ready.record()

        def read() -> UpdateResult:
            if ready is not None:
                ready.synchronize()
            objective, nll, *parts, micro_batches, taken = there.tolist()
            return UpdateResult(
                objective=objective,
                nll=nll,
                tokens=self._tokens(rows),
                micro_batches=round(micro_batches),
                parts=dict(zip(list(sums)[2:-1], parts, strict=True)),
                learning_rate=learning_rate if taken else 0.0,
                skipped=not taken,
            )

        return BegunUpdate(stop=stopping, read=read)

    def _try_gradients(
        self, number: int, rows: NDArray[np.int64], mine: RankBatches | None, stop: Callable[[], bool]
    ) -> tuple[dict[str, Tensor], bool] | None:
        """Compute the gradients of an update, and the sums over this rank's micro-batches; and whether to stop.

        Returns None when the memory of any process ran out; that process has smaller micro-batches from now on. Or when
        its compiler failed; it computes without one from now on.
        """
        sums, short = None, False
        torch.manual_seed(_seed(self._seed, number, self._group.rank))
        if mine is None or mine.capacity != self.capacity:
            mine = self.rank_reader.read(rows, self.capacity)
        try:
            units = self._tokens(rows) if self.settings.sentences_per_update is None else len(rows)
            sums = self._accumulate(mine, units, last=self._gradients.begin_last_pass)
        except torch.OutOfMemoryError:
            short = True
        except Exception as error:
            if not self._compiled.gives_up(error):
                raise
        if short:  # here, because the error keeps the tensors of the failed pass until its handler ends
            self._shrink()
            log.warning("memory ran out: micro-batches of %s positions from now on", f"{self.capacity:,}")
        self._gradients.finish()
        failed, stopping = self._group.sum([float(sums is None), float(stop())])
        return None if sums is None or failed else (sums, bool(stopping))

    def _tokens(self, rows: NDArray[np.int64]) -> int:
        return int(self._reader.examples.target_lengths[rows].sum()) + len(rows)

    def _accumulate(
        self, mine: RankBatches, units: int, last: Callable[[], object] = lambda: None
    ) -> dict[str, Tensor]:
        """Accumulate the gradients of this rank's micro-batches; return their sums of losses.

        last: called before the last backward pass.
        """
        self.model.train()
        if self._replays is None:
            self.optimizer.wrapped.zero_grad(set_to_none=True)
        else:
            self._replays.zero_gradients()
        scale = mine.weight / units
        sums: dict[str, Tensor] = {}
        for number, batch in enumerate(mine.batches, start=1):
            batch = batch.to(self.device)
            if self._replays is None:
                found = self._add_gradients(batch, scale, last if number == len(mine.batches) else lambda: None)
            else:
                found = self._replays(batch, scale)
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + value * mine.weight
        return {**sums, "micro_batches": torch.full((), mine.weight * len(mine.batches), device=self.device)}

    def _add_gradients(
        self, batch: Batch, scale: float | Tensor, before_backward: Callable[[], object] = lambda: None
    ) -> dict[str, Tensor]:
        """Add the gradients of a micro-batch times `scale` to those of the parameters; return its sums of losses."""
        with self._products(), self._compiled():
            loss = self.model.loss(batch, label_smoothing=self.settings.label_smoothing)
        before_backward()
        (loss.objective * scale).backward()  # type: ignore[no-untyped-call]
        sums = {"objective": loss.objective, "nll": loss.nll, **loss.parts}
        return {name: value.detach() for name, value in sums.items()}

    def _shrink(self) -> None:
        """Halve the capacity, after memory ran out. Raises PhrasemtError when it cannot become smaller."""
        self._free_gradients()
        longest = self.settings.max_length + 2  # `<s>` and `</s>`
        if self.capacity <= longest:
            what = "the memory of the device is too small for a single pair"
            next_step = "lower training.max_length, or train on a device with more memory"
            raise PhrasemtError(what, expected=f"memory for the model and {longest} positions", next_step=next_step)
        self.capacity = max(self.capacity // 2, longest)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _free_gradients(self) -> None:
        if self._replays is not None:
            self._replays.forget()
        self.optimizer.wrapped.zero_grad(set_to_none=True)

    def find_capacity(self, plan: UpdatePlan) -> None:
        """On a GPU, find the largest capacity that fits into the memory, by trials with full rows or the longest pairs.

        No trial has many more positions than a micro-batch that holds a whole update. Some memory is left for the two
        moments of the optimiser. The trials do not change the model.
        """
        if self.device.type != "cuda":
            return
        updates = itertools.islice(plan.updates(), _UPDATES_TO_COUNT)
        whole = max(self.rank_reader.positions(rows) for _, _, rows in updates)
        most = min(_MAX_GPU_POSITIONS, max(whole * 9 // 8, self.settings.max_length + 2))
        moments = 2 * sum(parameter.nbytes for parameter in self.model.parameters())
        memory = torch.cuda.get_device_properties(self.device).total_memory
        room = _USABLE_PART_OF_MEMORY * torch.cuda.get_per_process_memory_fraction(self.device) * memory - moments
        self.capacity = most
        while self._memory_needed(self.rank_reader.trial(plan, self.capacity)) > room:
            self._shrink()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)  # the memory of the training is reported, not that of trials
        log.info("micro-batches of at most %s positions fit the memory", f"{self.capacity:,}")

    def _memory_needed(self, batch: Batch) -> float:
        """Return the bytes of GPU memory that a micro-batch needs; infinity when memory runs out."""
        torch.cuda.reset_peak_memory_stats(self.device)
        try:
            self._accumulate(RankBatches(batches=(batch,), weight=1.0, capacity=self.capacity), 1)
        except torch.OutOfMemoryError:
            return math.inf
        except Exception as error:
            if not self._compiled.gives_up(error):
                raise
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


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
