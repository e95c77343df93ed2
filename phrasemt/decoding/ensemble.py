"""An ensemble: several models of one vocabulary that translate together, as one model for every search.

The probability of a word is the mean of its probabilities by all members (log-probabilities of fairseq's ensembles).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Source
from phrasemt.models.interface import SearchableModel
from phrasemt.models.weights import load_model
from phrasemt.stages.decoding import Member
from phrasemt.text.vocab import Vocabulary

Parts = tuple[Any, ...]


class Ensemble(SearchableModel[Parts, Parts]):
    """The members must have the same target vocabulary, and each must be able to read the same batches.

    Memory and state are tuples with one entry for each member. An ensemble is for searches only.
    """

    def __init__(self, members: Sequence[SearchableModel[Any, Any]]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def _models(self) -> list[SearchableModel[Any, Any]]:
        return list(self.members)  # type: ignore[arg-type]

    def encode(self, source: Source) -> Parts:
        return tuple(model.encode(source) for model in self._models)

    def start(self, memory: Parts, beams: int) -> Parts:
        return tuple(model.start(part, beams) for model, part in zip(self._models, memory, strict=True))

    def step(self, memory: Parts, state: Parts, last_tokens_BK: Tensor) -> tuple[Tensor, Parts]:
        log_probs, states = zip(
            *(
                model.step(of_memory, of_state, last_tokens_BK)
                for model, of_memory, of_state in zip(self._models, memory, state, strict=True)
            ),
            strict=True,
        )
        sum_BKV = log_probs[0]
        for log_probs_BKV in log_probs[1:]:
            torch.logaddexp(sum_BKV, log_probs_BKV, out=sum_BKV)
        return sum_BKV.sub_(math.log(len(log_probs))), states

    def reorder(self, state: Parts, parents_BK: Tensor) -> Parts:
        return tuple(model.reorder(part, parents_BK) for model, part in zip(self._models, state, strict=True))

    def select_sentences(self, memory: Parts, state: Parts, sentences: Tensor) -> tuple[Parts, Parts]:
        memories, states = zip(
            *(
                model.select_sentences(of_memory, of_state, sentences)
                for model, of_memory, of_state in zip(self._models, memory, state, strict=True)
            ),
            strict=True,
        )
        return memories, states


def load_members(
    members: Sequence[Member], weights: Sequence[Path], source_words: Vocabulary, target_words: Vocabulary
) -> SearchableModel[Any, Any]:
    """Return the model of these weights, or the ensemble of several. Raises the errors of `load_model`."""
    models = [
        load_model(path, member.model, source_words, target_words, trained=member.trained)
        for path, member in zip(weights, members, strict=True)
    ]
    return models[0] if len(models) == 1 else Ensemble(models)
