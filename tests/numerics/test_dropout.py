"""Witness: the binomial distribution. Counts stay within 5 standard deviations (a false alarm once in two million)."""

from __future__ import annotations

import pytest
import torch

from phrasemt.nn.cpu import LEVELS, scaled_mask
from phrasemt.nn.layers import Dropout, dropout


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
