"""Linear maps: y = x W^T + b.

On a CPU with bfloat16, oneDNN writes machine code for every new shape of a product, which takes several times as long
as the product itself, and keeps it in memory. The number of tokens is a new one in nearly every batch, so here rows are
filled up to a multiple of `ROWS_AT_ONCE`: few shapes, whose code is made once. Elsewhere this is torch's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.nn.precision import in_bfloat16_on_cpu, matmul_dtype
from phrasemt.nn.products import product, sum_of_rows

ROWS_AT_ONCE = 256
# torch adds a bias to a wide result at the cost of another product. A column of the factors is cheaper; as bfloat16
# products work in multiples of this, so many columns are added.
BESIDE_BIAS = 32


def round_up(number: int, multiple: int) -> int:
    return math.ceil(number / multiple) * multiple


def fill_rows(x_ND: Tensor, dtype: torch.dtype, multiple: int = ROWS_AT_ONCE, *, with_one: bool = False) -> Tensor:
    """A copy in another type whose rows are filled up with zeros to a multiple of some number.

    with_one: to each row comes a 1, for `beside_bias`, and zeros.
    """
    rows, width = x_ND.shape
    filled_ND = x_ND.new_empty(round_up(rows, multiple), width + with_one * BESIDE_BIAS, dtype=dtype)
    filled_ND[:rows, :width] = x_ND
    filled_ND[rows:] = 0
    if with_one:
        filled_ND[:rows, width] = 1
        filled_ND[:rows, width + 1 :] = 0
    return filled_ND


def beside_bias(weight_ED: Tensor, bias_E: Tensor, dtype: torch.dtype) -> Tensor:
    """[W b 0]: its product with [x 1 0] is W x + b, and the gradient of b a column of its gradient."""
    width = weight_ED.shape[1]
    both_EW = weight_ED.new_zeros(weight_ED.shape[0], width + BESIDE_BIAS, dtype=dtype)
    both_EW[:, :width] = weight_ED
    both_EW[:, width] = bias_E
    return both_EW


class _FilledLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_XD: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor:
        dtype = matmul_dtype(x_XD)
        x_ND, weight_fast_ED = fill_rows(x_XD.reshape(-1, x_XD.shape[-1]), dtype), weight_ED.to(dtype)
        y_NE = F.linear(x_ND, weight_fast_ED, None if bias_E is None else bias_E.to(dtype))
        ctx.save_for_backward(x_ND, weight_fast_ED)
        ctx.shape, ctx.x_dtype, ctx.weight_dtype, ctx.has_bias = (
            x_XD.shape,
            x_XD.dtype,
            weight_ED.dtype,
            bias_E is not None,
        )
        return y_NE[: x_XD.shape[:-1].numel()].view(*x_XD.shape[:-1], -1)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_XE: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x_ND, weight_fast_ED = ctx.saved_tensors
        rows = ctx.shape[:-1].numel()
        gradient_NE = fill_rows(gradient_XE.reshape(rows, gradient_XE.shape[-1]), x_ND.dtype)
        d_x_XD = (gradient_NE @ weight_fast_ED)[:rows].view(ctx.shape).to(ctx.x_dtype)
        d_weight_ED = product(gradient_NE, x_ND, ctx.weight_dtype)
        d_bias_E = sum_of_rows(gradient_NE, ctx.weight_dtype) if ctx.has_bias else None
        return d_x_XD, d_weight_ED, d_bias_E


def project(x_XD: Tensor, weight_ED: Tensor, bias_E: Tensor | None = None) -> Tensor:
    """x W^T + b over the last axis, [..., D] -> [..., E]."""
    if in_bfloat16_on_cpu(x_XD):
        projected_XE: Tensor = _FilledLinear.apply(x_XD, weight_ED, bias_E)  # type: ignore[no-untyped-call]
        return projected_XE
    return F.linear(x_XD, weight_ED, bias_E)


class Linear(nn.Linear):
    """A linear map with bias: Xavier-uniform weight, zero bias."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x_XD: Tensor) -> Tensor:
        return project(x_XD, self.weight, self.bias)
