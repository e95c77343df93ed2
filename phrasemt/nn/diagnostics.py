"""What an evaluation measures besides the loss. Hooks take numbers while a model computes the losses of batches.

A family names its measurements in `measurements` (phrasemt/models/interface.py). docs/measurements.md explains all.
All figures follow from sums over batches, so several processes can compute the numbers of the batches. The numbers are
added in the order of the batches, so the figures are those of one process to the last bit.

Letters: B sentences, h heads, T query positions, N orders of n-grams, S key positions, R real positions of many
batches, H hidden units, D model width.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Batch
from phrasemt.files.attention import AXES, AttentionPlace, Axis
from phrasemt.machine.launch import is_first
from phrasemt.nn.attention import Attention, recording
from phrasemt.nn.losses import Loss, LossSums

# A unit sigma(z) is saturated below SATURATED or above 1 - SATURATED, where its gradient is below 8 % of the largest.
SATURATED = 0.02
# A network is dead when a larger part of its units is saturated, or when the signal of its output is no larger part of
# its constant. Small networks that have learned have 0.2 and more.
DEAD_SATURATED = 0.95
DEAD_SIGNAL = 0.05

log = logging.getLogger("phrasemt.train_model")

Found = TypeVar("Found")
# Numbers of a batch, or their sums over batches, by name.
Sums = dict[str, list[float]]
# Returns the sums, over all batches, of the numbers that a function returns for each.
SumOverBatches = Callable[[Callable[[Batch], Sums]], Sums]


class MapBatches(Protocol):
    """Returns what a function returns for each batch, in the order of the batches; JSON must be able to represent it.

    Several processes may compute it.
    """

    def __call__(self, function: Callable[[Batch], Found], batches: Sequence[Batch], /) -> Sequence[Found]: ...


def in_turn(function: Callable[[Batch], Found], batches: Sequence[Batch], /) -> Sequence[Found]:
    """Compute a function of one batch after the other, in this process."""
    return [function(batch) for batch in batches]


def add(sums: Sums, numbers: Mapping[str, Iterable[float]]) -> None:
    """Add numbers to the sums of their names."""
    for name, new in numbers.items():
        sums[name] = [a + b for a, b in zip(sums[name], new, strict=True)] if name in sums else [*new]


def total(of_batches: Iterable[Sums]) -> Sums:
    """Add the numbers of batches, in this order."""
    sums: Sums = {}
    for numbers in of_batches:
        add(sums, numbers)
    return sums


class Measurement(ABC):
    """Base of measurements. A subclass that needs what the model computes meanwhile defines `watch`, too."""

    def watch(self, batch: Batch, stack: ExitStack) -> Sums:
        """Watch what the model computes on a batch. The numbers are complete when the stack has closed."""
        return {}

    @abstractmethod
    def values(self, sums: Sums, sum_over_batches: SumOverBatches) -> dict[str, float]:
        """Return the figures by name.

        sums: of what `watch` has returned for each batch. sum_over_batches: for what the model must compute once more.
        """


class NgramMass(Measurement):
    """phrase_mass_<place>: the part of attention on n-grams of two or more tokens, 0 to 1.

    It is the mean over layers, heads and real queries under teacher forcing. Nguyen et al. report 50 to 60 %. Only
    attention to n-grams is watched.
    """

    def __init__(self, attentions: Sequence[Attention]) -> None:
        self._watched = [attention for attention in attentions if attention.module.over_ngrams]

    def watch(self, batch: Batch, stack: ExitStack) -> Sums:
        sums: Sums = {}

        def take(recorded: Callable[[], list[Tensor]]) -> None:
            for attention, weights_BhTNS in zip(self._watched, recorded(), strict=True):
                real_BT = batch.masks[AXES[attention.place][0]]
                mass_R = weights_BhTNS[:, :, :, 1:].sum((3, 4)).mean(1)[real_BT]
                add(sums, {attention.place: [float(mass_R.double().sum()), len(mass_R)]})

        recorded = stack.enter_context(recording([attention.module for attention in self._watched]))
        stack.callback(take, recorded)
        return sums

    def values(self, sums: Sums, sum_over_batches: SumOverBatches) -> dict[str, float]:
        return {f"phrase_mass_{place}": mass / queries for place, (mass, queries) in sums.items()}


class OwnChunks(Measurement):
    """perplexity_own_chunks: of the words, where chunks begin where the model decides.

    Given chunks reveal something about the words to come, so only this perplexity compares with that of other families.
    log_probs: of a model of chunks.
    """

    def __init__(self, log_probs: Callable[[Batch], Tensor]) -> None:
        self._log_probs = log_probs

    def values(self, sums: Sums, sum_over_batches: SumOverBatches) -> dict[str, float]:
        def loss(batch: Batch) -> Sums:
            log_probs_BT = self._log_probs(replace(batch, target=replace(batch.target, chunks=None)))
            return {"nll": [-float(log_probs_BT.double().sum())], "tokens": [int(batch.target.mask_BT.sum())]}

        return {"perplexity_own_chunks": LossSums.of(sum_over_batches(loss)).perplexity}


def _watch_units(stack: ExitStack, module: nn.Module, mask: Tensor, sums: Sums, name: str) -> None:
    """Add number, sum, and number of the saturated ones, of activations sigma(z) of the hidden layer at real positions.

    z: the inputs of a module, until the stack closes.
    """

    def take(z: Tensor, _: Tensor) -> None:
        units_RH = torch.sigmoid(z[mask])
        saturated = (units_RH - 0.5).abs() > 0.5 - SATURATED
        add(sums, {name: [units_RH.numel(), float(units_RH.sum()), float(saturated.sum())]})

    _hook(stack, module, take)


def _unit_values(sums: Sequence[float]) -> dict[str, float]:
    """unit: mean of sigma(z). saturated: the part of the units that is saturated."""
    number, units, saturated = sums
    return {"unit": units / number, "saturated": saturated / number}


def _watch_vectors(stack: ExitStack, module: nn.Module, mask: Tensor, sums: Sums, name: str) -> None:
    """Add number, sum of squares, and sum, of the results of a module at real positions, until the stack closes."""

    def take(_: Tensor, vectors: Tensor) -> None:
        vectors_RD = vectors[mask].double()
        add(sums, {name: [len(vectors_RD), float(vectors_RD.square().sum()), *vectors_RD.sum(0).tolist()]})

    _hook(stack, module, take)


def _mean(sums: Sequence[float]) -> Tensor:
    """Return the mean of vectors [D], float64."""
    number, _, *sums_of_vectors = sums
    return torch.tensor(sums_of_vectors, dtype=torch.float64) / number


def _vector_values(sums: Sequence[float]) -> dict[str, float]:
    """constant: root mean square of the mean vector, which is the same at all positions.

    signal: root mean square of the differences to the mean vector.
    """
    mean_D = _mean(sums)
    constant = float(mean_D.square().mean())
    variance = sums[1] / sums[0] / len(mean_D) - constant
    return {"constant": math.sqrt(constant), "signal": math.sqrt(max(0.0, variance))}


@dataclass(frozen=True)
class Network:
    """A network of Eq. (3) or Eq. (8) of phrase representations (Xu et al. 2020).

    module: has `units`, which turns z into activations of the hidden layer, and for Eq. (8) `output`, which returns the
        result.
    axis: its positions.
    """

    name: str
    module: Any
    axis: Axis


class DeadNetworks(Measurement):
    """<network>_unit, _saturated, _constant and _signal, and dead_networks, their number, each with a warning.

    A network is dead when its units are saturated, because then it gets no gradient, or when its output does not depend
    on its input.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    def watch(self, batch: Batch, stack: ExitStack) -> Sums:
        sums: Sums = {}
        for network in self._networks:
            mask = batch.masks[network.axis]
            _watch_units(stack, network.module.units, mask, sums, f"{network.name}_units")
            if hasattr(network.module, "output"):
                _watch_vectors(stack, network.module.output, mask, sums, f"{network.name}_output")
        return sums

    def values(self, sums: Sums, sum_over_batches: SumOverBatches) -> dict[str, float]:
        measured: dict[str, float] = {}
        dead = 0
        for network in self._networks:
            values = _unit_values(sums[f"{network.name}_units"])
            if (vectors := sums.get(f"{network.name}_output")) is not None:
                values |= _vector_values(vectors)
            measured |= {f"{network.name}_{key}": value for key, value in values.items()}
            if reason := _why_dead(values):
                dead += 1
                if is_first():
                    log.warning("%s is dead: %s", network.name, reason)
        return {**measured, "dead_networks": float(dead)}


def _why_dead(values: Mapping[str, float]) -> str | None:
    """Why a network with these statistics is dead, or None. Without an output (Eq. 3) only its units are judged."""
    if values["saturated"] > DEAD_SATURATED:
        return f"{100 * values['saturated']:.0f} % of its hidden units are saturated, so it learns no more"
    if "signal" in values and values["signal"] <= DEAD_SIGNAL * values["constant"]:
        return (
            f"its output hardly depends on its input (signal {values['signal']:.3g}, constant {values['constant']:.3g})"
        )
    return None


class UseOfAttentions(Measurement):
    """perplexity_without_<group>: perplexity when the results of some attentions are their means over all positions.

    If it is not clearly higher than the model's perplexity, the model makes no use of what the group attends to. Groups
    without attentions are left out. loss: computes the loss of a batch without label smoothing.
    """

    GROUPS: ClassVar[dict[str, tuple[AttentionPlace, ...]]] = {
        "source_attention": ("cross",),
        "phrases": ("enc_phrases", "dec_phrases"),
        "encoder_phrases": ("enc_phrases",),
        "decoder_phrases": ("dec_phrases",),
    }

    def __init__(self, attentions: Sequence[Attention], loss: Callable[[Batch], Loss]) -> None:
        watched = {place for places in self.GROUPS.values() for place in places}
        self._attentions = {
            f"{attention.place}_{attention.layer}": attention for attention in attentions if attention.place in watched
        }
        self._loss = loss

    def watch(self, batch: Batch, stack: ExitStack) -> Sums:
        sums: Sums = {}
        for name, attention in self._attentions.items():
            _watch_vectors(stack, attention.module, batch.masks[AXES[attention.place][0]], sums, name)
        return sums

    def values(self, sums: Sums, sum_over_batches: SumOverBatches) -> dict[str, float]:
        measured = {}
        for group, places in self.GROUPS.items():
            with ExitStack() as stack:
                replaced = {
                    name: attention for name, attention in self._attentions.items() if attention.place in places
                }
                for name, attention in replaced.items():
                    _hook(stack, attention.module, partial(_everywhere, _mean(sums[name])))
                if replaced:
                    losses = sum_over_batches(lambda batch: self._loss(batch).numbers())
                    measured[f"perplexity_without_{group}"] = LossSums.of(losses).perplexity
        return measured


def _everywhere(vector_D: Tensor, _: Tensor, vectors: Tensor) -> Tensor:
    """The same vector at every position."""
    return vector_D.to(vectors).expand_as(vectors)


def _hook(stack: ExitStack, module: nn.Module, function: Callable[[Tensor, Tensor], Tensor | None]) -> None:
    """Call function(first input, output) after each call of a module, until the stack closes.

    The module then returns the result of the function, if it is not None.
    """
    stack.callback(module.register_forward_hook(lambda _, inputs, output: function(inputs[0], output)).remove)
