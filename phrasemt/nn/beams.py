"""The cache of self-attention in beam search: keys and values of the tokens of all hypotheses.

All hypotheses of a sentence share one cache. At each step every hypothesis adds one entry, and a mask says which
entries belong to its own history. So reordering hypotheses moves booleans and no keys or values.

Letters: N layers, B sentences, K hypotheses, L = steps * K entries, h heads, E head width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

FIRST_CAPACITY = 16  # steps


class Past(Protocol):
    """The cache of any kind of self-attention, as models use it. All methods return a new cache."""

    @property
    def steps(self) -> int:
        """Number of steps that have entries."""

    def grown(self) -> Past:
        """Make room for the entries of one more step, and count them to the history of their hypotheses."""

    def reordered(self, parents_BK: Tensor) -> Past:
        """Let hypothesis k of sentence b continue hypothesis parents_BK[b, k].

        There may be more hypotheses than before.
        """

    def select_sentences(self, sentences: Tensor) -> Past:
        """Keep some sentences (int64 indices)."""


@dataclass(frozen=True, kw_only=True)
class BeamCache:
    """Keys and values of multi-head attention, by step and hypothesis.

    keys_values_N2BhLE: entry step*K + k comes from hypothesis k at that step. Its L is a capacity, at least steps*K.
    history_BKL: True where an entry is part of a hypothesis; L is steps*K.

    A cache and the result of its `grown` share memory: do not use the old one any more.
    """

    keys_values_N2BhLE: Tensor
    history_BKL: Tensor
    steps: int

    @classmethod
    def empty(cls, *, layers: int, beams: int, heads: int, like_BXD: Tensor) -> BeamCache:
        """Return a cache without entries; `like_BXD` gives sentences, model width, type and device."""
        sentences, width = like_BXD.shape[0], like_BXD.shape[-1]
        entries = (layers, 2, sentences, heads, FIRST_CAPACITY * beams, width // heads)
        return cls(
            keys_values_N2BhLE=like_BXD.new_empty(entries),
            history_BKL=torch.empty(sentences, beams, 0, dtype=torch.bool, device=like_BXD.device),
            steps=0,
        )

    @property
    def beams(self) -> int:
        return self.history_BKL.shape[1]

    def grown(self) -> BeamCache:
        """Make room for one more entry of each hypothesis, as part of its history. `add` fills it, layer by layer."""
        keys_values, (_, beams, entries) = self.keys_values_N2BhLE, self.history_BKL.shape
        if entries == keys_values.shape[4]:
            keys_values = _room_like(keys_values, 2 * entries)
            keys_values[:, :, :, :, :entries] = self.keys_values_N2BhLE
        own_BKK = torch.eye(beams, dtype=torch.bool, device=keys_values.device).expand(keys_values.shape[2], -1, -1)
        history_BKL = torch.cat((self.history_BKL, own_BKK), dim=-1)
        return BeamCache(keys_values_N2BhLE=keys_values, history_BKL=history_BKL, steps=self.steps + 1)

    def add(self, layer: int, keys_BhKE: Tensor, values_BhKE: Tensor) -> Tensor:
        """Write the newest entries of a layer; return the layer's keys and values of all entries [2, B, h, L, E]."""
        entries = self.steps * self.beams
        keys_values_2BhLE = self.keys_values_N2BhLE[layer, :, :, :, :entries]
        keys_values_2BhLE[0, :, :, -self.beams :] = keys_BhKE
        keys_values_2BhLE[1, :, :, -self.beams :] = values_BhKE
        return keys_values_2BhLE

    @property
    def mask_B1KL(self) -> Tensor:
        """True where a hypothesis may use an entry; the same for all heads."""
        return self.history_BKL[:, None]

    def reordered(self, parents_BK: Tensor) -> BeamCache:
        """Let hypothesis k of sentence b continue hypothesis parents_BK[b, k].

        There may be more hypotheses than before.
        """
        cache = self if parents_BK.shape[1] == self.beams else self._widened(parents_BK.shape[1])
        parents_BKL = parents_BK[:, :, None].expand(-1, -1, cache.history_BKL.shape[-1])
        return replace(cache, history_BKL=cache.history_BKL.gather(1, parents_BKL))

    def _widened(self, beams: int) -> BeamCache:
        """Return the same hypotheses with the entries in the layout of more hypotheses; the new entries are 0."""
        keys_values, steps, more = self.keys_values_N2BhLE, (self.steps, self.beams), beams - self.beams
        used = torch.unflatten(keys_values[:, :, :, :, : self.steps * self.beams], 4, steps)
        widened = _room_like(keys_values, keys_values.shape[4] // self.beams * beams)
        widened[:, :, :, :, : self.steps * beams] = F.pad(used, (0, 0, 0, more)).flatten(4, 5)
        history_BKL = F.pad(torch.unflatten(self.history_BKL, -1, steps), (0, more)).flatten(-2)
        return BeamCache(keys_values_N2BhLE=widened, history_BKL=history_BKL, steps=self.steps)

    def select_sentences(self, sentences: Tensor) -> BeamCache:
        """Keep some sentences (int64 indices)."""
        return BeamCache(
            keys_values_N2BhLE=self.keys_values_N2BhLE.index_select(2, sentences),
            history_BKL=self.history_BKL.index_select(0, sentences),
            steps=self.steps,
        )


def _room_like(keys_values_N2BhLE: Tensor, entries: int) -> Tensor:
    """Return memory for a number of entries."""
    *shape, _, width = keys_values_N2BhLE.shape
    return keys_values_N2BhLE.new_empty(*shape, entries, width)
