"""Witness: closed forms written out by hand, and the counts of the papers.

The figures in millions are those of Xu et al.'s code base. It leaves out the biases just before a layer normalisation
(b2 of the feed-forward network, b4 of the combination) and normalises the embeddings. We keep those biases, as the
equations do; here they are subtracted before figures are compared, with the rounding the figures have.
"""

from __future__ import annotations

import pytest
import torch

from phrasemt.architectures import PhraseRepresentationModel, TransformerModel
from phrasemt.models.interface import build_model

BASE = {"embed_ln": True}
BIG = {"embed_ln": True, "width": 1024, "ffn_width": 4096, "heads": 16}


def count(settings: TransformerModel, vocabulary: int = 42_880) -> int:
    with torch.device("meta"):
        model = build_model(settings, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    return sum(parameter.numel() for parameter in model.parameters())


def body(d: int, f: int, encoder: int, decoder: int) -> int:
    attention = 4 * d * d
    ffn = (d * f + f) + (f * d + d)
    norm = 2 * d
    encoder_layer = attention + norm + ffn + norm
    decoder_layer = attention + norm + attention + norm + ffn + norm
    return encoder * encoder_layer + decoder * decoder_layer


def combinations(d: int, h_c: int, layers: int) -> int:
    return layers * (4 * d * d + (2 * d * h_c + h_c) + (h_c * d + d) + 2 * d)


def scorers(d: int, h_s: int, levels: int) -> int:
    return levels * ((2 * d * h_s + h_s) + (h_s + 1))


def test_transformer_closed_form():
    d, f, v = 512, 2048, 1000
    assert count(TransformerModel(), v) == body(d, f, 6, 6) + 2 * v * d + v
    assert count(TransformerModel(tie="all", softmax_bias=False), v) == body(d, f, 6, 6) + v * d
    assert count(TransformerModel(norm="pre"), v) == body(d, f, 6, 6) + 2 * (2 * d) + 2 * v * d + v
    assert count(TransformerModel(encoder_layers=2, decoder_layers=5), v) == body(d, f, 2, 5) + 2 * v * d + v


def test_phrase_representation_closed_form():
    d, f, v = 512, 2048, 1000
    plain = body(d, f, 6, 6) + 2 * v * d + v
    rough = plain + combinations(d, 3 * d, 12)
    attentive = rough + scorers(d, d, 7)
    assert count(PhraseRepresentationModel(glance="mean"), v) == rough
    assert count(PhraseRepresentationModel(glance="max"), v) == rough
    assert count(PhraseRepresentationModel(pool="attn"), v) == attentive
    assert count(PhraseRepresentationModel(pool="attn", ta="on"), v) == attentive + 7 * 6
    assert count(PhraseRepresentationModel(combine_hidden=4), v) == plain + combinations(d, 4 * d, 12)


def without_biases_before_norms(settings: TransformerModel, vocabulary: int) -> float:
    """In millions, as the code base of Xu et al. counts."""
    d, layers = settings.width, settings.encoder_layers + settings.decoder_layers
    before_norms = 2 if isinstance(settings, PhraseRepresentationModel) else 1
    return (count(settings, vocabulary) - before_norms * layers * d) / 1e6


@pytest.mark.parametrize(
    ("settings", "vocabulary", "millions"),
    [
        (TransformerModel(**BASE), 32_000, "76.9"),
        (TransformerModel(**BASE), 42_880, "88.05"),
        (TransformerModel(**BIG), 32_000, "241.8"),
        (TransformerModel(**BIG), 42_880, "264.14"),
        (PhraseRepresentationModel(**BASE, glance="mean"), 42_880, "128.97"),
        (PhraseRepresentationModel(**BASE), 42_880, "128.97"),
        (PhraseRepresentationModel(**BASE, combine_hidden=4), 42_880, "138.4"),
        (PhraseRepresentationModel(**BASE, pool="attn"), 42_880, "132.7"),
        (PhraseRepresentationModel(**BASE, pool="attn", score_hidden=4), 42_880, "143.7"),
        (PhraseRepresentationModel(**BASE, pool="attn", ta="on"), 42_880, "132.7"),
        (PhraseRepresentationModel(**BIG, pool="attn", ta="on"), 42_880, "442.5"),
    ],
)
def test_figures_of_the_paper(settings, vocabulary, millions):
    decimals = len(millions.split(".")[1])
    assert f"{without_biases_before_norms(settings, vocabulary):.{decimals}f}" == millions


def test_bodies():
    """Without embeddings and softmax bias: 44.098M and 176.275M."""
    rows = 1000
    for sizes, width, expected in ((BASE, 512, "44.098"), (BIG, 1024, "176.275")):
        settings = TransformerModel(**sizes)
        assert f"{without_biases_before_norms(settings, rows) - (2 * rows * width + rows) / 1e6:.3f}" == expected


def test_transparent_attention_of_base_is_the_printed_matrix():
    with torch.device("meta"):
        model = build_model(PhraseRepresentationModel(ta="on"), source_vocabulary=9, target_vocabulary=9)
    assert model.transparent_attention.weights.shape == (7, 6)
