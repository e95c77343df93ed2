"""Witness: torch.nn.TransformerEncoder and TransformerDecoder with copied weights, in float64.

Both compute the same formulas in another order of operations, so they agree to float64 rounding: 1e-10.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_systems import NO_DROPOUT, SMALL, SMALL_LM
from torch import nn

from phrasemt.models.language_model import LanguageModelTransformer
from phrasemt.models.transformer import DecoderLayer, EncoderLayer, Transformer
from phrasemt.study.architectures import LanguageModel, TransformerModel


def copy_common(theirs: nn.Module, ours: EncoderLayer | DecoderLayer) -> None:
    theirs.self_attn.in_proj_weight.copy_(ours.attention.query_key_value)
    theirs.self_attn.in_proj_bias.zero_()
    theirs.self_attn.out_proj.weight.copy_(ours.attention.output)
    theirs.self_attn.out_proj.bias.zero_()
    theirs.linear1.load_state_dict(ours.ffn.inner.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.outer.state_dict())
    theirs.norm1.load_state_dict(ours.around_attention.norm.state_dict())


@torch.no_grad()
def their_model(ours: Transformer, settings: TransformerModel) -> tuple[nn.Module, nn.Module]:
    shape = {"d_model": settings.width, "nhead": settings.heads, "dim_feedforward": settings.ffn_width}
    layer = {**shape, "dropout": 0.0, "batch_first": True, "norm_first": settings.norm == "pre", "layer_norm_eps": 1e-6}
    ends = [nn.LayerNorm(settings.width, eps=1e-6) if settings.norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**layer), settings.encoder_layers, norm=ends[0], enable_nested_tensor=False
    ).double()
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), settings.decoder_layers, norm=ends[1]).double()
    for theirs, our_layer in zip(encoder.layers, ours.encoder, strict=True):
        copy_common(theirs, our_layer)
        theirs.norm2.load_state_dict(our_layer.around_ffn.norm.state_dict())
    for theirs, our_layer in zip(decoder.layers, ours.decoder, strict=True):
        copy_common(theirs, our_layer)
        source = our_layer.source_attention
        theirs.multihead_attn.in_proj_weight.copy_(torch.cat((source.query, source.key_value)))
        theirs.multihead_attn.in_proj_bias.zero_()
        theirs.multihead_attn.out_proj.weight.copy_(source.output)
        theirs.multihead_attn.out_proj.bias.zero_()
        theirs.norm2.load_state_dict(our_layer.around_source_attention.norm.state_dict())
        theirs.norm3.load_state_dict(our_layer.around_ffn.norm.state_dict())
    if settings.norm == "pre":
        encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
        decoder.norm.load_state_dict(ours.decoder_norm.state_dict())
    return encoder, decoder


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_same_log_probabilities_and_gradients(norm, make_model, make_batch):
    settings = TransformerModel(**SMALL, **NO_DROPOUT, norm=norm)
    ours = make_model(settings).double()
    assert isinstance(ours, Transformer)
    encoder, decoder = their_model(ours, settings)
    batch = make_batch(settings, sources=[4, 0, 7], targets=[5, 8, 0])

    scale = settings.width**0.5
    tables = ours.embeddings.source_table_VD, ours.embeddings.target_table_VD
    source_table, target_table = (table.detach().clone().requires_grad_() for table in tables)
    positions = ours.embeddings.source_embedding.positions
    x = F.embedding(batch.source.ids_BS, source_table) * scale + positions(0, batch.source.ids_BS.shape[1])
    y = F.embedding(batch.target.inputs_BT, target_table) * scale + positions(0, batch.target.inputs_BT.shape[1])
    padded = ~batch.source.mask_BS
    future = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)  # torch: True = must not be used
    memory = encoder(x, src_key_padding_mask=padded)
    states = decoder(y, memory, tgt_mask=future, memory_key_padding_mask=padded)
    logits = states @ target_table.T + ours.embeddings.softmax_bias_V
    theirs = F.cross_entropy(logits.transpose(1, 2), batch.target.outputs_BT, reduction="none") * batch.target.mask_BT

    torch.testing.assert_close(ours.log_probs(batch), -theirs, rtol=0, atol=1e-10)
    loss = ours.loss(batch, label_smoothing=0.0)
    torch.testing.assert_close(loss.objective, theirs.sum(), rtol=1e-12, atol=0)
    loss.objective.backward()
    theirs.sum().backward()
    torch.testing.assert_close(ours.embeddings.source_table_VD.grad, source_table.grad, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours.embeddings.target_table_VD.grad, target_table.grad, rtol=0, atol=1e-10)
    for theirs_layer, our_layer in zip(decoder.layers, ours.decoder, strict=True):
        torch.testing.assert_close(
            our_layer.attention.query_key_value.grad, theirs_layer.self_attn.in_proj_weight.grad, rtol=0, atol=1e-10
        )
        torch.testing.assert_close(
            our_layer.ffn.outer.weight.grad, theirs_layer.linear2.weight.grad, rtol=0, atol=1e-10
        )


@torch.no_grad()
def their_language_model(ours: LanguageModelTransformer, settings: LanguageModel) -> nn.TransformerEncoder:
    """Layers of an encoder, to be used under a causal mask."""
    pre = settings.norm == "pre"
    shape = {"d_model": settings.width, "nhead": settings.heads, "dim_feedforward": settings.ffn_width}
    layer = nn.TransformerEncoderLayer(**shape, dropout=0.0, batch_first=True, norm_first=pre, layer_norm_eps=1e-6)
    end = nn.LayerNorm(settings.width, eps=1e-6) if pre else None
    theirs = nn.TransformerEncoder(layer, settings.layers, norm=end, enable_nested_tensor=False).double()
    for their_layer, our_layer in zip(theirs.layers, ours.decoder, strict=True):
        copy_common(their_layer, our_layer)
        their_layer.norm2.load_state_dict(our_layer.around_ffn.norm.state_dict())
    if theirs.norm is not None:
        theirs.norm.load_state_dict(ours.decoder_norm.state_dict())
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_same_log_probabilities_and_gradients_of_a_language_model(norm, make_model, make_batch):
    settings = LanguageModel(**SMALL_LM, **NO_DROPOUT, norm=norm)
    ours = make_model(settings).double()
    theirs = their_language_model(ours, settings)
    batch = make_batch(settings, [1] * 5, [6, 2, 0, 11, 4])
    target, table = batch.target, ours.embeddings.target_table_VD.detach().clone().requires_grad_()

    positions = ours.embeddings.target_embedding.positions(0, target.inputs_BT.shape[1])
    y = table[target.inputs_BT] * settings.width**0.5 + positions
    future = nn.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=torch.float64)
    logits = theirs(y, mask=future) @ table.T
    nll = F.cross_entropy(logits.transpose(1, 2), target.outputs_BT, reduction="none") * target.mask_BT

    torch.testing.assert_close(ours.log_probs(batch), -nll, rtol=0, atol=1e-10)
    ours.loss(batch, label_smoothing=0.0).objective.backward()
    nll.sum().backward()
    torch.testing.assert_close(ours.embeddings.target_table_VD.grad, table.grad, rtol=0, atol=1e-10)
    for their_layer, our_layer in zip(theirs.layers, ours.decoder, strict=True):
        torch.testing.assert_close(
            our_layer.attention.query_key_value.grad, their_layer.self_attn.in_proj_weight.grad, rtol=0, atol=1e-10
        )
        torch.testing.assert_close(our_layer.ffn.outer.weight.grad, their_layer.linear2.weight.grad, rtol=0, atol=1e-10)
