"""A model that is a table, for tests of searches: exhaustive and plain searches can read it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from phrasemt.batching.batch import collate_source
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.beams import SearchTensors
from phrasemt.symbols import EOS

V = 6  # two words and the four special symbols


@dataclass(frozen=True, kw_only=True)
class Memory(SearchTensors):
    words_B: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class State(SearchTensors):
    """The position of each hypothesis, so that reordering moves something."""

    positions_BK: torch.Tensor


class TableModel(TranslationModel):
    """log P(word | source's first word, position, last word) from a random table."""

    def __init__(self, seed: int, *, end: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(40, 16, V, V, generator=generator)
        scores[..., EOS] += end
        self.table = scores.log_softmax(-1)

    def encode(self, source):
        return Memory(words_B=source.ids_BS[:, 0])

    def start(self, memory, beams):
        return State(positions_BK=torch.zeros(len(memory.words_B), beams, dtype=torch.long))

    def step(self, memory, state, last_tokens_BK):
        log_probs_BKV = self.table[memory.words_B[:, None], state.positions_BK, last_tokens_BK].clone()
        return log_probs_BKV, State(positions_BK=state.positions_BK + 1)

    def decode(self, memory, target):
        raise AssertionError("not used in search")


def source_of(words, lengths=None):
    lengths = lengths or [1] * len(words)
    return collate_source([np.full(length, word, dtype=np.int32) for word, length in zip(words, lengths, strict=True)])
