"""Types of numbers: the type of matrix products, which autocast decides, and the type of normalisations and sums."""

from __future__ import annotations

import torch
from torch import Tensor


def matmul_dtype(x: Tensor) -> torch.dtype:
    """Return the type of matrix products of x: the type of autocast where it is on, else the type of x."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def normalised_dtype(x: Tensor) -> torch.dtype:
    """Return the type of normalisations and sums over x: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
