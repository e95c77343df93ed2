"""Masks: True where something may be used, everywhere in this project."""

from __future__ import annotations

import torch
from torch import Tensor


def causal_mask(length: int, device: torch.device) -> Tensor:
    """[T, T]: position i may use position j if j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril_()


def key_mask(mask_BS: Tensor) -> Tensor:
    """[B, S] -> [B, 1, 1, S]: the same keys may be used by every head and every query of a sentence."""
    return mask_BS[:, None, None, :]
