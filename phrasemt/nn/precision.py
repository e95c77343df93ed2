"""The device that a stage computes on, and types of numbers: of matrix products, of normalisations and of sums."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from phrasemt.machine.gpus import torch_has_gpu
from phrasemt.nn.layers import layers_of

# Number of matrix products whose machine code oneDNN keeps. Sentences have many lengths, and so have the products of
# attention: with oneDNN's default of 1024 a training grows to several GB of code, most of which it never uses again.
_ONEDNN_CACHE_CAPACITY = "256"
# What a user sets of torch's memory on a GPU goes before.
_ALLOCATOR_SETTINGS = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}


def choose_device(cores: int) -> torch.device:
    """Return the GPU that this process can see, or else the CPU; torch then uses `cores` threads.

    Raises PhrasemtError when the process was given a GPU that torch cannot use.
    """
    torch.set_num_threads(cores)
    if torch_has_gpu():
        # Micro-batches have many shapes, and none fits the hole that another leaves. Before the first allocation.
        if not _ALLOCATOR_SETTINGS & os.environ.keys():
            torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        # On H100 and newer, torch (2.11 to 2.13) prefers cuDNN's attention. It builds a graph for each new shape, which
        # each micro-batch has, rounds dropout to sixteenths (2.11), and has given NaN gradients with masks.
        torch.backends.cuda.enable_cudnn_sdp(False)
        return torch.device("cuda")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _ONEDNN_CACHE_CAPACITY)  # oneDNN reads it at first use
    return torch.device("cpu")


# Features of CPUs that multiply in bfloat16, as torch names them; "bf16" belongs to ARM.
_BFLOAT16_FEATURES = ("amx_bf16", "avx512_bf16", "bf16")


def usable_precision(precision: str, device: torch.device) -> str:
    """Return the precision of a study, or float32 in place of bfloat16 or tf32 on a device without units for it.

    A device without bfloat16 units emulates bfloat16, less exact than float32 and far slower (docs/log/performance.md).
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


# A matrix of a layer: the parameters of its module, its name there, and itself.
_Place = tuple[dict[str, Any], str, nn.Parameter]


class ProductsOfTraining:
    """The precision in which a model computes products of matrices, in a `with` block around each forward pass.

    With bfloat16 that is autocast. On a GPU the matrices of a layer are rounded together, by one kernel, and so are
    their gradients: autocast launches two kernels for each matrix. Numbers are the same, to the bit.

    Within the block the parameters of a layer are tensors in bfloat16, so its modules keep to this contract:
    - A layer is a member of a `Stack` (phrasemt/nn/layers.py). Parameters outside of stacks are left to autocast.
    - A module reads its parameters as attributes in each forward pass, and keeps no reference to them.
    - A parameter of two axes is only an operand of matrix products. Otherwise, for example if the module looks up rows
      of it, the class names it in `looked_up`, and it stays in float32.
    """

    def __init__(self, model: nn.Module, precision: str, device: torch.device) -> None:
        self._device, self._in_bfloat16 = device, precision == "bfloat16"
        together = self._in_bfloat16 and device.type == "cuda"
        self._layers = matrices_of_layers(model) if together else []  # found once, not in each micro-batch

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with (
            torch.autocast(self._device.type, torch.bfloat16, enabled=self._in_bfloat16),
            rounded_to_bfloat16(self._layers),
        ):
            yield


def matrices_of_layers(model: nn.Module) -> list[list[_Place]]:
    """Return the matrices of each layer, but not those in `looked_up` (`ProductsOfTraining`)."""
    return [
        [
            (module._parameters, name, parameter)
            for module in layer.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None and parameter.ndim == 2 and name not in getattr(module, "looked_up", ())
        ]
        for layer in layers_of(model)
    ]


@contextmanager
def rounded_to_bfloat16(layers: Sequence[Sequence[_Place]]) -> Iterator[None]:
    """Within a `with` block, matrices are in bfloat16, each layer's rounded together.

    Gradients are those of the float32 parameters; the backward pass may follow the block.
    """
    try:
        for places in layers:
            rounded = _Bfloat16.apply(*(matrix for *_, matrix in places))  # type: ignore[no-untyped-call]
            for (parameters, name, _), matrix in zip(places, rounded, strict=True):
                parameters[name] = matrix
        yield
    finally:
        for parameters, name, matrix in itertools.chain(*layers):
            parameters[name] = matrix


class _Bfloat16(torch.autograd.Function):
    """Rounds float32 tensors to bfloat16, all together, and turns their gradients back into float32."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(_converted(tensors, torch.bfloat16))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        converted = iter(_converted([gradient for gradient in gradients if gradient is not None], torch.float32))
        return tuple(None if gradient is None else next(converted) for gradient in gradients)


def _converted(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    converted = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(converted, list(tensors))
    return converted


def normalised_dtype(x: Tensor) -> torch.dtype:
    """Return the type of normalisations and sums over x: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
