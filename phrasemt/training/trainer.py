"""One update: sum the gradients of micro-batches over all processes, then take a step of the optimiser."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan, most_padded
from phrasemt.batching.shares import Share, ShareReader
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.precision import ProductsOfTraining, usable_precision, use_precision
from phrasemt.stages.training import TrainModel
from phrasemt.training.gradients import GradientSum
from phrasemt.training.optimizers import ScheduledOptimizer
from phrasemt.training.process_group import ALONE, ProcessGroup

log = logging.getLogger("phrasemt.train_model")

# Positions of a micro-batch on a CPU, padding included. Every value gives the same sums.
CPU_POSITIONS = 8_192
# On a GPU the trainer tries micro-batches of this many positions first, then smaller ones, until they fit.
_MAX_GPU_POSITIONS = 2**18
_USABLE_SHARE_OF_MEMORY = 0.9
_UPDATES_TO_COUNT = 100  # a larger one that comes later is cut


@dataclass(frozen=True, kw_only=True)
class UpdateResult:
    """Sums of one update over all micro-batches and processes.

    objective, nll, parts: as in `phrasemt.nn.embeddings.Loss`. skipped: True if the loss or gradient was not finite, so
    that the optimiser took no step.
    """

    objective: float
    nll: float
    tokens: int
    micro_batches: int
    parts: Mapping[str, float]
    learning_rate: float
    skipped: bool


class Trainer:
    """A model with its optimiser.

    capacity: the largest number of positions of a micro-batch, padding included. It shrinks when memory runs out.
    shares: reads the micro-batches of an update that this process computes.
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
        self.shares = ShareReader(reader, self.device.type, rank=group.rank, ranks=group.size)
        self.precision = usable_precision(self.settings.precision, self.device)
        use_precision(self.precision)
        self._products = ProductsOfTraining(model, self.precision, self.device)

    def update(self, number: int, rows: NDArray[np.int64], share: Share | None = None) -> UpdateResult:
        """Do one update: accumulate the gradient of the mean loss of all rows, then take a step.

        Without micro-batches this would be (loss(batch(rows)).objective / tokens).backward(); optimizer.step().
        The mean is over real target tokens, or over sentences if the study gives the size of an update in sentences.
        number: of the update, from 1. It determines dropout, together with the seed and the rank, so that a resumed
        training needs no saved state of a random generator.
        rows: positions in the example store. share: of this process, if it was made ahead. Without a finite loss and
        gradient there is no step.
        """
        while (sums := self._try_gradients(number, rows, share)) is None:
            pass
        parameters = list(self.model.parameters())
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        # One copy for all that the host must know, because it waits for a GPU at each.
        *of_this_process, norm_of_all = torch.stack([one.double() for one in (*sums.values(), norm)]).tolist()
        objective, nll, *parts, micro_batches = self._group.sum(of_this_process)
        skipped = not (math.isfinite(objective) and math.isfinite(norm_of_all))
        learning_rate = 0.0
        if not skipped:
            if self.settings.clip_norm is not None:
                torch.nn.utils.clip_grads_with_norm_(parameters, self.settings.clip_norm, norm)
            learning_rate = self.optimizer.step(number)
        return UpdateResult(
            objective=objective,
            nll=nll,
            tokens=self._tokens(rows),
            micro_batches=round(micro_batches),
            parts=dict(zip(list(sums)[2:-1], parts, strict=True)),
            learning_rate=learning_rate,
            skipped=skipped,
        )

    def _try_gradients(self, number: int, rows: NDArray[np.int64], share: Share | None) -> dict[str, Tensor] | None:
        """Compute the gradients of an update, and the sums of this process's share.

        Returns None when the memory of any process ran out; that process has smaller micro-batches from now on.
        """
        torch.manual_seed(_seed(self._seed, number, self._group.rank))
        if share is None or share.capacity != self.capacity:
            share = self.shares.read(rows, self.capacity)
        try:
            sums = self._accumulate(share, self._update_size(rows), last=self._gradients.begin_last_pass)
        except torch.OutOfMemoryError:
            sums = None
        if sums is None:  # here, because the error keeps the tensors of the failed pass until its handler ends
            self._shrink()
            log.warning("memory ran out: micro-batches of %s positions from now on", f"{self.capacity:,}")
        self._gradients.finish()
        return None if self._group.any(sums is None) else sums

    def _tokens(self, rows: NDArray[np.int64]) -> int:
        return int(self._reader.examples.target_lengths[rows].sum()) + len(rows)

    def _update_size(self, rows: NDArray[np.int64]) -> int:
        """Return the number of tokens or sentences that the loss is averaged over."""
        return self._tokens(rows) if self.settings.sentences_per_update is None else len(rows)

    def _accumulate(self, share: Share, units: int, last: Callable[[], object] = lambda: None) -> dict[str, Tensor]:
        """Accumulate the gradients of the micro-batches of a share; return their sums of losses.

        last: called before the last backward pass.
        """
        self.model.train()
        self.optimizer.wrapped.zero_grad(set_to_none=True)
        sums: dict[str, Tensor] = {}
        for number, batch in enumerate(share.batches, start=1):
            batch = batch.to(self.device)
            with self._products():
                loss = self.model.loss(batch, label_smoothing=self.settings.label_smoothing)
            self._group.progress()
            if number == len(share.batches):
                last()
            (loss.objective * (share.weight / units)).backward()  # type: ignore[no-untyped-call]
            for name, value in {"objective": loss.objective, "nll": loss.nll, **loss.parts}.items():
                sums[name] = sums.get(name, 0.0) + value.detach() * share.weight
        return {**sums, "micro_batches": torch.full((), share.weight * len(share.batches), device=self.device)}

    def _shrink(self) -> None:
        """Halve the capacity, after memory ran out. Raises PhrasemtError when it cannot become smaller."""
        self.optimizer.wrapped.zero_grad(set_to_none=True)
        longest = self.settings.max_length + 2  # `<s>` and `</s>`
        if self.capacity <= longest:
            what = "the memory of the device is too small for a single pair"
            next_step = "lower training.max_length, or train on a device with more memory"
            raise PhrasemtError(what, expected=f"memory for the model and {longest} positions", next_step=next_step)
        self.capacity = max(self.capacity // 2, longest)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def find_capacity(self, plan: UpdatePlan) -> None:
        """On a GPU, find the largest capacity that fits into the memory, by trials with the longest pairs.

        No trial has more positions than a micro-batch that holds a whole update. Some memory is left for the two
        moments of the optimiser. The trials do not change the model.
        """
        if self.device.type != "cuda":
            return
        updates = itertools.islice(plan.updates(), _UPDATES_TO_COUNT)
        positions = max(plan.positions(rows) for _, _, rows in updates) // self._group.size
        whole = most_padded(positions, self.device.type)  # a micro-batch that holds the share of an update
        most = min(_MAX_GPU_POSITIONS, max(whole, self.settings.max_length + 2))
        longest, width = plan.longest(most)
        moments = 2 * sum(parameter.nbytes for parameter in self.model.parameters())
        memory = torch.cuda.get_device_properties(self.device).total_memory
        room = _USABLE_SHARE_OF_MEMORY * torch.cuda.get_per_process_memory_fraction(self.device) * memory - moments
        self.capacity = most
        while self._memory_needed(longest[: max(1, self.capacity // width)]) > room:
            self._shrink()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)  # the memory of the training is reported, not that of trials
        log.info("micro-batches of at most %s positions fit the memory", f"{self.capacity:,}")

    def _memory_needed(self, rows: NDArray[np.int64]) -> float:
        """Return the bytes of GPU memory that a micro-batch needs; infinity when memory runs out."""
        torch.cuda.reset_peak_memory_stats(self.device)
        try:
            self._accumulate(Share(batches=(self._reader(rows),), weight=1.0, capacity=self.capacity), 1)
        except torch.OutOfMemoryError:
            return math.inf
        finally:
            self.optimizer.wrapped.zero_grad(set_to_none=True)
        return torch.cuda.max_memory_reserved(self.device)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
