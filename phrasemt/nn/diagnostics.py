"""What an evaluation measures besides the loss. Hooks take the figures while a model computes the losses of batches.

A family names its measurements in `measurements` (phrasemt/models/interface.py). docs/measurements.md explains all.

Letters: B sentences, h heads, T query positions, N orders of n-grams, S key positions, R real positions of many
batches, H hidden units, D model width.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Batch
from phrasemt.files.attention import AXES, AttentionPlace, Axis
from phrasemt.nn.losses import Loss
from phrasemt.nn.recording import Attention, recording

# A unit sigma(z) is saturated below SATURATED or above 1 - SATURATED, where its gradient is below 8 % of the largest.
SATURATED = 0.02
# A network is dead when a larger share of its units is saturated, or when the signal of its output is no larger part of
# its constant. With `sigmoid: plain` the part is 0.04 (decoder layer 6 of 6, post-norm) to 0.3 at the start, and 0.2 in
# small networks that have learned; with centred units it is at least 0.3 at the start.
DEAD_SATURATED = 0.95
DEAD_SIGNAL = 0.05

log = logging.getLogger("phrasemt.train_model")


class Measurement(ABC):
    """Base of measurements. A subclass that needs what the model computes meanwhile defines `watch`, too."""

    def watch(self, batch: Batch, stack: ExitStack) -> None:  # noqa: B027
        """Watch what the model computes on a batch, until the stack closes."""

    @abstractmethod
    def values(self, batches: Sequence[Batch]) -> dict[str, float]:
        """Return the figures by name. The model has computed the losses of all batches; it may compute more."""


class NgramMass(Measurement):
    """phrase_mass_<place>: the share of attention on n-grams of two or more tokens, 0 to 1.

    It is the mean over layers, heads and real queries under teacher forcing. Nguyen et al. report 50 to 60 %. Only
    attention to n-grams is watched.
    """

    def __init__(self, attentions: Sequence[Attention]) -> None:
        self._watched = [one for one in attentions if one.module.over_ngrams]
        self._masses: dict[AttentionPlace, list[Tensor]] = defaultdict(list)

    def watch(self, batch: Batch, stack: ExitStack) -> None:
        def add(recorded: Callable[[], list[Tensor]]) -> None:
            for one, weights_BhTNS in zip(self._watched, recorded(), strict=True):
                real_BT = batch.masks[AXES[one.place][0]]
                self._masses[one.place].append(weights_BhTNS[:, :, :, 1:].sum((3, 4)).mean(1)[real_BT])

        recorded = stack.enter_context(recording([one.module for one in self._watched]))
        stack.callback(add, recorded)

    def values(self, batches: Sequence[Batch]) -> dict[str, float]:
        return {f"phrase_mass_{place}": float(torch.cat(mass).mean()) for place, mass in self._masses.items()}


class OwnChunks(Measurement):
    """perplexity_own_chunks: of the words, where chunks begin where the model decides.

    The given chunks tell something about the words to come: where they begin, and how long they are. A search does not
    know them, nor does a model without chunks. So this perplexity compares with that of other families.
    log_probs: of a model of chunks.
    """

    def __init__(self, log_probs: Callable[[Batch], Tensor]) -> None:
        self._log_probs = log_probs

    def values(self, batches: Sequence[Batch]) -> dict[str, float]:
        nll, tokens = 0.0, 0
        for batch in batches:
            nll -= float(self._log_probs(replace(batch, target=replace(batch.target, chunks=None))).double().sum())
            tokens += int(batch.target.mask_BT.sum())
        return {"perplexity_own_chunks": math.exp(min(nll / tokens, 100.0))}


class UnitStatistics:
    """Statistics of hidden units sigma(z) at real positions.

    unit: mean of sigma(z). saturated: share of units that are saturated.
    """

    def __init__(self) -> None:
        self._count, self._sum, self._saturated = 0, 0.0, 0.0

    def watch(self, stack: ExitStack, module: nn.Module, mask: Tensor) -> None:
        """Take z from the inputs of a module."""
        _hook(stack, module, lambda z, _: self._add(torch.sigmoid(z[mask])))

    def _add(self, units_RH: Tensor) -> None:
        self._count += units_RH.numel()
        self._sum += float(units_RH.sum())
        self._saturated += float(((units_RH - 0.5).abs() > 0.5 - SATURATED).sum())

    def values(self) -> dict[str, float]:
        return {"unit": self._sum / self._count, "saturated": self._saturated / self._count}


class VectorStatistics:
    """Statistics of vectors at real positions.

    constant: root mean square of the mean vector, which is the same at all positions. signal: root mean square of the
    differences to the mean vector.
    """

    def __init__(self) -> None:
        self._count, self._squares = 0, 0.0
        self._sum_D: Tensor | float = 0.0

    def watch(self, stack: ExitStack, module: nn.Module, mask: Tensor) -> None:
        """Take the results of a module."""
        _hook(stack, module, lambda _, vectors: self._add(vectors[mask].double()))

    def _add(self, vectors_RD: Tensor) -> None:
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


@dataclass(frozen=True)
class Network:
    """A network of Eq. (3) or Eq. (8) of phrase representations (Xu et al. 2020).

    module: has `units`, which turns z into hidden units, and for Eq. (8) `output`, which returns the result.
    axis: its positions; "phrases" stands for the tokens of all phrases.
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
        self._networks = [
            (network, UnitStatistics(), VectorStatistics() if hasattr(network.module, "output") else None)
            for network in networks
        ]

    def watch(self, batch: Batch, stack: ExitStack) -> None:
        phrases = batch.source.phrases
        masks = batch.masks if phrases is None else batch.masks | {"phrases": phrases.token_mask_BPM}
        for network, units, outputs in self._networks:
            units.watch(stack, network.module.units, masks[network.axis])
            if outputs is not None:
                outputs.watch(stack, network.module.output, masks[network.axis])

    def values(self, batches: Sequence[Batch]) -> dict[str, float]:
        found: dict[str, float] = {}
        dead = 0
        for network, units, outputs in self._networks:
            values = units.values() | (outputs.values() if outputs else {})
            found |= {f"{network.name}_{key}": value for key, value in values.items()}
            if reason := _why_dead(values):
                dead += 1
                log.warning("%s is dead: %s", network.name, reason)
        return {**found, "dead_networks": float(dead)}


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

    If it is not clearly higher than the model's perplexity, the model makes no use of what the group attends to. The
    BLEU of a model does not show it: a decoder without phrases can read the source tokens, and a decoder without these
    can read the phrases. Groups without attentions are left out.
    loss: computes the loss of a batch without label smoothing.
    """

    GROUPS: ClassVar[dict[str, tuple[AttentionPlace, ...]]] = {
        "source_attention": ("cross",),
        "phrases": ("enc_phrases", "dec_phrases"),
        "encoder_phrases": ("enc_phrases",),
        "decoder_phrases": ("dec_phrases",),
    }

    def __init__(self, attentions: Sequence[Attention], loss: Callable[[Batch], Loss]) -> None:
        watched = {place for places in self.GROUPS.values() for place in places}
        self._results = [(one, VectorStatistics()) for one in attentions if one.place in watched]
        self._loss = loss

    def watch(self, batch: Batch, stack: ExitStack) -> None:
        for one, statistics in self._results:
            statistics.watch(stack, one.module, batch.masks[AXES[one.place][0]])

    def values(self, batches: Sequence[Batch]) -> dict[str, float]:
        found = {}
        for group, places in self.GROUPS.items():
            with ExitStack() as stack:
                replaced = [(one.module, seen.mean_D) for one, seen in self._results if one.place in places]
                for module, mean_D in replaced:
                    _hook(stack, module, partial(_everywhere, mean_D))
                if replaced:
                    losses = [self._loss(batch) for batch in batches]
                    nll = sum(float(one.nll) for one in losses) / sum(one.tokens for one in losses)
                    found[f"perplexity_without_{group}"] = math.exp(min(nll, 100.0))
        return found


def _everywhere(vector_D: Tensor, _: Tensor, vectors: Tensor) -> Tensor:
    """The same vector at every position."""
    return vector_D.to(vectors).expand_as(vectors)


def _hook(stack: ExitStack, module: nn.Module, function: Callable[[Tensor, Tensor], Tensor | None]) -> None:
    """Call function(first input, output) after each call of a module, until the stack closes.

    The module then returns the result of the function, if it is not None.
    """
    stack.callback(module.register_forward_hook(lambda _, inputs, output: function(inputs[0], output)).remove)
