"""Keys and values of what the hypotheses of a beam have produced so far.

All hypotheses of a sentence share one cache: at each step every hypothesis adds its entry, and a mask says which entries
are its own history. Hypotheses that change places therefore move a few booleans and never keys or values.

Letters: N layers, B sentences, K hypotheses, L = steps * K entries, h heads, E head width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

FIRST_CAPACITY = 16  # steps


@dataclass(frozen=True, kw_only=True)
class BeamCache:
    """Entries of the past steps; the tensors have room for more steps than `steps`.

    keys_NBhLE, values_NBhLE: entry step*K + k is what hypothesis k added at that step.
    history_BKL: True where an entry is part of a hypothesis.

    A cache and the one that `grown` makes of it share memory, so only the newest of a chain is to be used.
    """

    keys_NBhLE: Tensor
    values_NBhLE: Tensor
    history_BKL: Tensor
    steps: int

    @classmethod
    def empty(cls, *, layers: int, sentences: int, beams: int, heads: int, like_BhSE: Tensor) -> BeamCache:
        """No entries; type, device and head width as those of `like_BhSE`."""
        room = like_BhSE.new_empty(layers, sentences, heads, FIRST_CAPACITY * beams, like_BhSE.shape[-1])
        history = torch.empty(sentences, beams, 0, dtype=torch.bool, device=like_BhSE.device)
        return cls(keys_NBhLE=room, values_NBhLE=torch.empty_like(room), history_BKL=history, steps=0)

    @property
    def beams(self) -> int:
        return self.history_BKL.shape[1]

    def grown(self) -> BeamCache:
        """Room for one more entry of each hypothesis, already part of its history; `add` fills it, layer by layer."""
        keys_NBhLE, values_NBhLE = self.keys_NBhLE, self.values_NBhLE
        if self.steps * self.beams == keys_NBhLE.shape[3]:
            keys_NBhLE = torch.cat((keys_NBhLE, torch.empty_like(keys_NBhLE)), dim=3)
            values_NBhLE = torch.cat((values_NBhLE, torch.empty_like(values_NBhLE)), dim=3)
        own_BKK = torch.eye(self.beams, dtype=torch.bool, device=keys_NBhLE.device).expand(keys_NBhLE.shape[1], -1, -1)
        history_BKL = torch.cat((self.history_BKL, own_BKK), dim=-1)
        return BeamCache(
            keys_NBhLE=keys_NBhLE, values_NBhLE=values_NBhLE, history_BKL=history_BKL, steps=self.steps + 1
        )

    def add(self, layer: int, keys_BhKE: Tensor, values_BhKE: Tensor) -> tuple[Tensor, Tensor]:
        """Write the newest entries of a layer; its keys and values of all entries so far [B, h, L, E]."""
        entries, first = self.steps * self.beams, (self.steps - 1) * self.beams
        self.keys_NBhLE[layer, :, :, first:entries] = keys_BhKE
        self.values_NBhLE[layer, :, :, first:entries] = values_BhKE
        return self.keys_NBhLE[layer, :, :, :entries], self.values_NBhLE[layer, :, :, :entries]

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
            keys_NBhLE=self.keys_NBhLE.index_select(1, sentences),
            values_NBhLE=self.values_NBhLE.index_select(1, sentences),
            history_BKL=self.history_BKL.index_select(0, sentences),
            steps=self.steps,
        )
