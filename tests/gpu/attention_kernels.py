"""torch's fused attention on a GPU: milliseconds a call for new and for repeated shapes, and what dropout drops.

torch chooses a kernel in an order that changes between versions. cuDNN's kernel builds a graph for each new shape, and
every micro-batch has new shapes. Forward and backward in bfloat16: 8 heads of width 64, 4,000 positions, masked keys.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from figures import DEVICE, ON_GPU, Figures, finish
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

HEADS, WIDTH, POSITIONS = 8, 64, 4_000 if ON_GPU else 200
LENGTHS = np.random.default_rng(1).permutation(np.arange(12, 52 if ON_GPU else 15)).tolist()
KERNELS = {
    "torch's order": None,
    "flash, efficient, math": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "math": [SDPBackend.MATH],
}
NAMES = ("flash", "fmha", "sdpa", "cudnn", "attention")  # in the names of kernels


def attend(sentences: int, length: int, dropout: float) -> None:
    """Forward and backward."""
    shape = sentences, HEADS, length, WIDTH
    query, key, value = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in "QKV")
    mask_B11S = torch.ones(sentences, 1, 1, length, dtype=torch.bool, device=DEVICE)
    mask_B11S[::2, ..., -2:] = False
    F.scaled_dot_product_attention(query, key, value, attn_mask=mask_B11S, dropout_p=dropout).sum().backward()


def milliseconds(dropout: float) -> float:
    """Mean time of a call, over calls of all lengths."""
    begin = time.perf_counter()
    for length in LENGTHS:
        attend(POSITIONS // length, length, dropout)
    finish()
    return 1000 * (time.perf_counter() - begin) / len(LENGTHS)


def kernels(dropout: float) -> list[str]:
    """Names of the kernels of attention that run."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        attend(100, LENGTHS[0], dropout)
        finish()
    return [event.key[:50] for event in profiled.key_averages() if any(name in event.key.lower() for name in NAMES)]


def dropped_share(probability: float) -> float:
    """The share of equal weights that dropout drops: values are unit vectors, so each output shows one weight."""
    values = torch.eye(WIDTH, device=DEVICE, dtype=torch.bfloat16).expand(64, HEADS, WIDTH, WIDTH).contiguous()
    queries, mask = torch.zeros_like(values), torch.ones(64, 1, 1, WIDTH, dtype=torch.bool, device=DEVICE)
    attended = F.scaled_dot_product_attention(queries, queries, values, attn_mask=mask, dropout_p=probability)
    return float((attended == 0).float().mean())


def main() -> None:
    results = Figures()
    for name, backends in KERNELS.items():
        for dropout in (0.1, 0.0):
            with sdpa_kernel(backends) if backends else nullcontext():
                attend(8, 8, dropout)  # loads libraries
                figures = {"new_ms": milliseconds(dropout), "repeated_ms": milliseconds(dropout)}
                figures |= {"dropped": dropped_share(dropout), "kernels": kernels(dropout) if ON_GPU else []}
            results.add(f"{name}, dropout {dropout}", **figures)


if __name__ == "__main__":
    main()
