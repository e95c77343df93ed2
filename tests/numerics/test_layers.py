"""Positions, dropout and initial weights.

Witnesses: the formula of Vaswani et al. (2017), section 3.5, number by number, which the table rounds to float32 once:
2^-24 at most of numbers up to 1; the binomial distribution, where counts stay within 5 standard deviations (a false
alarm once in two million); bounds and variances of the initial distributions, by hand.
"""

from __future__ import annotations

import math

import pytest
import torch

from phrasemt.models.interface import build_model
from phrasemt.nn.layers import (
    LEVELS,
    Dropout,
    Linear,
    SinusoidalPositions,
    dropout,
    embedding_table,
    scaled_mask,
    sinusoids,
    xavier_blocks,
)
from phrasemt.study.architectures import PhraseRepresentationModel


def test_each_block_has_the_bound_of_its_own_size():
    torch.manual_seed(1)
    weight = xavier_blocks(60, 40, blocks=3)
    bound = (6 / (60 + 40)) ** 0.5
    assert weight.shape == (180, 40)
    for block in weight.detach().split(60):
        assert block.abs().max() <= bound
        # The variance of U(-b, b) is b^2/3; 2,400 draws determine it to about 2 %; five times that is allowed.
        assert abs(float(block.var()) / (bound**2 / 3) - 1) < 0.1


def test_embeddings():
    torch.manual_seed(1)
    table = embedding_table(1000, 50).detach()
    assert (table[0] == 0).all()
    assert abs(float(table[1:].var()) * 50 - 1) < 0.05  # 50,000 draws: standard deviation 0.6 %


def test_the_bias_of_a_linear_map_is_zero_at_first():
    layer = Linear(7, 9)
    assert layer.weight.abs().max() <= (6 / (7 + 9)) ** 0.5
    assert layer.weight.shape == (9, 7)
    assert (layer.bias == 0).all()


def assert_bounds(model: torch.nn.Module, bounds: dict[str, float]) -> None:
    """Each matrix with this suffix of its name is within its bound, and its largest draw is near the bound."""
    for ending, bound in bounds.items():
        found = [parameter.detach() for name, parameter in model.named_parameters() if name.endswith(ending)]
        assert found, ending
        for parameter in found:
            # The largest of n uniform draws is on average 1/n below the bound; 20/n is exceeded once in e^20 times.
            share = float(parameter.abs().max()) / bound
            assert 1 - 20 / parameter.numel() < share <= 1, f"{ending}: {share}"


def test_neutron_draws_by_fan_in():
    """Each bound as Neutron has it: 1/sqrt(columns), embeddings sqrt(2/(V+d)), mixtures of levels their own."""
    torch.manual_seed(3)
    d, f, v = 40, 60, 50
    settings = PhraseRepresentationModel(
        width=d, heads=4, ffn_width=f, encoder_layers=6, pool="attn", ta="on", ta_tokens=True, init="neutron"
    )
    model = build_model(settings, source_vocabulary=v, target_vocabulary=v)
    assert_bounds(
        model,
        {
            "source_table_VD": (2 / (v + d)) ** 0.5,
            "target_table_VD": (2 / (v + d)) ** 0.5,
            "attention.query_key_value": d**-0.5,
            "attention.query": d**-0.5,
            "attention.key_value": d**-0.5,
            "attention.output": d**-0.5,
            "ffn.inner.weight": d**-0.5,
            "ffn.outer.weight": f**-0.5,
            "pooling.hidden.weight": (2 * d) ** -0.5,
            "pooling.score.weight": d**-0.5,  # the score vector: its width is d
            "combination.hidden.weight": (2 * d) ** -0.5,
            "combination.output.weight": (3 * d) ** -0.5,
            "transparent_attention.weights": 7**-0.5,
            "transparent_token_attention.weights": 7**-0.5,
        },
    )
    assert (model.embeddings.source_table_VD[0] == 0).all()
    assert (model.embeddings.target_table_VD[0] == 0).all()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert (parameter == (1 if name.endswith("norm.weight") else 0)).all(), name


def test_mixtures_of_levels_are_drawn_alike_by_xavier():
    torch.manual_seed(3)
    settings = PhraseRepresentationModel(ta="on", ta_tokens=True, width=8, heads=2)
    model = build_model(settings, source_vocabulary=9, target_vocabulary=9)
    assert_bounds(model, {"transparent_attention.weights": 7**-0.5, "transparent_token_attention.weights": 7**-0.5})
    d_by_d = (6 / (8 + 8)) ** 0.5
    assert_bounds(model, {"combination.attention.query": d_by_d, "combination.attention.key_value": d_by_d})


@pytest.mark.parametrize(("sigmoid", "begins_without"), [("centred", True), ("plain", False)])
def test_centred_combinations_begin_without_phrases(sigmoid, begins_without):
    """The half of W3 for attended phrases is 0, the half for x has the bound of the whole matrix [3d, 2d]."""
    torch.manual_seed(4)
    d = 40
    settings = PhraseRepresentationModel(width=d, heads=4, sigmoid=sigmoid)
    model = build_model(settings, source_vocabulary=9, target_vocabulary=9)
    for layer in (*model.encoder, *model.decoder):
        of_x, of_phrases = layer.combination.hidden.weight.detach().split(d, dim=1)
        assert bool((of_phrases == 0).all()) == begins_without
        assert 0.99 < float(of_x.abs().max()) / (6 / (2 * d + 3 * d)) ** 0.5 <= 1


def test_formula():
    length, width = 40, 6
    table = sinusoids(length, width)
    for position in range(length):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            assert abs(float(table[position, 2 * i]) - math.sin(angle)) <= 2**-24
            assert abs(float(table[position, 2 * i + 1]) - math.cos(angle)) <= 2**-24


def test_the_table_grows_and_is_not_in_checkpoints():
    positions = SinusoidalPositions(width=6, length=4)
    assert torch.equal(positions(3, 9), sinusoids(12, 6)[3:])
    assert torch.equal(positions(0, 4), sinusoids(4, 6))
    assert positions.state_dict() == {}


def test_odd_width():
    assert sinusoids(5, 7).shape == (5, 7)


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_share_and_scale(probability):
    torch.manual_seed(11)
    count = 400_000
    mask = scaled_mask(torch.empty(count), probability)
    exact = round(probability * LEVELS) / LEVELS
    assert abs(exact - probability) <= 0.5 / LEVELS
    kept = mask != 0
    assert torch.unique(mask).tolist() == pytest.approx([0, 1 / (1 - exact)], rel=1e-6)
    for part in (kept, *(kept[lane::4] for lane in range(4))):  # four elements share one 64-bit draw
        deviation = (exact * (1 - exact) / part.numel()) ** 0.5
        assert abs(float((~part).double().mean()) - exact) < 5 * deviation


def test_neighbours_are_independent():
    torch.manual_seed(12)
    kept = (scaled_mask(torch.empty(400_000), 0.5) != 0).double() - 0.5
    for distance in (1, 2, 3, 4, 8, 256):
        correlation = float((kept[distance:] * kept[:-distance]).mean() / 0.25)
        assert abs(correlation) < 5 / kept.numel() ** 0.5


def test_same_generator_state_same_mask():
    x = torch.ones(1000)
    torch.manual_seed(4)
    first = dropout(x, 0.3)
    assert not torch.equal(dropout(x, 0.3), first)
    torch.manual_seed(4)
    assert torch.equal(dropout(x, 0.3), first)


def test_only_while_training_and_only_if_asked():
    x = torch.ones(1000)
    assert torch.equal(Dropout(0.3).eval()(x), x)
    assert not torch.equal(Dropout(0.3)(x), x)
    assert Dropout(0.0)(x) is x
