"""Share of attention on n-grams of two or more tokens, for every model with attention to n-grams.

Letters: B sentences, h heads, T query positions, N orders of n-grams, S key positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from phrasemt.batching.batch import Batch
from phrasemt.files.attention import AttentionPlace
from phrasemt.models.interface import Attention
from phrasemt.nn.ngram_attention import NgramAttention
from phrasemt.nn.recording import recording
from phrasemt.nn.words import Loss


class PhraseMass:
    """phrase_mass_<place>: the share of attention on n-grams of two or more tokens, 0 to 1.

    It is the mean over layers, heads and real queries under teacher forcing. Nguyen et al. report 50 to 60 %.
    """

    def __init__(self, attentions: Sequence[Attention]) -> None:
        self._watched = [one for one in attentions if isinstance(one.module, NgramAttention)]
        self._masses: dict[AttentionPlace, list[Tensor]] = {one.place: [] for one in self._watched}

    def watch(self, loss: Callable[[Batch], Loss]) -> Callable[[Batch], Loss]:
        """Return a loss that is the same and collects the attention of the batch."""

        def watched_loss(batch: Batch) -> Loss:
            with recording([one.module for one in self._watched]) as recorded:
                sums = loss(batch)
            for one, weights_BhTNS in zip(self._watched, recorded(), strict=True):
                real = batch.source.mask_BS if one.place == "enc_self" else batch.target.mask_BT
                self._masses[one.place].append(weights_BhTNS[:, :, :, 1:].sum((3, 4)).mean(1)[real])
            return sums

        return watched_loss

    def measurements(self) -> dict[str, float]:
        return {f"phrase_mass_{place}": float(torch.cat(mass).mean()) for place, mass in self._masses.items()}
