"""Witness: the formula of Vaswani et al. (2017), section 3.5, number by number.

The table is rounded to float32 once: 2^-24 at most of numbers up to 1.
"""

from __future__ import annotations

import math

import torch

from phrasemt.nn.layers import SinusoidalPositions, sinusoids


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
