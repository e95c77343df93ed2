"""Products in int8. Witnesses: products of whole numbers, which are exact, and bounds of rounding in float64."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from phrasemt.decoding.decode import in_precision
from phrasemt.errors import PhrasemtError
from phrasemt.nn import int8
from phrasemt.nn.int8 import Int8Weight, quantise_weights
from phrasemt.study.schema import Decoding

SHAPES = [(1, 1, 1), (3, 5, 7), (17, 64, 48), (40, 33, 129)]  # positions, outputs, inputs


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("positions", "outputs", "inputs"), SHAPES)
def test_whole_numbers_have_exact_products(positions, outputs, inputs, with_bias):
    """With a largest number of 127 all scales are 1. Sums of at most 129 * 127 * 127 are exact in float32."""
    x = torch.randint(-127, 128, (2, positions, inputs)).float()
    weight = torch.randint(-127, 128, (outputs, inputs)).float()
    x[:, :, 0], weight[:, 0] = -127, 127
    bias = torch.randint(-9, 9, (outputs,)).float() if with_bias else None
    expected = x.double() @ weight.double().T + (0 if bias is None else bias)
    assert torch.equal(F.linear(x, Int8Weight.of(weight), bias), expected.float())


@pytest.mark.parametrize(("positions", "outputs", "inputs"), SHAPES)
def test_errors_are_within_half_a_step_of_each_factor(positions, outputs, inputs):
    x, weight = torch.randn(positions, inputs).double(), torch.randn(outputs, inputs).double()
    weight *= torch.logspace(-6, 3, outputs)[:, None]  # each output has a scale of its own, and so has each position
    x *= torch.logspace(3, -6, positions)[:, None]
    x_step, weight_step = (tensor.abs().amax(-1) / 127 for tensor in (x, weight))
    bound = (
        x_step[:, None] / 2 * weight.abs().sum(-1)
        + weight_step / 2 * x.abs().sum(-1)[:, None]
        + inputs * x_step[:, None] * weight_step / 4
    )
    found = F.linear(x.float(), Int8Weight.of(weight.float()))
    assert ((found.double() - x @ weight.T).abs() <= 1.001 * bound).all()


def test_a_position_does_not_depend_on_the_others():
    x, weight, bias = torch.randn(50, 96), Int8Weight.of(torch.randn(40, 96)), torch.randn(40)
    together = F.linear(x, weight, bias)
    assert all(torch.equal(F.linear(x[row : row + 1], weight, bias)[0], together[row]) for row in range(50))


def test_a_position_of_zeros_gives_the_bias():
    bias = torch.randn(8)
    assert torch.equal(F.linear(torch.zeros(2, 3, 16), Int8Weight.of(torch.randn(8, 16)), bias), bias.expand(2, 3, 8))
    assert torch.equal(F.linear(torch.randn(2, 16), Int8Weight.of(torch.zeros(8, 16))), torch.zeros(2, 8))


def test_parts_of_a_weight_multiply_in_int8_too():
    whole = torch.randn(24, 32)
    x = torch.randn(5, 16)
    for part, plain in zip(Int8Weight.of(whole).chunk(2, dim=1), whole.chunk(2, dim=1), strict=True):
        assert isinstance(part, Int8Weight)
        assert torch.equal(F.linear(x, part), F.linear(x, Int8Weight.of(plain)))


def test_other_operations_see_the_weight_itself():
    weight = torch.randn(30, 16)
    ids = torch.tensor([[3, 29], [0, 3]])
    assert torch.equal(F.embedding(ids, Int8Weight.of(weight)), F.embedding(ids, weight))
    assert type(Int8Weight.of(weight) * 2) is torch.Tensor


def test_shared_weights_stay_shared_and_small_ones_stay_float32(monkeypatch):
    monkeypatch.setattr(int8, "_LEAST_ELEMENTS", 64)
    model = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(7, 8)])
    model[1].weight = model[0].weight
    original = copy.deepcopy(model)
    quantise_weights(model)
    assert isinstance(model[0].weight, Int8Weight)
    assert model[0].weight is model[1].weight
    assert not isinstance(model[2].weight, Int8Weight)
    assert torch.equal(model[0].weight, original[0].weight)


def test_int8_is_refused_on_a_gpu():
    with pytest.raises(PhrasemtError, match="int8 is a precision for CPUs"):
        in_precision(nn.Linear(2, 2, device="meta"), Decoding(precision="int8"))
