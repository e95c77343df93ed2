"""What surrounds attention in every Transformer layer: feed-forward networks, residual connections.

Letters: B sentences, T positions, D model width. Layer normalisation is in float32 whatever the products are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.nn.dropout import Dropout, keep, keep_mask, scale_of_kept
from phrasemt.nn.linear import Linear, beside_bias, fill_rows
from phrasemt.nn.precision import in_bfloat16_on_cpu
from phrasemt.nn.products import product, sum_of_rows

NORM_EPSILON = 1e-6


Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.ModuleList, Generic[Layer]):
    """Layers of one class, one after the other."""

    def __iter__(self) -> Iterator[Layer]:  # type: ignore[override]
        return cast(Iterator[Layer], super().__iter__())


def layer_norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=NORM_EPSILON)


class Residual(nn.Module):
    """A residual connection with dropout and layer normalisation around a sub-layer F.

    post: LN(x + drop(F(x))). pre: x + drop(F(LN(x))), where the stack ends with one more LN. What else is to be added
    to x, without dropout, is `beside`.
    """

    def __init__(self, width: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = layer_norm(width)
        self.dropout = Dropout(dropout)

    def enter(self, x_BTD: Tensor) -> Tensor:
        """What the sub-layer sees of x."""
        entering_BTD: Tensor = self.norm(x_BTD) if self.pre else x_BTD
        return entering_BTD

    def leave(self, x_BTD: Tensor, output_BTD: Tensor, beside_BTD: Tensor | None = None) -> Tensor:
        """The new x, from the old one and the sub-layer's output."""
        sum_BTD = self.dropout.add(x_BTD, output_BTD)
        if beside_BTD is not None:
            sum_BTD = sum_BTD + beside_BTD
        leaving_BTD: Tensor = sum_BTD if self.pre else self.norm(sum_BTD)
        return leaving_BTD

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.leave(x_BTD, sublayer(self.enter(x_BTD)))


class FeedForward(nn.Module):
    """FFN(x) = W2 drop(max(0, W1 x + b1)) + b2 (Vaswani et al. 2017, Eq. 2)."""

    def __init__(self, width: int, inner_width: int, dropout: float) -> None:
        super().__init__()
        self.inner = Linear(width, inner_width)
        self.dropout = Dropout(dropout)
        self.outer = Linear(inner_width, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        if in_bfloat16_on_cpu(x_BTD):
            weights = self.inner.weight, self.inner.bias, self.outer.weight, self.outer.bias
            outer_BTD: Tensor = _CpuFeedForward.apply(x_BTD, *weights, self.dropout.now)  # type: ignore[no-untyped-call]
        else:
            outer_BTD = self.outer(self.dropout(F.relu(self.inner(x_BTD))))
        return outer_BTD


class _CpuFeedForward(torch.autograd.Function):
    """The network in bfloat16 on a CPU, its widest tensor passed over as rarely as possible.

    That tensor stays as it comes from one product until it enters the other. Where it is 0, by max or by dropout, its
    gradient is 0 too, so no mask is kept; the scale of dropout stands in W2. Masks multiply as 16-bit integers,
    three times as fast.
    """

    @staticmethod
    def forward(
        ctx: Any, x_BTD: Tensor, w1_FD: Tensor, b1_F: Tensor, w2_DF: Tensor, b2_D: Tensor, dropout: float
    ) -> Tensor:
        x_NW = fill_rows(x_BTD.flatten(0, -2), torch.bfloat16, with_one=True)
        scale = scale_of_kept(dropout)
        w1_fast_FW, w2_fast_DF = beside_bias(w1_FD, b1_F, torch.bfloat16), (w2_DF * scale).bfloat16()
        inner_NF = x_NW @ w1_fast_FW.T
        inner_NF.relu_()  # not as integers, among which some NaN are negative
        if dropout > 0:
            keep(inner_NF, keep_mask(inner_NF, dropout), out=inner_NF)
        ctx.save_for_backward(x_NW, inner_NF, w1_fast_FW, w2_fast_DF)
        ctx.shape, ctx.dtype, ctx.scale = x_BTD.shape, x_BTD.dtype, scale
        return F.linear(inner_NF, w2_fast_DF, b2_D.bfloat16())[: ctx.shape[:-1].numel()].view(ctx.shape)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_BTD: Tensor) -> tuple[Tensor | None, ...]:
        x_NW, inner_NF, w1_fast_FW, w2_fast_DF = ctx.saved_tensors
        gradient_ND = fill_rows(gradient_BTD.flatten(0, -2), torch.bfloat16)
        d_inner_NF = gradient_ND @ w2_fast_DF
        keep(d_inner_NF, inner_NF.view(torch.int16).clamp_max(1), out=d_inner_NF)
        width, exact = ctx.shape[-1], torch.float32
        d_x_BTD = (d_inner_NF @ w1_fast_FW[:, :width])[: ctx.shape[:-1].numel()].view(ctx.shape).to(ctx.dtype)
        d_w1_FW, d_w2_DF = product(d_inner_NF, x_NW, exact), product(gradient_ND, inner_NF, exact).mul_(ctx.scale)
        return d_x_BTD, d_w1_FW[:, :width], d_w1_FW[:, width], d_w2_DF, sum_of_rows(gradient_ND, exact), None
