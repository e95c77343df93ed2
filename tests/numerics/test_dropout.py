"""Witness: the binomial distribution. Counts stay within 5 standard deviations (a false alarm once in two million)."""

from __future__ import annotations

import pytest
import torch

from phrasemt.nn.dropout import LEVELS, Dropout, dropout, scaled_keep_mask


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_share_and_scale(probability):
    torch.manual_seed(11)
    count = 400_000
    mask = scaled_keep_mask(torch.empty(count), probability)
    exact = round(probability * LEVELS) / LEVELS
    assert abs(exact - probability) <= 0.5 / LEVELS
    kept = mask != 0
    assert torch.unique(mask).tolist() == pytest.approx([0, 1 / (1 - exact)], rel=1e-6)
    for part in (kept, *(kept[lane::4] for lane in range(4))):  # four elements share one 64-bit draw
        deviation = (exact * (1 - exact) / part.numel()) ** 0.5
        assert abs(float((~part).double().mean()) - exact) < 5 * deviation


def test_neighbours_are_independent():
    torch.manual_seed(12)
    kept = (scaled_keep_mask(torch.empty(400_000), 0.5) != 0).double() - 0.5
    for distance in (1, 2, 3, 4, 8, 256):
        correlation = float((kept[distance:] * kept[:-distance]).mean() / 0.25)
        assert abs(correlation) < 5 / kept.numel() ** 0.5


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_gradient_uses_the_same_mask(shape, dtype):
    torch.manual_seed(3)
    x = torch.ones(shape, dtype=dtype, requires_grad=True)
    dropped = dropout(x, 0.4)
    dropped.sum().backward()
    assert dropped.dtype == dtype
    assert torch.equal(dropped.detach(), x.grad)


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


@pytest.mark.parametrize("x_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("y_dtype", [torch.float32, torch.bfloat16])
def test_adding_what_is_dropped_is_dropping_and_adding(x_dtype, y_dtype):
    """The same mask as of dropout alone; bfloat16 has 8 bits, and one operation rounds once less than two."""
    torch.manual_seed(5)
    x = torch.randn(7, 11, dtype=x_dtype, requires_grad=True)
    y = torch.randn(7, 11, dtype=y_dtype, requires_grad=True)
    weights = torch.randn(7, 11)
    results = []
    for add in (lambda drop: drop.add(x, y), lambda drop: x + drop(y)):
        torch.manual_seed(6)
        added = add(Dropout(0.3))
        assert added.dtype == torch.promote_types(x_dtype, y_dtype)
        results.append((added, *torch.autograd.grad((added * weights).sum(), [x, y])))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=2**-7, atol=2**-7)
