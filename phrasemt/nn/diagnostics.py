"""Measurements inside phrase representations (Xu et al. 2020): whether networks work, and attentions are used.

A network of Eq. (3) or (8) is dead when its units are saturated, because then it gets no gradient, or when its output
does not depend on its input. An attention is dead when its mean would do as well. The BLEU of a model does not show it:
a decoder without phrases can read the source tokens, and a decoder without these can read the phrases.

Letters: B sentences, T positions, R real positions of many batches, H hidden units, D model width.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Batch
from phrasemt.nn.embeddings import Loss

# A unit sigma(z) is saturated below SATURATED or above 1 - SATURATED, where its gradient is below 8 % of the largest.
SATURATED = 0.02
# A network is dead when a larger share of its units is saturated, or when the signal of its output is no larger part of
# its constant. With `sigmoid: plain` the part is 0.04 (decoder layer 6 of 6, post-norm) to 0.3 at the start, and 0.2 in
# small networks that have learned; with centred units it is at least 0.3 at the start.
DEAD_SATURATED = 0.95
DEAD_SIGNAL = 0.05

log = logging.getLogger("phrasemt.train_model")


class UnitStatistics:
    """Statistics over hidden units and real positions.

    unit: mean of sigma(z). saturated: share of units that are saturated.
    """

    def __init__(self) -> None:
        self._count, self._sum, self._saturated = 0, 0.0, 0.0

    def add(self, units_RH: Tensor) -> None:
        self._count += units_RH.numel()
        self._sum += float(units_RH.sum())
        self._saturated += float(((units_RH - 0.5).abs() > 0.5 - SATURATED).sum())

    def values(self) -> dict[str, float]:
        return {"unit": self._sum / self._count, "saturated": self._saturated / self._count}


class VectorStatistics:
    """Statistics of vectors over real positions.

    constant: root mean square of the mean vector, which is the same at all positions. signal: root mean square of the
    differences to the mean vector.
    """

    def __init__(self) -> None:
        self._count, self._squares = 0, 0.0
        self._sum_D: Tensor | float = 0.0

    def add(self, vectors_RD: Tensor) -> None:
        vectors_RD = vectors_RD.double()
        self._count += len(vectors_RD)
        self._squares += float(vectors_RD.square().sum())
        self._sum_D = vectors_RD.sum(0) + self._sum_D

    @property
    def mean_D(self) -> Tensor:
        assert isinstance(self._sum_D, Tensor), "no vectors were added"
        return self._sum_D / self._count

    def values(self) -> dict[str, float]:
        constant = float(self.mean_D.square().mean())
        variance = self._squares / self._count / len(self.mean_D) - constant
        return {"constant": math.sqrt(constant), "signal": math.sqrt(max(0.0, variance))}


# Returns the mask of a batch, True at real positions.
Mask = Callable[[Batch], Tensor]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network of Eq. (3) or Eq. (8).

    units: the module that turns z into hidden units. output: the module that returns the result of Eq. (8), None for
    Eq. (3). mask: in the shape of z without its last dimension.
    """

    units: nn.Module
    mask: Mask
    output: nn.Module | None = None


@dataclass(frozen=True, kw_only=True)
class Attended:
    """An attention, whose result is [B, T, D]. mask: [B, T]."""

    module: nn.Module
    mask: Mask


@torch.no_grad()
def diagnose(
    networks: Mapping[str, Network],
    attentions: Mapping[str, Sequence[Attended]],
    loss: Callable[[Batch], Loss],
    loss_without: Callable[[Batch], Loss],
    batches: Sequence[Batch],
) -> tuple[list[Loss], dict[str, float]]:
    """Measure the networks and attentions of a model on batches.

    loss, loss_without: compute the loss of a batch with the whole model, in the first pass and in the passes after it.
    Returns the losses of the first pass, for each network

    <name>_unit, <name>_saturated     `UnitStatistics`
    <name>_constant, <name>_signal    `VectorStatistics` of the output of Eq. (8)

    dead_networks, the number of networks that are dead, each with a warning, and for each group of attentions
    `perplexity_without_<group>`, for which the results of the group at every position are replaced by their means over
    all positions. If it is not clearly higher than the model's perplexity, the model makes no use of what the group
    attends to.
    """
    units = {name: UnitStatistics() for name in networks}
    outputs = {name: VectorStatistics() for name, network in networks.items() if network.output}
    attended = {one.module: (one.mask, VectorStatistics()) for group in attentions.values() for one in group}

    with ExitStack() as stack:
        # `batch` is the one of the loop below.
        def watch_units(module: nn.Module, mask: Mask, statistics: UnitStatistics) -> None:
            _hook(stack, module, lambda z, _: statistics.add(torch.sigmoid(z[mask(batch)])))

        def watch_output(module: nn.Module, mask: Mask, statistics: VectorStatistics) -> None:
            _hook(stack, module, lambda _, vectors: statistics.add(vectors[mask(batch)]))

        for name, network in networks.items():
            watch_units(network.units, network.mask, units[name])
            if network.output:
                watch_output(network.output, network.mask, outputs[name])
        for module, (mask, statistics) in attended.items():
            watch_output(module, mask, statistics)
        losses = []
        for batch in batches:
            losses.append(loss(batch))

    def perplexity_without(group: Iterable[Attended]) -> float:
        nll, tokens = 0.0, 0
        with ExitStack() as stack:
            for one in group:
                _, statistics = attended[one.module]
                _replace(stack, one.module, statistics.mean_D)
            for batch in batches:
                sums = loss_without(batch)
                nll, tokens = nll + float(sums.nll), tokens + sums.tokens
        return math.exp(min(nll / tokens, 100.0))

    found = {name: one.values() | (outputs[name].values() if name in outputs else {}) for name, one in units.items()}
    dead = {name: reason for name, of_network in found.items() if (reason := _why_dead(of_network))}
    for name, reason in dead.items():
        log.warning("%s is dead: %s", name, reason)
    values = {f"{name}_{key}": value for name, of_network in found.items() for key, value in of_network.items()}
    values["dead_networks"] = float(len(dead))
    values |= {f"perplexity_without_{name}": perplexity_without(group) for name, group in attentions.items()}
    return losses, values


def _why_dead(values: Mapping[str, float]) -> str | None:
    """Why a network with these statistics is dead, or None. Without an output (Eq. 3) only its units are judged."""
    if values["saturated"] > DEAD_SATURATED:
        return f"{100 * values['saturated']:.0f} % of its hidden units are saturated, so it learns no more"
    if "signal" in values and values["signal"] <= DEAD_SIGNAL * values["constant"]:
        return (
            f"its output hardly depends on its input (signal {values['signal']:.3g}, constant {values['constant']:.3g})"
        )
    return None


def _hook(stack: ExitStack, module: nn.Module, function: Callable[[Tensor, Tensor], Tensor | None]) -> None:
    """Call function(first input, output) after each call of a module, until the stack closes.

    The module then returns the result of the function, if it is not None.
    """
    stack.callback(module.register_forward_hook(lambda _, inputs, output: function(inputs[0], output)).remove)


def _replace(stack: ExitStack, module: nn.Module, output_D: Tensor) -> None:
    """Replace the output of a module at every position by the same vector, until the stack closes."""
    _hook(stack, module, lambda _, vectors: output_D.to(vectors).expand_as(vectors))
