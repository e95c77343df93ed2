"""Gradients of the forms in phrasemt/nn/layers.py. Witness: autograd of the plain code in float64.

Tolerances are relative to the Euclidean norm of a gradient. float32: 1e-5, for sums of some ten products of 24 bits.
bfloat16: 2^-6, for about five roundings to 8 bits, each off by 2^-9 at most, that do not all point the same way.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from phrasemt.errors import PhrasemtError
from phrasemt.nn.attention import attend
from phrasemt.nn.layers import (
    CPU_FORMS,
    CPU_FORMS_SWITCH,
    _chosen_cpu_forms,
    causal_mask,
    dropout,
    key_mask,
    without_cpu_forms,
)

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
SENTENCES, HEADS, POSITIONS, HEAD_WIDTH = 3, 5, 7, 9
MASKS = {
    "no mask": None,
    "keys": key_mask(torch.arange(POSITIONS) < torch.tensor([[7], [1], [4]])),
    "causal": causal_mask(POSITIONS, torch.device("cpu")),
}


def assert_near(found, expected, dtype):
    for ours, theirs in zip(found, expected, strict=True):
        assert float((ours.double() - theirs).norm()) <= TOLERANCE[dtype] * float(theirs.norm())


def fused(dtype):
    """Return queries, keys and values [3, B, h, T, E] with the strides of a fused projection: heads not contiguous."""
    torch.manual_seed(1)
    projection_BTX = torch.randn(SENTENCES, POSITIONS, 3 * HEADS * HEAD_WIDTH).to(dtype)
    return projection_BTX.view(SENTENCES, POSITIONS, 3, HEADS, HEAD_WIDTH).permute(2, 0, 3, 1, 4)


def apart(dtype):
    """Return a tensor with contiguous rows and other numbers between the rows."""
    torch.manual_seed(1)
    return torch.randn(3, SENTENCES, HEADS, POSITIONS, HEAD_WIDTH + 2).to(dtype)[..., :HEAD_WIDTH]


def with_gradient(output, inputs):
    """Return the output, and the gradients of its product with a fixed direction."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(2))
    return [output.detach(), *torch.autograd.grad((output * direction.to(output.dtype)).sum(), inputs)]


@DTYPES
@pytest.mark.parametrize("layout", [fused, apart])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_attention(mask, layout, dtype):
    blocks = layout(dtype).requires_grad_()
    found = with_gradient(attend(blocks, mask=mask, dropout=0.0), [blocks])
    exact = blocks.detach().double().requires_grad_()
    with without_cpu_forms("attention"):
        expected = with_gradient(attend(exact, mask=mask, dropout=0.0), [exact])
    assert found[0].dtype == dtype
    assert_near(found, expected, dtype)


@DTYPES
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_attention_with_dropout(mask, dtype):
    """Witness: the equation, with the dropout factors of the same random numbers."""
    blocks = fused(dtype).requires_grad_()
    torch.manual_seed(3)
    found = with_gradient(attend(blocks, mask=mask, dropout=0.4), [blocks])
    torch.manual_seed(3)
    factors = dropout(torch.ones(SENTENCES, HEADS, POSITIONS, POSITIONS, dtype=torch.float64), 0.4)
    assert set(torch.unique(factors).tolist()) == {0.0, factors.max().item()}

    exact = blocks.detach().double().requires_grad_()
    scores = torch.einsum("bhte,bhse->bhts", exact[0], exact[1]) / HEAD_WIDTH**0.5
    if mask is not None:
        scores = scores.masked_fill(mask.forbidden_XS, -torch.inf)
    attended = torch.einsum("bhts,bhse->bthe", torch.softmax(scores, -1) * factors, exact[2])
    assert_near(found, with_gradient(attended.flatten(2), [exact]), dtype)


@DTYPES
@pytest.mark.parametrize("probability", [0.1, 0.5])
@pytest.mark.parametrize("shape", [(1,), (5, 7), (3, 5, 7)])
def test_dropout(shape, probability, dtype):
    """This holds for a tensor with gaps between its rows, too. The draws do not depend on the type."""
    torch.manual_seed(4)
    x = torch.randn(*shape, 2).to(dtype)[..., 0].requires_grad_()
    torch.manual_seed(5)
    found = with_gradient(dropout(x, probability), [x])
    torch.manual_seed(5)
    factors = dropout(torch.ones(shape, dtype=torch.float64), probability)
    exact = x.detach().double().requires_grad_()
    assert found[0].dtype == dtype
    assert_near(found, with_gradient(exact * factors, [exact]), dtype)


def test_the_switch_gives_torchs_own():
    x = torch.randn(1000)
    torch.manual_seed(6)
    with without_cpu_forms(*CPU_FORMS):
        found = dropout(x, 0.3)
    torch.manual_seed(6)
    assert torch.equal(found, F.dropout(x, 0.3))
    assert not torch.equal(found, dropout(x, 0.3))


def test_environment_variable(monkeypatch):
    for value, forms in (("on", CPU_FORMS), ("off", ())):
        monkeypatch.setenv(CPU_FORMS_SWITCH, value)
        assert _chosen_cpu_forms() == {*forms}
    monkeypatch.setenv(CPU_FORMS_SWITCH, "of")
    with pytest.raises(PhrasemtError, match="on or off"):
        _chosen_cpu_forms()
