"""Beam search against a plain loop and against enumeration of all sentences, on a model that is a table."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phrasemt.decoding.beam import Ensemble, beam_search, best_continuations, length_penalty
from phrasemt.errors import PhrasemtError
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS
from tests.helpers.table_model import TableModel, V, source_of


def settings_of(beam, *, extra=6, alpha=0.6, n_best=None, **options):
    sizes = {"max_length_factor": 0, "max_length_extra": extra, "n_best": n_best or beam}
    return Decoding(beam=beam, length_penalty=alpha, **sizes, **options)


def plain_beam(model, word, settings):
    """Beam search for one sentence, one hypothesis at a time."""
    live, done = [((), 0.0)], []
    limit = settings.max_length_extra

    def score_of(hypothesis):
        return hypothesis[1] / length_penalty(len(hypothesis[0]), settings)

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
        if not live:
            break
        if len(done) >= settings.beam:
            break
    finished = [(hypothesis[0][:-1], hypothesis[1], score_of(hypothesis)) for hypothesis in done[: settings.beam]]
    return sorted(finished, key=lambda hypothesis: -hypothesis[2])[: settings.n_best]


OPTIONS = {"": {}, "one best": {"n_best": 1, "alpha": 1.0}}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_plain_loop(beam, seed, options):
    model, settings = TableModel(seed), settings_of(beam, **options)
    results = beam_search(model, source_of(range(4, 24)), settings)
    for word, found in zip(range(4, 24), results, strict=True):
        expected = plain_beam(model, word, settings)
        assert [hypothesis.tokens for hypothesis in found] == [tokens for tokens, _, _ in expected]
        # float32 sums of at most seven terms in another order
        assert [hypothesis.log_prob for hypothesis in found] == pytest.approx([e[1] for e in expected], abs=1e-5)
        assert [hypothesis.score for hypothesis in found] == pytest.approx([e[2] for e in expected], abs=1e-5)


@given(
    st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 400), st.integers(1, 6), st.sampled_from([0.0, 0.3, 0.9])
)
def test_best_continuations_are_those_of_topk(seed, sentences, vocabulary, beams, share_of_infinite):
    random = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(sentences, beams, vocabulary, generator=random)
    log_probs[torch.rand(log_probs.shape, generator=random) < share_of_infinite] = -torch.inf
    scores = torch.randn(sentences, beams, generator=random)
    sums, parents, words = best_continuations(log_probs, scores, 2 * beams)
    every = (log_probs + scores[:, :, None]).flatten(1)
    assert torch.equal(sums, every.topk(min(2 * beams, beams * vocabulary)).values)
    assert torch.equal(every.gather(1, parents * vocabulary + words), sums)
    assert all(len(set(row)) == sums.shape[1] for row in (parents * vocabulary + words).tolist())


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


def test_weights_that_are_not_finite_are_no_translation():
    model = TableModel(1)
    model.table[5] = torch.nan
    with pytest.raises(PhrasemtError, match=r"sentence 2 of a batch: no translation has a finite probability"):
        beam_search(model, source_of([4, 5]), settings_of(2))


OF_ENSEMBLES = Decoding(beam=3, n_best=3, max_length_factor=0, max_length_extra=6)


def test_the_ensemble_of_two_tables_is_the_table_of_mean_probabilities():
    first, second, mean = TableModel(1), TableModel(2), TableModel(1)
    mean.table = ((first.table.exp() + second.table.exp()) / 2).log()
    found = beam_search(Ensemble([first, second]), source_of(range(4, 30)), OF_ENSEMBLES)
    for ours, expected in zip(found, beam_search(mean, source_of(range(4, 30)), OF_ENSEMBLES), strict=True):
        assert [hypothesis.tokens for hypothesis in ours] == [hypothesis.tokens for hypothesis in expected]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in expected], abs=1e-5)
