"""Dropout (Srivastava et al. 2014): what is kept is scaled so that the expectation stays the same.

On a GPU this is torch's own. On a CPU torch draws each Bernoulli variable by itself, which costs more than the matrix
products around it; here 16 random bits decide about an element, six times as fast. The probability is therefore a
multiple of 2^-16, and the scale belongs to exactly that probability. Draws come from torch's generator, so the same
state gives the same masks.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 2**16


def scaled_keep_mask(like: Tensor, probability: float) -> Tensor:
    """0 with the probability, else 1/(1 - probability), in the shape and type of `like` (CPU)."""
    dropped_levels = round(probability * LEVELS)
    # Four elements per 64-bit draw; the explicit range is needed because random_() alone leaves the sign bit zero.
    draws = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: like.numel()].view(like.shape)
    mask = torch.empty(like.shape, dtype=like.dtype)
    torch.ge(bits, dropped_levels - LEVELS // 2, out=mask)
    return mask.mul_(LEVELS / (LEVELS - dropped_levels))


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        mask = scaled_keep_mask(x, probability)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient * mask, None


def dropout(x: Tensor, probability: float) -> Tensor:
    """Dropout of a tensor of any shape."""
    if x.device.type == "cpu":
        dropped: Tensor = _CpuDropout.apply(x, probability)  # type: ignore[no-untyped-call]
        return dropped
    return F.dropout(x, probability)


class Dropout(nn.Module):
    """Dropout while training. With probability 0 use `dropout_module`, which costs nothing."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.probability) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.probability}"


def dropout_module(probability: float) -> nn.Module:
    return Dropout(probability) if probability > 0 else nn.Identity()
