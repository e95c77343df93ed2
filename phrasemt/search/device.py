"""Which device a stage computes on."""

from __future__ import annotations

import os

import torch

from phrasemt.nn.memory import keep_freed_memory

# oneDNN keeps the machine code of so many products. Sentences come in many lengths and so do the products of attention:
# with oneDNN's own limit of 1024 a training grows to several GB of code, most of which is never used again.
_PRODUCTS_KEPT = "256"


def choose_device(cores: int) -> torch.device:
    """The GPU this process may see, else the CPU with `cores` threads."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _PRODUCTS_KEPT)  # read at the first product
    torch.set_num_threads(cores)
    keep_freed_memory()
    return torch.device("cpu")
