"""Witness: torch.nn.functional.linear on the same rounded numbers.

Products in bfloat16 are rounded once more at the end, to 8 bits: 2^-8 relative to the largest term.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from phrasemt.nn.linear import ROWS_AT_ONCE, project

ROWS = [1, 7, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1]


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", ROWS)
def test_filled_rows_leave_no_trace(rows, with_bias):
    torch.manual_seed(rows)
    x, weight, bias = (torch.randn(shape).bfloat16().float() for shape in ((rows, 5), (3, 5), (3,)))
    leaves = [x, weight, bias] if with_bias else [x, weight]
    for leaf in leaves:
        leaf.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        ours = project(x, weight, bias if with_bias else None)
    expected = F.linear(x, weight, bias if with_bias else None)
    assert ours.shape == (rows, 3)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), expected, rtol=2**-7, atol=2**-5)
    gradients = torch.autograd.grad(ours.float().sum(), leaves)
    for gradient, expected_gradient in zip(gradients, torch.autograd.grad(expected.sum(), leaves), strict=True):
        assert gradient.dtype == torch.float32
        scale = float(expected_gradient.abs().max())
        torch.testing.assert_close(gradient, expected_gradient, rtol=2**-7, atol=2**-7 * max(1.0, scale))


def test_any_number_of_axes():
    torch.manual_seed(1)
    x, weight = torch.randn(2, 3, 4, 5), torch.randn(6, 5)
    with torch.autocast("cpu", torch.bfloat16):
        ours = project(x, weight)
        assert torch.equal(ours.flatten(0, 2), project(x.flatten(0, 2), weight))
    assert ours.shape == (2, 3, 4, 6)


def test_without_autocast_it_is_torchs_own():
    torch.manual_seed(1)
    x, weight, bias = torch.randn(4, 5), torch.randn(6, 5), torch.randn(6)
    assert torch.equal(project(x, weight, bias), F.linear(x, weight, bias))
