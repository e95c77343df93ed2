"""Witness: torch.nn.TransformerEncoder with copied weights under a causal mask, in float64.

Both compute the same formulas in another order of operations, so they agree to float64 rounding: 1e-10.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_systems import NO_DROPOUT, SMALL_LM
from test_ngram_attention import reference
from torch import nn

from phrasemt.models.language_model import LanguageModelTransformer
from phrasemt.study.architectures import LanguageModel

TARGETS = [6, 2, 0, 11, 4]


@torch.no_grad()
def their_model(ours: LanguageModelTransformer, settings: LanguageModel) -> nn.TransformerEncoder:
    pre = settings.norm == "pre"
    layer = nn.TransformerEncoderLayer(
        settings.width,
        settings.heads,
        settings.ffn_width,
        dropout=0.0,
        batch_first=True,
        norm_first=pre,
        layer_norm_eps=1e-6,
    )
    end = nn.LayerNorm(settings.width, eps=1e-6) if pre else None
    theirs = nn.TransformerEncoder(layer, settings.layers, norm=end, enable_nested_tensor=False).double()
    for their_layer, our_layer in zip(theirs.layers, ours.decoder, strict=True):
        their_layer.self_attn.in_proj_weight.copy_(our_layer.attention.query_key_value)
        their_layer.self_attn.in_proj_bias.zero_()
        their_layer.self_attn.out_proj.weight.copy_(our_layer.attention.output)
        their_layer.self_attn.out_proj.bias.zero_()
        their_layer.linear1.load_state_dict(our_layer.ffn.inner.state_dict())
        their_layer.linear2.load_state_dict(our_layer.ffn.outer.state_dict())
        their_layer.norm1.load_state_dict(our_layer.around_attention.norm.state_dict())
        their_layer.norm2.load_state_dict(our_layer.around_ffn.norm.state_dict())
    if theirs.norm is not None:
        theirs.norm.load_state_dict(ours.decoder_norm.state_dict())
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_same_log_probabilities_and_gradients(norm, make_model, make_batch):
    settings = LanguageModel(**SMALL_LM, **NO_DROPOUT, norm=norm)
    ours = make_model(settings).double()
    theirs = their_model(ours, settings)
    target = make_batch(settings, [1] * len(TARGETS), TARGETS).target
    table = ours.words.target_table_VD.detach().clone().requires_grad_()

    positions = ours.words.target_embedding.positions(0, target.inputs_BT.shape[1])
    y = table[target.inputs_BT] * settings.width**0.5 + positions
    future = nn.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=torch.float64)
    logits = theirs(y, mask=future) @ table.T
    nll = F.cross_entropy(logits.transpose(1, 2), target.outputs_BT, reduction="none") * target.mask_BT

    batch = make_batch(settings, [1] * len(TARGETS), TARGETS)
    torch.testing.assert_close(ours.log_probs(batch), -nll, rtol=0, atol=1e-10)
    loss = ours.loss(batch, label_smoothing=0.0)
    torch.testing.assert_close(loss.nll, nll.sum(), rtol=1e-12, atol=0)
    loss.objective.backward()
    nll.sum().backward()
    torch.testing.assert_close(ours.words.target_table_VD.grad, table.grad, rtol=0, atol=1e-10)
    for their_layer, our_layer in zip(theirs.layers, ours.decoder, strict=True):
        torch.testing.assert_close(
            our_layer.attention.query_key_value.grad, their_layer.self_attn.in_proj_weight.grad, rtol=0, atol=1e-10
        )
        torch.testing.assert_close(our_layer.ffn.outer.weight.grad, their_layer.linear2.weight.grad, rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("attention", ["tokens", "ngrams"])
def test_phrase_mass_equals_the_loops(attention, make_model, make_batch):
    """A hook reads the input of each attention; the loops over n-grams give its weights. Plain attention has none."""
    settings = LanguageModel(**{**SMALL_LM, "width": 6, "heads": 3}, **NO_DROPOUT, attention=attention)
    model, seen = make_model(settings).double(), {}
    modules = [layer.attention for layer in model.decoder]
    for module in modules:
        module.register_forward_pre_hook(lambda module, inputs: seen.update({module: inputs[0].detach().numpy()}))
    _, got = model.measure([make_batch(settings, [1] * len(TARGETS), TARGETS)])
    masses = []
    for module in modules if attention == "ngrams" else []:
        weights = [parameter for name, parameter in module.named_parameters() if name != "output"]
        for row, length in enumerate(TARGETS):
            x_TD = seen[module][row, : length + 1]
            masses.extend(reference(x_TD, x_TD, (*weights, module.output), 2, "query_kernel", causal=True)[1])
    assert got == ({"phrase_mass_dec_self": pytest.approx(np.mean(masses), abs=1e-10)} if masses else {})
