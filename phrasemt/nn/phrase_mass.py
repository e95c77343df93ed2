"""Share of attention on n-grams of two or more tokens, for every model with attention to n-grams.

Letters: B sentences, h heads, T query positions, N orders of n-grams, S key positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from phrasemt.batching.batch import Batch
from phrasemt.files.attention import AttentionPlace
from phrasemt.nn.embeddings import Loss
from phrasemt.nn.recording import RecordableAttention, recording


class PhraseMass:
    """phrase_mass_<place>: the share of attention on n-grams of two or more tokens, 0 to 1.

    It is the mean over layers, heads and real queries under teacher forcing. Nguyen et al. report 50 to 60 %.
    attentions: places and modules of all attentions of a model; only attention to n-grams is watched.
    """

    def __init__(self, attentions: Iterable[tuple[AttentionPlace, RecordableAttention]]) -> None:
        self._watched = [(place, module) for place, module in attentions if module.over_ngrams]
        self._masses: dict[AttentionPlace, list[Tensor]] = {place: [] for place, _ in self._watched}

    def watch(self, loss: Callable[[Batch], Loss]) -> Callable[[Batch], Loss]:
        """Return a loss that is the same and collects the attention of the batch."""

        def watched_loss(batch: Batch) -> Loss:
            with recording([module for _, module in self._watched]) as recorded:
                sums = loss(batch)
            for (place, _), weights_BhTNS in zip(self._watched, recorded(), strict=True):
                real = batch.source.mask_BS if place == "enc_self" else batch.target.mask_BT
                self._masses[place].append(weights_BhTNS[:, :, :, 1:].sum((3, 4)).mean(1)[real])
            return sums

        return watched_loss

    def measurements(self) -> dict[str, float]:
        return {f"phrase_mass_{place}": float(torch.cat(mass).mean()) for place, mass in self._masses.items()}
