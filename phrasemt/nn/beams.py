"""Keys and values of what the hypotheses of a beam have produced so far.

All hypotheses of a sentence share one cache: at each step every hypothesis adds its entry, and a mask says which ones
belong to its own history. Hypotheses that change places move a few booleans and never keys or values.

Letters: N layers, B sentences, K hypotheses, L = steps * K entries, h heads, E head width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

FIRST_CAPACITY = 16  # steps


class Past(Protocol):
    """What a search knows of the cache of any self-attention."""

    @property
    def steps(self) -> int:
        """Steps so far."""

    def grown(self) -> Past:
        """Room for the entries of one more step, already part of its history."""

    def reordered(self, parents_BK: Tensor) -> Past:
        """Hypothesis k of sentence b continues parents_BK[b, k]."""

    def kept(self, sentences: Tensor) -> Past:
        """Some sentences only (int64 indices)."""


@dataclass(frozen=True, kw_only=True)
class BeamCache:
    """Entries of the past steps; the tensors have room for more steps than `steps`.

    keys_values_N2BhLE: entry step*K + k is what hypothesis k added at that step.
    history_BKL: True where an entry is part of a hypothesis.

    A cache and the one that `grown` makes of it share memory, so only the newest of a chain is to be used.
    """

    keys_values_N2BhLE: Tensor
    history_BKL: Tensor
    steps: int

    @classmethod
    def empty(cls, *, layers: int, beams: int, heads: int, like_BXD: Tensor) -> BeamCache:
        """No entries; sentences, model width, type and device as those of `like_BXD`."""
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
        """Room for one more entry of each hypothesis, already part of its history; `add` fills it, layer by layer."""
        keys_values = self.keys_values_N2BhLE
        if self.steps * self.beams == keys_values.shape[4]:
            keys_values = torch.cat((keys_values, torch.empty_like(keys_values)), dim=4)
        own_BKK = torch.eye(self.beams, dtype=torch.bool, device=keys_values.device).expand(
            keys_values.shape[2], -1, -1
        )
        history_BKL = torch.cat((self.history_BKL, own_BKK), dim=-1)
        return BeamCache(keys_values_N2BhLE=keys_values, history_BKL=history_BKL, steps=self.steps + 1)

    def add(self, layer: int, keys_BhKE: Tensor, values_BhKE: Tensor) -> Tensor:
        """Write the newest entries of a layer; its keys and values of all entries so far [2, B, h, L, E]."""
        entries = self.steps * self.beams
        keys_values_2BhLE = self.keys_values_N2BhLE[layer, :, :, :, :entries]
        keys_values_2BhLE[0, :, :, -self.beams :] = keys_BhKE
        keys_values_2BhLE[1, :, :, -self.beams :] = values_BhKE
        return keys_values_2BhLE

    @property
    def mask_B1KL(self) -> Tensor:
        """Which entries a hypothesis may use, for all heads."""
        return self.history_BKL[:, None]

    def reordered(self, parents_BK: Tensor) -> BeamCache:
        """Hypothesis k of sentence b continues parents_BK[b, k]."""
        parents_BKL = parents_BK[:, :, None].expand(-1, -1, self.history_BKL.shape[-1])
        return replace(self, history_BKL=self.history_BKL.gather(1, parents_BKL))

    def kept(self, sentences: Tensor) -> BeamCache:
        """Some sentences only (int64 indices)."""
        return BeamCache(
            keys_values_N2BhLE=self.keys_values_N2BhLE.index_select(2, sentences),
            history_BKL=self.history_BKL.index_select(0, sentences),
            steps=self.steps,
        )
