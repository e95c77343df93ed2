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


def keep(x: Tensor, mask: Tensor, out: Tensor | None = None) -> Tensor:
    """x where the mask of `keep_mask` is 1 and 0 elsewhere, without the scale; x and out are bfloat16.

    As products of 16-bit integers: three times as fast, and nothing that is dropped can make a NaN.
    """
    bits = None if out is None else out.view(torch.int16)
    return torch.mul(x.view(torch.int16), mask, out=bits).view(x.dtype)


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        ctx.scale = scale_of_kept(probability)
        if x.dtype == torch.bfloat16:
            mask = keep_mask(x, probability)
            dropped = keep(x, mask).mul_(ctx.scale)
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
            return keep(gradient, mask).mul_(ctx.scale), None
        return gradient * mask, None


class _CpuAddDropped(torch.autograd.Function):
    """x + drop(y) with y in bfloat16: as operations of their own they take half as long again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, probability: float) -> Tensor:
        ctx.scale, ctx.dtype = scale_of_kept(probability), y.dtype
        mask = keep_mask(y, probability)
        ctx.save_for_backward(mask)
        kept = keep(y, mask).to(x.dtype)
        added: Tensor = torch.add(x, kept, alpha=ctx.scale, out=kept)
        return added

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        scaled = (gradient * ctx.scale).to(ctx.dtype)
        return gradient, keep(scaled, mask, out=scaled), None


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
