"""Tensors of a search: the base of memories and states, and the cache of self-attention.

All hypotheses of a sentence share one cache. At each step every hypothesis adds one entry, and a mask says which
entries belong to its own history. So reordering hypotheses moves booleans and no keys or values.

Letters: N layers, B sentences, K hypotheses, L = steps * K entries, h heads, E head width; X in the name of a state: B
and K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from phrasemt.batching.batch import Tensors
from phrasemt.nn.layers import Mask

FIRST_CAPACITY = 16  # steps


@dataclass(frozen=True, kw_only=True)
class SearchTensors(Tensors):
    """Base of memories of sentences and states of hypotheses.

    The letters at the end of a field's name tell where the axes of sentences (B) and of hypotheses (K) are.
    """

    def select_sentences(self, sentences: Tensor) -> Self:
        """Keep some sentences (int64 indices)."""

        def selected(x: Tensor, axes: str) -> Tensor:
            return x.index_select(axes.replace("X", "BK").index("B"), sentences)

        return self._changed(selected, lambda part: part.select_sentences(sentences))

    def contiguous(self) -> Self:
        """Return a copy that is laid out contiguously, because each step of a search reads it."""
        return self.map(lambda x, _: x.contiguous())

    def reordered(self, parents_BK: Tensor) -> Self:
        """Let hypothesis k of sentence b continue hypothesis parents_BK[b, k].

        There may be more hypotheses than before.
        """

        def reordered(x: Tensor, axes: str) -> Tensor:
            if "K" not in axes and "X" not in axes:
                return x
            first = axes.replace("X", "BK").index("B")
            sentences, beams = x.shape[first : first + 2]
            rows_BK = torch.arange(sentences, device=x.device)[:, None] * beams + parents_BK
            selected = x.flatten(first, first + 1).index_select(first, rows_BK.flatten())
            return torch.unflatten(selected, first, parents_BK.shape)

        return self._changed(reordered, lambda part: part.reordered(parents_BK))


@dataclass(frozen=True, kw_only=True)
class BeamCache(SearchTensors):
    """Keys and values of multi-head attention, by step and hypothesis.

    keys_values_N2BhLE: entry step*K + k comes from hypothesis k at that step. Its L is a capacity, at least steps*K.
    history_BKL: True where an entry is part of a hypothesis; L is steps*K.

    A cache and the result of its `grown` share memory: do not use the old one any more.
    """

    keys_values_N2BhLE: Tensor
    history_BKL: Tensor
    steps: int

    @classmethod
    def empty(
        cls, layers: int, sentences: int, beams: int, heads: int, width: int, like: Tensor, **more: Tensor
    ) -> Self:
        """Return a cache without entries. like: gives type and device. more: further fields of a subclass."""
        return cls(
            keys_values_N2BhLE=like.new_empty(layers, 2, sentences, heads, FIRST_CAPACITY * beams, width // heads),
            history_BKL=like.new_empty(sentences, beams, 0, dtype=torch.bool),
            steps=0,
            **more,
        )

    @property
    def beams(self) -> int:
        return self.history_BKL.shape[1]

    def grown(self) -> Self:
        """Make room for one more entry of each hypothesis, as part of its history; `add` fills it, layer by layer."""
        keys_values, (sentences, beams, entries) = self.keys_values_N2BhLE, self.history_BKL.shape
        if entries == keys_values.shape[4]:
            keys_values = _room_like(keys_values, 2 * entries)
            keys_values[:, :, :, :, :entries] = self.keys_values_N2BhLE
        own_BKK = torch.eye(beams, dtype=torch.bool, device=keys_values.device).expand(sentences, -1, -1)
        history_BKL = torch.cat((self.history_BKL, own_BKK), dim=-1)
        return replace(self, keys_values_N2BhLE=keys_values, history_BKL=history_BKL, steps=self.steps + 1)

    def add(self, layer: int, keys_BhKE: Tensor, values_BhKE: Tensor) -> Tensor:
        """Write the newest entries of a layer; return the layer's keys and values of all entries [2, B, h, L, E]."""
        entries = self.steps * self.beams
        keys_values_2BhLE = self.keys_values_N2BhLE[layer, :, :, :, :entries]
        keys_values_2BhLE[0, :, :, -self.beams :] = keys_BhKE
        keys_values_2BhLE[1, :, :, -self.beams :] = values_BhKE
        return keys_values_2BhLE

    @cached_property
    def mask(self) -> Mask:
        """The mask [B, 1, K, L] with which a hypothesis may use the entries of its history."""
        return Mask(self.history_BKL[:, None])

    def reordered(self, parents_BK: Tensor) -> Self:
        """As in the base. More hypotheses than before need another layout of the entries; the new entries are 0."""
        keys_values, steps, more = self.keys_values_N2BhLE, self.steps, parents_BK.shape[1] - self.beams
        ordered = super().reordered(parents_BK)
        if not more:
            return ordered
        by_step = (steps, self.beams)
        widened = _room_like(keys_values, keys_values.shape[4] // self.beams * parents_BK.shape[1])
        used = torch.unflatten(keys_values[:, :, :, :, : steps * self.beams], 4, by_step)
        widened[:, :, :, :, : steps * parents_BK.shape[1]] = F.pad(used, (0, 0, 0, more)).flatten(4, 5)
        history_BKL = F.pad(torch.unflatten(ordered.history_BKL, -1, by_step), (0, more)).flatten(-2)
        return replace(ordered, keys_values_N2BhLE=widened, history_BKL=history_BKL)


def _room_like(keys_values_N2BhLE: Tensor, entries: int) -> Tensor:
    """Return memory for a number of entries."""
    *shape, _, width = keys_values_N2BhLE.shape
    return keys_values_N2BhLE.new_empty(*shape, entries, width)
