"""Dropout (Srivastava et al. 2014). The remaining elements are scaled, so that the expectation stays the same."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.nn import cpu


def dropout(x: Tensor, probability: float) -> Tensor:
    """Return x [...] with dropout. probability: of setting an element to 0. torch's generator determines the mask."""
    if cpu.applies("dropout", x):
        return cpu.dropout(x, probability)
    return F.dropout(x, probability)


class Dropout(nn.Module):
    """Dropout in training mode; the identity in evaluation mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.probability) if self.training and self.probability > 0 else x

    def extra_repr(self) -> str:
        return f"{self.probability}"
