"""Types of numbers: of matrix products, which settings and device decide, and of normalisations and sums."""

from __future__ import annotations

import torch
from torch import Tensor

# Features of CPUs that multiply in bfloat16, as torch names them; "bf16" belongs to ARM.
_BFLOAT16_FEATURES = ("amx_bf16", "avx512_bf16", "bf16")


def usable_precision(precision: str, device: torch.device) -> str:
    """Return the precision of a study, or float32 in place of bfloat16 or tf32 on a device without units for it.

    A device without bfloat16 units emulates bfloat16, which is less exact than float32 and up to 70 times as slow
    (docs/performance-log.md).
    """
    if precision == "tf32" and (device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0)):
        return "float32"
    return "float32" if precision == "bfloat16" and not _has_bfloat16_units(device) else precision


def use_precision(precision: str) -> None:
    """Let products of float32 matrices in this process round their operands to TF32, with `precision: tf32`."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def _has_bfloat16_units(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    features = torch.cpu.get_capabilities()
    return any(features.get(name, False) for name in _BFLOAT16_FEATURES)


def matmul_dtype(x: Tensor) -> torch.dtype:
    """Return the type of matrix products of x: the type of autocast where it is on, else the type of x."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def normalised_dtype(x: Tensor) -> torch.dtype:
    """Return the type of normalisations and sums over x: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
