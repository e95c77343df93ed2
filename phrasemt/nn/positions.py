"""Sinusoidal position encodings (Vaswani et al. 2017, section 3.5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sinusoids(length: int, width: int) -> Tensor:
    """Return PE [length, width], float32: column 2i is sin(t / 10000^(2i/d)), column 2i+1 the cosine of that angle."""
    positions_T = torch.arange(length, dtype=torch.float64)
    columns = torch.arange(0, width, 2, dtype=torch.float64)
    angles_TI = positions_T[:, None] * 10000.0 ** (-columns / width)
    return torch.stack((angles_TI.sin(), angles_TI.cos()), dim=-1).flatten(1)[:, :width].float()


class SinusoidalPositions(nn.Module):
    """A table of position encodings, which grows when a longer sentence needs it. Checkpoints do not contain it."""

    table_TD: Tensor

    def __init__(self, width: int, length: int = 256) -> None:
        super().__init__()
        self.register_buffer("table_TD", sinusoids(length, width), persistent=False)

    def forward(self, first: int, length: int) -> Tensor:
        """Return PE of positions first to first+length-1: [length, width]."""
        known, width = self.table_TD.shape
        if first + length > known:
            self.table_TD = sinusoids(max(first + length, 2 * known), width).to(self.table_TD)
        return self.table_TD[first : first + length]
