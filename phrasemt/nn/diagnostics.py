"""Measurements inside the networks of Eqs. (3) and (8) (Xu et al. 2020): whether they work, and use the phrases.

A network is dead when its units are saturated, because then it gets no gradient, or when its output does not depend on
its input. The BLEU of a model does not show it: without the network the model is still a Transformer.

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
from phrasemt.nn.words import Loss

# A unit sigma(z) is saturated below SATURATED or above 1 - SATURATED, where its gradient is below 8 % of the largest.
SATURATED = 0.02
# A network learns no more when a larger share of its units is saturated.
DEAD = 0.95

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


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network of Eq. (3) or Eq. (8).

    units: the module that turns z into hidden units. attention, output: modules of Eqs. (7) and (8), None for Eq. (3).
    mask: returns the mask of real positions of a batch, in the shape of z without its last dimension.
    """

    units: nn.Module
    mask: Callable[[Batch], Tensor]
    attention: nn.Module | None = None
    output: nn.Module | None = None


@torch.no_grad()
def diagnose(
    networks: Mapping[str, Network],
    loss: Callable[[Batch], Loss],
    loss_without_phrases: Callable[[Batch], Loss],
    batches: Sequence[Batch],
) -> tuple[list[Loss], dict[str, float]]:
    """Measure the networks of a model on batches.

    networks: by name, `<group>_<number>`. loss, loss_without_phrases: compute the loss of a batch with all networks of
    the model, in the first pass and in the passes after it. Returns the losses of the first pass and, for each network,

    <name>_unit, <name>_saturated     `UnitStatistics`
    <name>_constant, <name>_signal    `VectorStatistics` of the output of Eq. (8)

    and `perplexity_without_phrases`, for which the result of Eq. (7) at every position is replaced by its mean over all
    positions. If it is not clearly higher than the model's perplexity, the model makes no use of the phrases.
    `perplexity_without_<group>_phrases` is the same for the networks of one group, such as those of the encoder.
    """
    units = {name: UnitStatistics() for name in networks}
    outputs, attended = ({name: VectorStatistics() for name, n in networks.items() if n.output} for _ in range(2))

    def watch(name: str, network: Network, stack: ExitStack) -> None:
        def real(vectors: Tensor) -> Tensor:
            return vectors[network.mask(batch)]  # the batch of the loop below

        _hook(stack, network.units, lambda z, _: units[name].add(torch.sigmoid(real(z))))
        if network.output and network.attention:
            _hook(stack, network.attention, lambda _, vectors: attended[name].add(real(vectors)))
            _hook(stack, network.output, lambda _, vectors: outputs[name].add(real(vectors)))

    with ExitStack() as stack:
        for name, network in networks.items():
            watch(name, network, stack)
        losses = []
        for batch in batches:
            losses.append(loss(batch))

    def perplexity_without(names: Iterable[str]) -> float:
        nll, tokens = 0.0, 0
        with ExitStack() as stack:
            for name in names:
                attention = networks[name].attention
                assert attention is not None
                _replace(stack, attention, attended[name].mean_D)
            for batch in batches:
                sums = loss_without_phrases(batch)
                nll, tokens = nll + float(sums.nll), tokens + sums.tokens
        return math.exp(min(nll / tokens, 100.0))

    replaced = {"phrases": list(attended)}
    for name in attended:
        replaced.setdefault(f"{name.rpartition('_')[0]}_phrases", []).append(name)

    for name, one in units.items():
        if (share := one.values()["saturated"]) > DEAD:
            log.warning("%s: %.0f %% of the hidden units are saturated; this network learns no more", name, 100 * share)
    values = {f"{name}_{key}": value for name, one in units.items() for key, value in one.values().items()}
    values |= {f"{name}_{key}": value for name, one in outputs.items() for key, value in one.values().items()}
    values |= {f"perplexity_without_{phrases}": perplexity_without(names) for phrases, names in replaced.items()}
    return losses, values


def _hook(stack: ExitStack, module: nn.Module, function: Callable[[Tensor, Tensor], Tensor | None]) -> None:
    """Call function(first input, output) after each call of a module, until the stack closes.

    The module then returns the result of the function, if it is not None.
    """
    stack.callback(module.register_forward_hook(lambda _, inputs, output: function(inputs[0], output)).remove)


def _replace(stack: ExitStack, module: nn.Module, output_D: Tensor) -> None:
    """Replace the output of a module at every position by the same vector, until the stack closes."""
    _hook(stack, module, lambda _, vectors: output_D.to(vectors).expand_as(vectors))
