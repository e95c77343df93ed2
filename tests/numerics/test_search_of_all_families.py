"""Searches over every family: alone and in a batch, beside a slow search, in bfloat16.

Witness: a search of one sentence and one hypothesis at a time, which computes every hypothesis anew from `<s>` and so
needs neither `reordered` nor `select_sentences`.
"""

from __future__ import annotations

import pytest
import torch
from small_systems import PAIRWISE, SYSTEMS, slow_except

from phrasemt.decoding.beam import Ensemble, beam_search, in_precision
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS, PAD

TRANSLATING = slow_except(PAIRWISE, [name for name, settings in SYSTEMS.items() if settings.translates])
SOURCES, TARGETS = [3, 1, 9, 2, 14], [1] * 5
DECODING = Decoding(beam=3, n_best=3, max_length_factor=0, max_length_extra=4)
ROUNDING = 1e-5  # of scores in float32; sums of at most five log-probabilities


@torch.inference_mode()
def slow_search(model, source):
    """The log-probabilities of all finished hypotheses of one sentence, by tokens."""
    memory = model.encode(source)

    def next_log_probs(tokens):
        state = model.start(memory, 1)
        for token in [BOS, *tokens]:
            log_probs_11V, state = model.step(memory, state, torch.tensor([[token]]))
        return log_probs_11V[0, 0]

    live, done = [((), 0.0)], []
    for position in range(DECODING.max_length_extra + 1):
        candidates = []
        for tokens, score in live:
            row = next_log_probs(tokens).clone()
            row[[PAD, BOS]] = -torch.inf
            words = [EOS] if position == DECODING.max_length_extra else range(len(row))
            candidates += [((*tokens, word), score + float(row[word])) for word in words]
        candidates.sort(key=lambda candidate: -candidate[1])
        done += [candidate for candidate in candidates[: DECODING.beam] if candidate[0][-1] == EOS]
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS][: DECODING.beam]
        if len(done) >= DECODING.beam:
            break
    return {tokens[:-1]: score for tokens, score in done[: DECODING.beam]}


@pytest.mark.parametrize("system", TRANSLATING)
def test_a_search_finds_what_a_slow_search_finds(system, make_model, make_batch):
    settings = SYSTEMS[system]
    model = make_model(settings)
    together = beam_search(model, make_batch(settings, SOURCES, TARGETS).source, DECODING)
    for row in (1, 3):
        expected = slow_search(model, make_batch(settings, SOURCES, TARGETS, only=row).source)
        assert {h.tokens: h.log_prob for h in together[row]} == pytest.approx(expected, abs=ROUNDING)


def test_an_ensemble_of_all_attentions_finds_what_a_slow_search_finds(make_model, make_batch):
    """Caches of the decoder and keys of the source have another form in each member."""
    systems = ["transformer", "+Max+Attn+TA", "+Max+Attn+TA, relative", "+Max+Attn+TA, phrasal 1-2-3", "phrasal 1-2"]
    ensemble = Ensemble([make_model(SYSTEMS[system]) for system in systems])
    phrases = SYSTEMS["+Max+Attn+TA"]
    together = beam_search(ensemble, make_batch(phrases, SOURCES, TARGETS).source, DECODING)
    for row in (1, 3):
        expected = slow_search(ensemble, make_batch(phrases, SOURCES, TARGETS, only=row).source)
        assert {h.tokens: h.log_prob for h in together[row]} == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize("system", TRANSLATING)
def test_every_family_searches_in_bfloat16(system, make_model, make_batch):
    """bfloat16 has 8 bits: a log-probability of about 3 may move by some hundredths at each of five words."""
    settings = SYSTEMS[system]
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    if settings.reads_chunks:  # all decisions are clear, because a flipped one adds or removes the score of a label
        with torch.no_grad():
            model.boundary.output.bias[1] += 5
    decoding = DECODING.model_copy(update={"precision": "bfloat16"})
    exact = beam_search(model, batch.source, DECODING)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = beam_search(in_precision(model, decoding), batch.source, decoding)
    for one, other in zip(exact, rounded, strict=True):
        assert other[0].log_prob == pytest.approx(one[0].log_prob, abs=0.5)
