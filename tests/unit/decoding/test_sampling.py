"""Sampling: frequencies of drawn sentences against their probabilities, on a model that is a table."""

from __future__ import annotations

import itertools

import pytest
import torch
from pydantic import ValidationError

from phrasemt.decoding.beam import length_penalty
from phrasemt.decoding.sampling import sample
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS
from tests.helpers.table_model import TableModel, V, source_of

WORDS = [token for token in range(V) if token not in (0, BOS)]


def settings_of(draws, *, extra=2, **sampling):
    return Decoding(max_length_factor=0, max_length_extra=extra, n_best=draws, sampling={"seed": 7, **sampling})


def kept(row, *, temperature=1.0, top_k=None, top_p=1.0):
    """The probabilities of the next words after temperature, top_k and top_p, one word at a time."""
    weights = {word: float(row[word]) for word in WORDS}
    total = sum(2.718281828459045 ** (value / temperature) for value in weights.values())
    ordered = sorted(((2.718281828459045 ** (v / temperature) / total, w) for w, v in weights.items()), reverse=True)
    ordered = ordered[:top_k]
    total = sum(probability for probability, _ in ordered)
    chosen, mass = {}, 0.0
    for probability, word in ordered:
        chosen[word] = probability / total
        mass += probability / total
        if mass >= top_p:
            break
    return {word: probability / sum(chosen.values()) for word, probability in chosen.items()}


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.5}, {"top_k": 2}, {"top_p": 0.6}, {"temperature": 1.5, "top_k": 3, "top_p": 0.8}]
)
def test_frequencies_are_probabilities(sampling):
    """Of 4,000 draws; a frequency differs from its probability p by less than 4.5 standard deviations."""
    model, draws = TableModel(3), 4000
    of_rows = sample(model, source_of([9] * 4), settings_of(1000, **sampling), range(4))
    found = list(itertools.chain(*of_rows))
    for tokens in itertools.chain(*(itertools.product(WORDS, repeat=length) for length in range(3))):
        if EOS in tokens:
            continue
        path = [BOS, *tokens]
        expected = 1.0
        for position, (last, word) in enumerate(itertools.pairwise([*path, EOS])):
            if position < 2:  # at the limit `</s>` is certain
                expected *= kept(model.table[9, position, last], **sampling).get(word, 0.0)
        share = sum(hypothesis.tokens == tokens for hypothesis in found) / draws
        assert abs(share - expected) <= 4.5 * (expected * (1 - expected) / draws) ** 0.5


def test_draws_depend_on_seed_and_sentence_and_not_on_the_batch():
    model, settings = TableModel(3), settings_of(5, extra=6)
    together = sample(model, source_of(range(4, 24)), settings, range(20))
    for row, word in enumerate(range(4, 24)):
        assert sample(model, source_of([word]), settings, [row]) == [together[row]]
        (fewer,) = sample(model, source_of([word]), settings_of(2, extra=6), [row])
        assert fewer == together[row][:2]
    assert sample(model, source_of(range(4, 24)), settings_of(5, extra=6, seed=8), range(20)) != together


def test_a_score_is_that_of_the_model_without_temperature():
    model, settings = TableModel(3), settings_of(20, extra=6, temperature=0.4, top_k=2)
    (found,) = sample(model, source_of([5]), settings, [0])
    for hypothesis in found:
        path = [BOS, *hypothesis.tokens, EOS]
        expected = sum(float(model.table[5, i, a, b]) for i, (a, b) in enumerate(itertools.pairwise(path)))
        assert hypothesis.log_prob == pytest.approx(expected, abs=1e-5)
        assert hypothesis.score == hypothesis.log_prob / length_penalty(len(path) - 1, settings)


def test_the_likeliest_word_alone_is_greedy_search():
    model = TableModel(3)
    (found,) = sample(model, source_of([5]), settings_of(3, extra=6, top_k=1), [0])
    last, tokens = BOS, []
    for position in range(7):
        row = model.table[5, position, last].clone()
        row[[0, BOS]] = -torch.inf
        last = EOS if position == 6 else int(row.argmax())
        if last == EOS:
            break
        tokens.append(last)
    assert [hypothesis.tokens for hypothesis in found] == [tuple(tokens)] * 3


def test_prefix_and_shortest_length_hold_for_draws():
    model = TableModel(3, end=3.0)
    settings = settings_of(50, extra=6).model_copy(update={"min_length": 3})
    (found,) = sample(model, source_of([5]), settings, [0], [(4,)])
    assert all(hypothesis.tokens[0] == 4 and len(hypothesis.tokens) >= 3 for hypothesis in found)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sampling": {}, "beam": 5}, "beam has no effect with sampling"),
        ({"sampling": {}, "stopping": "admissible"}, "stopping has no effect with sampling"),
        ({"sampling": {"temperature": 0}}, "greater than 0"),
        ({"sampling": {"top_p": 1.2}}, "at most 1"),
        ({"max_length_factor": 0, "max_length_extra": 5, "min_length": 6}, r"min_length \(6\) must not exceed"),
    ],
)
def test_settings_that_mean_nothing_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        Decoding(**values)
