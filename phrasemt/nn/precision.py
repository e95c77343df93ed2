"""Which type a number has: that of products, which autocast decides, and that of what is normalised or summed."""

from __future__ import annotations

import torch
from torch import Tensor


def matmul_dtype(x: Tensor) -> torch.dtype:
    """The type that matrix products of x have here."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def normalised_dtype(x: Tensor) -> torch.dtype:
    """float32, or float64 where everything is."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
