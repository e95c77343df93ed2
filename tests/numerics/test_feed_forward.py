"""Witness: the network from its parts, which draw the same dropout masks from the same state.

Parts and whole round to bfloat16 at other places: 8 bits, of sums of 24 products.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from phrasemt.nn.dropout import dropout
from phrasemt.nn.layers import FeedForward
from phrasemt.nn.linear import ROWS_AT_ONCE

WIDTH, INNER = 8, 24


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(3, 5), (1, ROWS_AT_ONCE), (2, ROWS_AT_ONCE)])
def test_bfloat16_on_a_cpu(shape, probability):
    torch.manual_seed(1)
    network = FeedForward(WIDTH, INNER, probability)
    torch.nn.init.normal_(network.inner.bias)
    torch.nn.init.normal_(network.outer.bias)
    x, weights = torch.randn(*shape, WIDTH, requires_grad=True), torch.randn(*shape, WIDTH)
    leaves = [x, *network.parameters()]

    torch.manual_seed(2)
    with torch.autocast("cpu", torch.bfloat16):
        whole = network(x)
    torch.manual_seed(2)
    inner = F.relu(network.inner(x))
    parts = network.outer(dropout(inner.bfloat16(), probability).float() if probability else inner)

    assert whole.dtype == torch.bfloat16
    torch.testing.assert_close(whole.float(), parts, rtol=2**-5, atol=2**-5)
    found, expected = (torch.autograd.grad((y.float() * weights).sum(), leaves) for y in (whole, parts))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        # Here and there rounding decides about max(0, .), which moves some per cent; another mask or scale moves all.
        assert (ours - theirs).norm() < 2**-4 * theirs.norm()


def test_without_dropout_in_evaluation():
    torch.manual_seed(1)
    network = FeedForward(WIDTH, INNER, 0.5).eval()
    x = torch.randn(2, 3, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        found = network(x)
    torch.testing.assert_close(found.float(), network(x), rtol=2**-5, atol=2**-5)


@pytest.mark.parametrize("number", [float("nan"), -float("nan"), float("inf")])
def test_what_is_not_finite_shows(number):
    """So that the update is skipped."""
    network = FeedForward(WIDTH, INNER, 0.0)
    with torch.no_grad():
        network.inner.weight[0, 0] = number
    x = torch.randn(2, 3, WIDTH).abs()
    with torch.autocast("cpu", torch.bfloat16):
        assert not network(x).isfinite().all()
