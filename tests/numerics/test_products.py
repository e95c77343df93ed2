"""Witness: the same products in float64. Factors are numbers of bfloat16, products of two of them are exact in float32,
and sums of N of those are off by N roundings of float32 at most; without MKL torch rounds the sum to bfloat16 (2^-9).
"""

from __future__ import annotations

import pytest
import torch

from phrasemt.nn import products
from phrasemt.nn.products import add_product, product, sum_of_rows

TOKENS, OUT, IN = 301, 33, 17


@pytest.fixture(params=["MKL", "torch"])
def tolerance(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(products, "_mkl_product", lambda: None)
        return 2**-8
    if products._mkl_product() is None:
        pytest.skip("no MKL with bfloat16 on this machine")
    return TOKENS * 2**-24


@pytest.fixture
def factors():
    """Slices of wider matrices, so that rows do not follow one another in memory."""
    torch.manual_seed(1)
    return torch.randn(TOKENS, OUT + 3).bfloat16()[:, :OUT], torch.randn(TOKENS, IN + 5).bfloat16()[:, 2 : IN + 2]


def assert_near(found, expected, factors, tolerance):
    """The error is measured by the sum of absolute values."""
    scale = factors[0].double().abs().T @ factors[1].double().abs()
    assert found.dtype == torch.float32
    assert ((found.double() - expected).abs() <= tolerance * scale + 1e-30).all()


def test_product(factors, tolerance):
    expected = factors[0].double().T @ factors[1].double()
    assert_near(product(*factors, torch.float32), expected, factors, tolerance)


def test_product_into_a_sum(factors, tolerance):
    """Also where the sum is a slice."""
    wide = torch.full((OUT, IN + 4), 2.0)
    add_product(wide[:, 1 : IN + 1], *factors)
    assert_near(wide[:, 1 : IN + 1], 2 + factors[0].double().T @ factors[1].double(), factors, 2 * tolerance)
    assert (wide[:, :1] == 2).all()
    assert (wide[:, IN + 1 :] == 2).all()


@pytest.mark.usefixtures("tolerance")
def test_sum_of_rows(factors):
    """Of float32 either way."""
    found = sum_of_rows(factors[0], torch.float32)
    scale = factors[0].double().abs().sum(0)
    assert ((found.double() - factors[0].double().sum(0)).abs() <= TOKENS * 2**-24 * scale).all()


@pytest.mark.usefixtures("tolerance")
def test_a_row_that_stands_for_all(factors):
    """Rows that lie at one place in memory are no matrix for MKL."""
    same = factors[0][:1].expand(TOKENS, OUT)
    expected = same.double().T @ factors[1].double()
    torch.testing.assert_close(product(same, factors[1], torch.float32).double(), expected, rtol=2**-6, atol=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_types_are_torchs(dtype):
    torch.manual_seed(2)
    one, other = torch.randn(9, 4, dtype=dtype), torch.randn(9, 3, dtype=dtype)
    assert torch.equal(product(one, other, dtype), one.T @ other)


def test_nothing_adds_nothing():
    total = torch.ones(4, 3)
    add_product(total, torch.empty(0, 4).bfloat16(), torch.empty(0, 3).bfloat16())
    assert (total == 1).all()
