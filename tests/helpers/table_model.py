"""A model that is a table, for tests of searches: exhaustive and plain searches can read it."""

from __future__ import annotations

import numpy as np
import torch

from phrasemt.batching.batch import collate_source
from phrasemt.models.interface import TranslationModel
from phrasemt.symbols import EOS

V = 6  # two words and the four special symbols


class TableModel(TranslationModel):
    """log P(word | source's first word, position, last word) from a random table."""

    def __init__(self, seed: int, *, end: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(40, 16, V, V, generator=generator)
        scores[..., EOS] += end
        self.table = scores.log_softmax(-1)

    def encode(self, source):
        return source.ids_BS[:, 0]

    def start(self, memory, beams):
        return torch.zeros(
            len(memory), beams, dtype=torch.long
        )  # the position of each hypothesis, so that reordering moves something

    def step(self, memory, state, last_tokens_BK):
        return self.table[memory[:, None], state, last_tokens_BK].clone(), state + 1

    def reorder(self, state, parents_BK):
        return state.gather(1, parents_BK)

    def select_sentences(self, memory, state, sentences):
        return memory[sentences], state[sentences]

    def decode(self, memory, target):
        raise AssertionError("not used in search")


def source_of(words, lengths=None):
    lengths = lengths or [1] * len(words)
    return collate_source([np.full(length, word, dtype=np.int32) for word, length in zip(words, lengths, strict=True)])
