"""Attention masks. As everywhere in this project, True means that a query may use a key."""

from __future__ import annotations

import torch
from torch import Tensor


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return [T, T], True at [i, j] if j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril_()


def key_mask(mask_BS: Tensor) -> Tensor:
    """[B, S] -> [B, 1, 1, S]: the same keys for every head and every query of a sentence."""
    return mask_BS[:, None, None, :]
