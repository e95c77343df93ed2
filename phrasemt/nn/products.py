"""Products over tokens, whose sum is one of float32: the gradients of weights.

torch rounds what a product of two bfloat16 matrices gives to bfloat16, on a CPU transposes one factor at half the speed
of the product, and writes machine code for every new number of tokens (oneDNN). MKL, which torch's CPU builds for x86
bring along and use inside their own kernels, has this product with its float32 sums, at twice the speed and for any
number of tokens; there it is called by its C interface.

Letters: N tokens, I and O widths.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# From MKL's cblas.h.
_ROW_MAJOR, _AS_IT_IS, _TRANSPOSED = 101, 111, 112


def product(gradient_NO: Tensor, x_NI: Tensor, dtype: torch.dtype) -> Tensor:
    """gradient^T x of some type, [O, I]."""
    product_OI = gradient_NO.new_empty(gradient_NO.shape[1], x_NI.shape[1], dtype=dtype)
    _multiply(product_OI, gradient_NO, x_NI, keep=0)
    return product_OI


def add_product(sum_OI: Tensor, gradient_NO: Tensor, x_NI: Tensor) -> None:
    """sum += gradient^T x, in place."""
    _multiply(sum_OI, gradient_NO, x_NI, keep=1)


def sum_of_rows(x_NI: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum over tokens, of some type, [I]."""
    if not _fits(x_NI, dtype):
        return x_NI.sum(0, dtype=dtype)
    return product(x_NI, x_NI.new_ones(len(x_NI), 1), dtype).squeeze(1)


def _multiply(sum_OI: Tensor, gradient_NO: Tensor, x_NI: Tensor, *, keep: int) -> None:
    """sum = keep * sum + gradient^T x, keep 0 or 1."""
    matrices = sum_OI, gradient_NO, x_NI
    in_rows = all(one.stride(1) == 1 and one.stride(0) >= one.shape[1] for one in matrices)
    if not (in_rows and _fits(gradient_NO, sum_OI.dtype)):
        product_OI = gradient_NO.T @ x_NI
        if keep:
            sum_OI += product_OI
        else:
            sum_OI.copy_(product_OI)
        return
    (tokens, rows), columns = gradient_NO.shape, x_NI.shape[1]
    _mkl_product()(
        *(_ROW_MAJOR, _TRANSPOSED, _AS_IT_IS, rows, columns, tokens, 1.0),
        *(gradient_NO.data_ptr(), gradient_NO.stride(0), x_NI.data_ptr(), x_NI.stride(0), keep),
        *(sum_OI.data_ptr(), sum_OI.stride(0)),
    )


def _fits(factor_NX: Tensor, dtype: torch.dtype) -> bool:
    """Whether a product of this factor and another of its type is to be made by MKL."""
    types = factor_NX.dtype == torch.bfloat16 and dtype == torch.float32
    return types and factor_NX.device.type == "cpu" and factor_NX.numel() > 0 and _mkl_product() is not None


@cache
def _mkl_product() -> Any:
    """MKL's cblas_gemm_bf16bf16f32; None where torch was built without, or the processor has no such arithmetic."""
    if not torch.cpu._is_avx512_bf16_supported():
        return None
    for path in Path(torch.__file__).parent.glob("lib/libtorch_cpu.*"):
        multiply = getattr(ctypes.CDLL(str(path)), "cblas_gemm_bf16bf16f32", None)
        if multiply is not None:
            pointer, number, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
            multiply.argtypes = [number] * 6 + [real, pointer, number, pointer, number, real, pointer, number]
            multiply.restype = None
            return multiply
    return None
