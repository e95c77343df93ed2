"""Witness: the plain Transformer; the loops over n-grams."""

from __future__ import annotations

import pytest
import torch
from small_systems import NO_DROPOUT, SMALL
from test_ngram_attention import reference

from phrasemt.models.transformer import Transformer
from phrasemt.study.architectures import PhraseRepresentationModel, TransformerModel

SOURCES, TARGETS = [4, 0, 1, 7], [5, 2, 0, 3]


@torch.no_grad()
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_unigrams_alone_are_the_transformer(norm, make_model, make_batch):
    settings = TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams", norm=norm, ngrams=1)
    ours, plain = make_model(settings).double(), make_model(TransformerModel(**SMALL, **NO_DROPOUT, norm=norm)).double()
    assert type(plain) is Transformer
    plain.load_state_dict(ours.state_dict())
    batch = make_batch(settings, SOURCES, TARGETS)
    torch.testing.assert_close(ours.log_probs(batch), plain.log_probs(batch), rtol=0, atol=1e-12)
    assert ours.measure([batch])[1] == {"phrase_mass_enc_self": 0, "phrase_mass_dec_self": 0, "phrase_mass_cross": 0}


@torch.no_grad()
@pytest.mark.parametrize("family", [TransformerModel, PhraseRepresentationModel])
@pytest.mark.parametrize("score", ["query_kernel", "static", "last_token"])
def test_phrase_mass_equals_the_loops(score, family, make_model, make_batch):
    """A hook reads the inputs of each module in the first pass; the equations give its attention from them."""
    sizes = {**SMALL, "width": 6, "heads": 3}  # as the reference
    settings = family(**sizes, **NO_DROPOUT, attention="ngrams", ngrams=3, ngram_score=score)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    seen = {}

    def keep(key, tensor):
        seen.setdefault(key, tensor.numpy())

    modules = {
        "enc_self": [layer.attention for layer in model.encoder],
        "dec_self": [layer.attention for layer in model.decoder],
        "cross": [layer.source_attention for layer in model.decoder],
    }
    for layers in modules.values():
        for module in layers:
            module.register_forward_pre_hook(lambda module, inputs: keep(module, inputs[0]))
    model.encoder_norm.register_forward_hook(lambda _module, _inputs, output: keep("states", output))
    _, got = model.measure([batch])

    states = seen["states"]
    for place, layers in modules.items():
        masses = []
        for module in layers:
            weights = [parameter for name, parameter in module.named_parameters() if name != "output"]
            for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
                x = seen[module][row, : (source if place == "enc_self" else target) + 1]
                memory = states[row, : source + 1] if place == "cross" else x
                causal = place == "dec_self"
                _, mass = reference(x, memory, (*weights, module.output), 3, score, causal=causal)
                masses.extend(mass)
        assert got[f"phrase_mass_{place}"] == pytest.approx(sum(masses) / len(masses), abs=1e-10)
    assert ("perplexity_without_phrases" in got) == (family is PhraseRepresentationModel)
    model.log_probs(make_batch(settings, [2], [3]))  # would not fit the batch that was watched


@torch.no_grad()
def test_phrase_mass_is_the_mean_over_all_queries_of_all_batches(make_model, make_batch):
    """Each sentence alone, in batches of unequal length, has the mass of one batch of all."""
    settings = TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams")
    model = make_model(settings).double()
    _, together = model.measure([make_batch(settings, SOURCES, TARGETS)])
    _, alone = model.measure([make_batch(settings, SOURCES, TARGETS, only=row) for row in range(len(SOURCES))])
    assert alone == pytest.approx(together, abs=1e-12)
