"""An ensemble: several models of one vocabulary that translate together, as one model for every search.

The probability of a word is the mean of its probabilities by all members (log-probabilities of fairseq's ensembles).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Source
from phrasemt.models.interface import SearchableModel
from phrasemt.nn.beams import SearchTensors


@dataclass(frozen=True, kw_only=True)
class Parts(SearchTensors):
    """Memories or states of all members."""

    of_members: tuple[SearchTensors, ...]


class Ensemble(SearchableModel[Parts, Parts]):
    """The members must have the same target vocabulary, and each must be able to read the same batches.

    An ensemble is for searches only.
    """

    def __init__(self, members: Sequence[SearchableModel[Any, Any]]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def _models(self) -> list[SearchableModel[Any, Any]]:
        return list(self.members)  # type: ignore[arg-type]

    def encode(self, source: Source) -> Parts:
        return Parts(of_members=tuple(model.encode(source) for model in self._models))

    def start(self, memory: Parts, beams: int) -> Parts:
        parts = zip(self._models, memory.of_members, strict=True)
        return Parts(of_members=tuple(model.start(part, beams) for model, part in parts))

    def step(self, memory: Parts, state: Parts, last_tokens_BK: Tensor) -> tuple[Tensor, Parts]:
        parts = zip(self._models, memory.of_members, state.of_members, strict=True)
        steps = [model.step(of_memory, of_state, last_tokens_BK) for model, of_memory, of_state in parts]
        log_probs, states = zip(*steps, strict=True)
        sum_BKV = log_probs[0]
        for log_probs_BKV in log_probs[1:]:
            torch.logaddexp(sum_BKV, log_probs_BKV, out=sum_BKV)
        return sum_BKV.sub_(math.log(len(log_probs))), Parts(of_members=states)
