"""Which device a stage computes on."""

from __future__ import annotations

import torch


def choose_device(cores: int) -> torch.device:
    """The GPU this process may see, else the CPU with `cores` threads."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    torch.set_num_threads(cores)
    return torch.device("cpu")
