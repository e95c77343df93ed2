"""Beam search against a plain loop and against enumeration of all sentences, on a model that is a table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from phrasemt.batching.batch import collate_source
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.search.beam import beam_search, length_penalty
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS

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


def settings_of(beam, *, extra=6, alpha=0.6, n_best=None):
    return Decoding(beam=beam, length_penalty=alpha, max_length_factor=0, max_length_extra=extra, n_best=n_best or beam)


def plain_beam(model, word, settings):
    """Beam search for one sentence, one hypothesis at a time."""
    live, done = [((), 0.0)], []
    limit = settings.max_length_extra
    for position in range(limit + 1):
        candidates = []
        for tokens, score in live:
            row = model.table[word, position, tokens[-1] if tokens else BOS]
            for token in range(V):
                if token in (0, BOS) or (position == limit and token != EOS):
                    continue
                candidates.append(((*tokens, token), score + float(row[token])))
        candidates.sort(key=lambda candidate: -candidate[1])
        done += [candidate for candidate in candidates[: settings.beam] if candidate[0][-1] == EOS]
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS][: settings.beam]
        if len(done) >= settings.beam or not live:
            break
    finished = [
        (tokens[:-1], score, score / length_penalty(len(tokens), settings)) for tokens, score in done[: settings.beam]
    ]
    return sorted(finished, key=lambda hypothesis: -hypothesis[2])


@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_equals_a_plain_loop(beam, seed):
    model, settings = TableModel(seed), settings_of(beam)
    for word, found in zip(range(4, 24), beam_search(model, source_of(range(4, 24)), settings), strict=True):
        expected = plain_beam(model, word, settings)
        assert [hypothesis.tokens for hypothesis in found] == [tokens for tokens, _, _ in expected]
        # float32 sums of at most seven terms in another order
        assert [hypothesis.log_prob for hypothesis in found] == pytest.approx([e[1] for e in expected], abs=1e-5)
        assert [hypothesis.score for hypothesis in found] == pytest.approx([e[2] for e in expected], abs=1e-5)


def test_beam_1_is_greedy_search():
    model = TableModel(7)
    for word, (best,) in zip(range(4, 30), beam_search(model, source_of(range(4, 30)), settings_of(1)), strict=True):
        tokens, last = [], BOS
        for position in range(7):
            row = model.table[word, position, last].clone()
            row[[0, BOS]] = -torch.inf
            last = int(row.argmax()) if position < 6 else EOS
            if last == EOS:
                break
            tokens.append(last)
        assert best.tokens == tuple(tokens)


def test_a_beam_wide_enough_for_all_sentences_finds_the_best_one():
    model, settings = TableModel(1), settings_of(200, extra=3, n_best=1)
    words = [token for token in range(V) if token not in (0, BOS, EOS)]
    for word, (best,) in zip(range(4, 8), beam_search(model, source_of(range(4, 8)), settings), strict=True):
        scores = {}
        for length in range(4):
            for tokens in itertools.product(words, repeat=length):
                path = [BOS, *tokens, EOS]
                log_prob = sum(float(model.table[word, i, a, b]) for i, (a, b) in enumerate(itertools.pairwise(path)))
                scores[tokens] = log_prob / ((5 + length + 1) / 6) ** 0.6
        assert best.tokens == max(scores, key=scores.__getitem__)


def test_a_translation_does_not_depend_on_the_other_sentences():
    model, settings = TableModel(3, end=1.0), settings_of(4)
    together = beam_search(model, source_of(range(4, 40)), settings)
    for word, found in zip(range(4, 40), together, strict=True):
        assert beam_search(model, source_of([word]), settings) == [found]


def test_each_sentence_has_its_own_length_limit():
    model = TableModel(2, end=-50.0)  # `</s>` is never among the best
    settings = Decoding(beam=2, max_length_factor=2.0, max_length_extra=1)
    short, long = beam_search(model, source_of([4, 5], lengths=[1, 3]), settings)
    assert len(short[0].tokens) == 2 * 1 + 1
    assert len(long[0].tokens) == 2 * 3 + 1
    assert math.isfinite(short[0].score)


def test_length_penalties():
    assert length_penalty(1, Decoding(length_penalty=0.6)) == 1.0
    assert length_penalty(7, Decoding(length_penalty=1.0)) == 2.0
    assert length_penalty(9, Decoding(length_penalty=0.0)) == 1.0
    assert length_penalty(9, Decoding(length_penalty=1.0, length_penalty_form="length")) == 9.0
    assert length_penalty(9, Decoding(length_penalty=0.5, length_penalty_form="length")) == 3.0


def test_n_best_is_sorted_and_distinct():
    for hypotheses in beam_search(TableModel(5), source_of(range(4, 20)), settings_of(5)):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == len(hypotheses) == 5


def test_weights_that_are_not_finite_are_no_translation():
    model = TableModel(1)
    model.table[5] = torch.nan
    with pytest.raises(PhrasemtError, match=r"sentence 2 of a batch: no translation has a finite probability"):
        beam_search(model, source_of([4, 5]), settings_of(2))
