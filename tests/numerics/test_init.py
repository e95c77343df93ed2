"""Witness: the bounds and variances of the distributions, by hand."""

from __future__ import annotations

import torch

from phrasemt.nn.init import embedding_table, xavier_blocks
from phrasemt.nn.linear import Linear


def test_each_block_has_the_bound_of_its_own_size():
    torch.manual_seed(1)
    weight = xavier_blocks(60, 40, blocks=3)
    bound = (6 / (60 + 40)) ** 0.5
    assert weight.shape == (180, 40)
    for block in weight.detach().split(60):
        assert block.abs().max() <= bound
        # Uniform on +-b has variance b^2/3; 2,400 draws determine it to about 2 %, five times that is allowed.
        assert abs(float(block.var()) / (bound**2 / 3) - 1) < 0.1


def test_embeddings():
    torch.manual_seed(1)
    table = embedding_table(1000, 50).detach()
    assert (table[0] == 0).all()
    assert abs(float(table[1:].var()) * 50 - 1) < 0.05  # 50,000 draws: standard deviation 0.6 %


def test_linear_has_no_bias_to_begin_with():
    layer = Linear(7, 9)
    assert layer.weight.abs().max() <= (6 / (7 + 9)) ** 0.5
    assert layer.weight.shape == (9, 7)
    assert (layer.bias == 0).all()
