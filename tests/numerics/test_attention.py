"""Witness: attention written as loops over sentences, heads, queries and keys; torch's kernel; finite differences.

All numbers are float64. Another order of summation changes numbers near 1 by about 1e-15; the tolerance is 1e-12.
"""

from __future__ import annotations

import math

import pytest
import torch

from phrasemt.nn.attention import attend
from phrasemt.nn.layers import Mask, causal_mask, key_mask

SENTENCES, HEADS, QUERIES, KEYS, HEAD_WIDTH = 2, 3, 4, 5, 2


def loops(queries, keys, values, mask):
    """Return the attended values with the heads side by side: [B, T, h*E]."""
    result = torch.zeros(queries.shape[0], queries.shape[2], queries.shape[1] * queries.shape[3], dtype=torch.float64)
    for b in range(queries.shape[0]):
        for h in range(queries.shape[1]):
            for i in range(queries.shape[2]):
                usable = [j for j in range(keys.shape[2]) if mask is None or bool(mask[b, h, i, j])]
                scores = {j: float(queries[b, h, i] @ keys[b, h, j]) / math.sqrt(queries.shape[3]) for j in usable}
                total = sum(math.exp(score) for score in scores.values())
                for e in range(queries.shape[3]):
                    result[b, i, h * queries.shape[3] + e] = sum(
                        math.exp(scores[j]) / total * float(values[b, h, j, e]) for j in usable
                    )
    return result


@pytest.fixture
def projections():
    torch.manual_seed(3)
    queries = torch.randn(1, SENTENCES, HEADS, QUERIES, HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    keys_values = torch.randn(2, SENTENCES, HEADS, KEYS, HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    return queries, keys_values


MASKS = {
    "none": None,
    "keys": key_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)),
    "own history": Mask(
        torch.tensor([[1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
    ),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_both_paths_equal_the_loops(projections, mask):
    queries, keys_values = projections
    full = None if mask is None else mask.allowed_XS.expand(SENTENCES, HEADS, QUERIES, KEYS)
    expected = loops(queries[0].detach(), *keys_values.detach(), full)
    training = attend(queries, keys_values, mask=mask, dropout=0.0)
    with torch.no_grad():
        inference = attend(queries, keys_values, mask=mask, dropout=0.0)
    torch.testing.assert_close(training, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(inference, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_gradient_equals_finite_differences(projections, mask):
    assert torch.autograd.gradcheck(lambda q, kv: attend(q, kv, mask=mask, dropout=0.0), projections)


def test_gradient_with_dropout_equals_finite_differences(projections):
    projections = tuple(projection[:, :1, :2].detach().requires_grad_() for projection in projections)

    def same_draws(queries, keys_values):
        torch.manual_seed(8)
        return attend(queries, keys_values, mask=Mask(MASKS["keys"].allowed_XS[:1]), dropout=0.4)

    assert torch.autograd.gradcheck(same_draws, projections)


def test_a_form_of_a_mask_is_made_once():
    mask = causal_mask(2, torch.device("cpu"))
    assert mask.bias_XS(torch.bfloat16).tolist() == [[0.0, -math.inf], [0.0, 0.0]]
    assert mask.bias_XS(torch.bfloat16) is mask.bias_XS(torch.bfloat16)
    assert mask.bias_XS(torch.float64).dtype == torch.float64
    assert mask.bias_XS(torch.float64).stride(-2) == 8, "a GPU copies no bias"
    assert mask.forbidden_XS is mask.forbidden_XS
    assert torch.equal(mask.forbidden_XS, ~mask.allowed_XS)
