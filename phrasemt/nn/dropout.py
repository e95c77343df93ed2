"""Dropout (Srivastava et al. 2014): what is kept is scaled so that the expectation stays the same.

On a GPU this is torch's own. On a CPU torch draws each Bernoulli variable by itself, which costs more than the matrix
products around it; here 16 random bits decide about an element, ten times as fast. The probability is therefore a
multiple of 2^-16, and the scale belongs to exactly that probability. Draws follow from the state of torch's generator,
so the same state gives the same masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 2**16


def scale_of_kept(probability: float) -> float:
    """1/(1 - probability), of the probability that dropout really has."""
    return LEVELS / (LEVELS - round(probability * LEVELS))


def keep_mask(like: Tensor, probability: float) -> Tensor:
    """0 with the probability, else 1, in the shape of `like`, int16 (CPU)."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # Four elements per 64-bit draw.
    draws = np.random.SFC64(seed).random_raw((like.numel() + 3) // 4)
    bits = torch.from_numpy(draws.view(np.int16))[: like.numel()].view(like.shape)
    return bits.ge_(round(probability * LEVELS) - LEVELS // 2)


def scaled_keep_mask(like: Tensor, probability: float) -> Tensor:
    """As `keep_mask`, times the scale, in the type of `like`."""
    return keep_mask(like, probability).to(like.dtype).mul_(scale_of_kept(probability))


def drop_(x: Tensor, mask: Tensor) -> Tensor:
    """x where the mask of `keep_mask` is 1 and 0 elsewhere, in place, without the scale; x is bfloat16.

    As products of 16-bit integers: three times as fast, and nothing that is dropped can make a NaN.
    """
    return x.view(torch.int16).mul_(mask).view(x.dtype)


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        ctx.scale = scale_of_kept(probability)
        if x.dtype == torch.bfloat16:
            mask = keep_mask(x, probability)
            dropped = (x.view(torch.int16) * mask).view(x.dtype).mul_(ctx.scale)
        else:
            mask = scaled_keep_mask(x, probability)
            dropped = x * mask
        ctx.save_for_backward(mask)
        return dropped

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        if gradient.dtype == torch.bfloat16:
            return (gradient.view(torch.int16) * mask).view(gradient.dtype).mul_(ctx.scale), None
        return gradient * mask, None


class _CpuAddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, probability: float) -> Tensor:
        ctx.scale, ctx.dtype = scale_of_kept(probability), y.dtype
        mask = keep_mask(y, probability)
        ctx.save_for_backward(mask)
        kept = (y.view(torch.int16) * mask).view(y.dtype).to(x.dtype)
        added: Tensor = torch.add(x, kept, alpha=ctx.scale, out=kept)
        return added

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient, drop_(torch.empty_like(gradient, dtype=ctx.dtype).copy_(gradient).mul_(ctx.scale), mask), None


def dropout(x: Tensor, probability: float) -> Tensor:
    """Dropout of a tensor of any shape."""
    if x.device.type == "cpu":
        dropped: Tensor = _CpuDropout.apply(x, probability)  # type: ignore[no-untyped-call]
        return dropped
    return F.dropout(x, probability)


class Dropout(nn.Module):
    """Dropout while training."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    @property
    def now(self) -> float:
        """The probability that holds at present."""
        return self.probability if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.now) if self.now > 0 else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + drop(y), both of one shape."""
        if self.now > 0 and y.device.type == "cpu" and y.dtype == torch.bfloat16:
            added: Tensor = _CpuAddDropped.apply(x, y, self.now)  # type: ignore[no-untyped-call]
            return added
        dropped: Tensor = self(y)
        return x + dropped

    def extra_repr(self) -> str:
        return f"{self.probability}"
