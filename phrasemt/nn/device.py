"""The device that a stage computes on."""

from __future__ import annotations

import os

import torch

from phrasemt.machine.gpus import torch_has_gpu

# Number of matrix products whose machine code oneDNN keeps. Sentences have many lengths, and so have the products of
# attention: with oneDNN's default of 1024 a training grows to several GB of code, most of which it never uses again.
_ONEDNN_CACHE_CAPACITY = "256"


def choose_device(cores: int) -> torch.device:
    """Return the GPU that this process can see, or else the CPU, on which torch then uses `cores` threads.

    Raises PhrasemtError when the process was given a GPU that torch cannot use.
    """
    if torch_has_gpu():
        # On H100 and newer, torch (2.11 to 2.13) prefers cuDNN's attention. It builds a graph for each new shape, which
        # each micro-batch has, rounds dropout to sixteenths (2.11), and has given NaN gradients with masks.
        torch.backends.cuda.enable_cudnn_sdp(False)
        return torch.device("cuda")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _ONEDNN_CACHE_CAPACITY)  # oneDNN reads it at first use
    torch.set_num_threads(cores)
    return torch.device("cpu")
