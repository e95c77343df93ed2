"""One update: gradients of micro-batches added up over devices, and a step of the optimiser."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan, micro_batches_of_rank
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.models.weights import weights_of
from phrasemt.stages.training import TrainModel
from phrasemt.train.optimizers import ExponentialAverage, ScheduledOptimizer
from phrasemt.train.ranks import ALONE, Ranks

log = logging.getLogger("phrasemt.train_model")

# Positions of a micro-batch on a CPU, padding included. A matter of the machine: any value gives the same sums.
CPU_POSITIONS = 8_192
# On a GPU what fits is found by trying, from here on downwards.
_LARGEST_POSITIONS = 2**18
_SHARE_OF_MEMORY = 0.9


@dataclass(frozen=True, kw_only=True)
class UpdateResult:
    """Sums of one update over all its micro-batches and devices. skipped: not finite, so no step was taken."""

    objective: float
    nll: float
    tokens: int
    micro_batches: int
    parts: Mapping[str, float]
    learning_rate: float
    skipped: bool


class Trainer:
    """A model with its optimiser. One call of `update` is one step of the optimiser on the rows of the plan.

    positions: the largest micro-batch, padding included. It shrinks when memory runs out.
    """

    def __init__(
        self,
        model: TranslationModel[Any, Any],
        reader: BatchReader,
        settings: TrainModel,
        ranks: Ranks = ALONE,
    ) -> None:
        self.model = model
        self.settings = settings.training
        self.optimizer = ScheduledOptimizer(model.parameters(), self.settings.optimizer, width=settings.rate_width)
        decay = self.settings.average_decay
        self.average = None if decay is None else ExponentialAverage(model, decay)
        self.positions = CPU_POSITIONS
        self._seed = settings.seed
        self._reader = reader
        self._ranks = ranks
        self.device = next(model.parameters()).device

    def update(self, number: int, rows: NDArray[np.int64]) -> UpdateResult:
        """Accumulate the gradient of the rows' mean loss, and step.

        The mean is over real target tokens, or over sentences where the study gives the size of an update in sentences.
        The idea without micro-batches:  (loss(batch(rows)).objective / tokens).backward(); optimizer.step().
        `number` counts updates from 1; with the seed and the rank it decides about dropout, so that a training that
        goes on after a kill needs no more than that. Without a finite loss and gradient there is no step.
        """
        while (sums := self._tried(number, rows)) is None:
            self._shrink()
            log.warning("memory ran out: micro-batches of %s positions from now on", f"{self.positions:,}")
        parameters = list(self.model.parameters())
        self._ranks.add_gradients(parameters)
        objective, nll, *parts, micro_batches = self._ranks.add(list(sums.values()))
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        skipped = not (math.isfinite(objective) and bool(norm.isfinite()))
        learning_rate = 0.0
        if not skipped:
            if self.settings.clip_norm is not None:
                torch.nn.utils.clip_grads_with_norm_(parameters, self.settings.clip_norm, norm)
            learning_rate = self.optimizer.step(number)
            if self.average:
                self.average.add(self.model, number)
        return UpdateResult(
            objective=objective,
            nll=nll,
            tokens=self._tokens(rows),
            micro_batches=round(micro_batches),
            parts=dict(zip(list(sums)[2:-1], parts, strict=True)),
            learning_rate=learning_rate,
            skipped=skipped,
        )

    def _tried(self, number: int, rows: NDArray[np.int64]) -> dict[str, float] | None:
        """Gradients and sums of this process's share of an update; None when memory ran out."""
        torch.manual_seed(_seed(self._seed, number, self._ranks.rank))
        try:
            return self._accumulate(self._share(rows), self._units(rows))
        except torch.OutOfMemoryError:
            return None

    def averaged(self) -> AbstractContextManager[None]:
        """The model with the weights that are evaluated and kept."""
        return nullcontext() if self.average is None else self.average.in_place(self.model)

    def averaged_weights(self) -> dict[str, Tensor]:
        """These weights, on the CPU: those of the model, or their exponential average."""
        if self.average is None:
            return weights_of(self.model)
        return {name: weight.cpu() for name, weight in self.average.weights.items()}

    def _tokens(self, rows: NDArray[np.int64]) -> int:
        return int(self._reader.examples.target_lengths[rows].sum()) + len(rows)

    def _units(self, rows: NDArray[np.int64]) -> int:
        """What the loss is a mean over."""
        return self._tokens(rows) if self.settings.sentences_per_update is None else len(rows)

    def _share(self, rows: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], float]]:
        """The micro-batches of this process and their weights; where there are none, one that counts for nothing."""
        examples = self._reader.examples
        parts = micro_batches_of_rank(
            rows,
            examples.source_lengths,
            examples.target_lengths,
            capacity=self.positions,
            rank=self._ranks.rank,
            ranks=self._ranks.size,
        )
        return [(part, 1.0) for part in parts] or [(rows[:1], 0.0)]

    def _accumulate(self, parts: Sequence[tuple[NDArray[np.int64], float]], units: int) -> dict[str, float]:
        """Gradients and sums of weighted micro-batches."""
        self.model.train()
        self.optimizer.torch.zero_grad(set_to_none=True)
        sums: dict[str, Tensor] = {}
        for rows, weight in parts:
            batch = self._reader(rows).to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
                loss = self.model.loss(batch, label_smoothing=self.settings.label_smoothing)
            (loss.objective * (weight / units)).backward()  # type: ignore[no-untyped-call]
            for name, value in {"objective": loss.objective, "nll": loss.nll, **loss.parts}.items():
                sums[name] = sums.get(name, 0.0) + value.detach() * weight
        micro_batches = sum(weight for _, weight in parts)
        return {**{name: float(value) for name, value in sums.items()}, "micro_batches": micro_batches}

    def _shrink(self) -> None:
        """Half as large micro-batches, after memory ran out."""
        self.optimizer.torch.zero_grad(set_to_none=True)
        longest = self.settings.max_length
        if self.positions <= longest:
            raise PhrasemtError(
                "the memory of the device does not hold a single pair",
                expected=f"room for {longest} positions and the model",
                next_step="lower training.max_length, or train on a larger device",
            )
        self.positions = max(self.positions // 2, longest)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def fit(self, plan: UpdatePlan) -> None:
        """On a GPU: find the largest micro-batch that fits, by trying with the longest of the pairs.

        Room is left for the optimiser's two moments. Nothing of the model changes.
        """
        if self.device.type != "cuda":
            return
        longest, width = plan.longest(_LARGEST_POSITIONS)
        moments = 2 * sum(parameter.nbytes for parameter in self.model.parameters())
        room = _SHARE_OF_MEMORY * torch.cuda.get_device_properties(self.device).total_memory - moments
        self.positions = _LARGEST_POSITIONS
        while self._needs(longest[: max(1, self.positions // width)]) > room:
            self._shrink()
        log.info("micro-batches of at most %s positions fit the memory", f"{self.positions:,}")

    def _needs(self, rows: NDArray[np.int64]) -> float:
        """Bytes of GPU memory that a micro-batch takes; infinity when there are not so many."""
        torch.cuda.reset_peak_memory_stats(self.device)
        try:
            self._accumulate([(rows, 1.0)], 1)
        except torch.OutOfMemoryError:
            return math.inf
        finally:
            self.optimizer.torch.zero_grad(set_to_none=True)
        return torch.cuda.max_memory_reserved(self.device)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
