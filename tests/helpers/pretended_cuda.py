"""A pretended GPU: tensors that say they lie on one and compute on the CPU.

Within `PretendedGpu()` a tensor that was moved to "cuda", made there, or computed from such tensors lies on the GPU.
Its storage carries the mark, so views share it. An operation that mixes devices raises DeviceMixError. Waits of the
host for the GPU are counted by the line of phrasemt that waits, and kernels by the operation that launches them.
(torch's FakeTensor is no use here: its backward pass on CUDA needs a driver.)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

import phrasemt

PACKAGE = f"{Path(phrasemt.__file__).parent}/"
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
# The host waits for the results of these: a number, or the size of the output.
WAITING = {"_local_scalar_dense", "equal", "masked_select", "nonzero", "_unique2", "unique_consecutive", "unique_dim"}
INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"}
# They return another view of the same numbers, or room without numbers, and launch no kernel.
WITHOUT_KERNEL = {
    *("alias", "as_strided", "detach", "diagonal", "expand", "lift_fresh", "permute", "select", "slice", "split"),
    *("split_with_sizes", "squeeze", "squeeze_", "t", "transpose", "unbind", "unfold", "unsqueeze", "view"),
    *("_unsafe_view", "_reshape_alias", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
}
KERNELS = {"_scaled_dot_product_flash_attention_for_cpu_backward": 4}  # of an operation that launches several
CUDA = {
    "is_available": True,
    "is_bf16_supported": True,
    "is_current_stream_capturing": False,
    "device_count": 1,
    "empty_cache": None,
    "manual_seed_all": None,
    "reset_peak_memory_stats": None,
    "max_memory_reserved": 2**30,
    "get_per_process_memory_fraction": 1.0,
    "get_device_capability": (7, 5),  # no compiler
    "get_device_properties": SimpleNamespace(total_memory=80 * 2**30),
}


def _gru_cell(x_N3H: Tensor, recurrent_N3H: Tensor, h_NH: Tensor) -> tuple[Tensor, Tensor]:
    """torch.nn.GRUCell from its products: the next state, and r, z, n, h and the part of U h in n for the gradient."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x_N3H.chunk(3, 1), recurrent_N3H.chunk(3, 1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    return n + z * (h_NH - n), torch.cat((r, z, n, h_NH, h_n), dim=1)


def _gru_cell_backward(gradient_NH: Tensor, kept_N5H: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    assert not has_bias
    r, z, n, h, h_n = kept_N5H.chunk(5, 1)
    d_n = gradient_NH * (1 - z) * (1 - n**2)
    d_r, d_z = d_n * h_n * r * (1 - r), gradient_NH * (h - n) * z * (1 - z)
    return torch.cat((d_r, d_z, d_n), 1), torch.cat((d_r, d_z, d_n * r), 1), gradient_NH * z, None, None


# Operations that torch has on GPUs only (aten/src/ATen/native/cuda/RNN.cu), in plain torch.
ON_GPUS_ONLY = {"_thnn_fused_gru_cell": _gru_cell, "_thnn_fused_gru_cell_backward": _gru_cell_backward}


class DeviceMixError(RuntimeError):
    """An operation on tensors of the GPU and of the CPU, which a real GPU refuses."""


class PretendedGraph:
    """Operations, which a replay runs again on the same tensors, and whose results it writes into the same tensors.

    before: what lay in memory that they change in place, because a capture computes nothing.
    """

    def __init__(self) -> None:
        self.before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self.calls: list[tuple[Any, Sequence[Any], Mapping[str, Any], Any]] = []

    @torch.no_grad()
    def replay(self) -> None:
        with _disable_current_modes():
            for run, args, kwargs, results in self.calls:
                for result, again in zip(_tensors((results,)), _tensors((run(*args, **kwargs),)), strict=True):
                    if result.untyped_storage()._cdata != again.untyped_storage()._cdata:
                        result.copy_(again)


class PretendedGpu:
    """A block in which torch finds a GPU. waits, kernels: counts since the last `reset`."""

    def __init__(self) -> None:
        self.waits: Counter[str] = Counter()
        self.kernels: Counter[str] = Counter()
        self.attending = False
        self._storages: dict[int, StorageWeakRef] = {}
        self._under_way: list[tuple[Tensor, Tensor]] = []
        self.graph: PretendedGraph | None = None

    def __enter__(self) -> Self:
        cuda = {name: lambda *args, value=value, **kwargs: value for name, value in CUDA.items()}
        cuda["Event"] = lambda: SimpleNamespace(record=lambda: None, synchronize=self._synchronize)
        stream = SimpleNamespace(wait_stream=lambda other: None)
        cuda |= {"Stream": lambda: stream, "current_stream": lambda: stream, "stream": nullcontext}
        cuda |= {"CUDAGraph": PretendedGraph, "graph": self._capture, "graph_pool_handle": lambda: None}
        plain = {name: getattr(torch, name) for name in ("autocast", "is_autocast_enabled", "get_autocast_dtype")}
        autocast = {name: lambda _, *args, of=of, **kwargs: of("cpu", *args, **kwargs) for name, of in plain.items()}
        # In inference mode the second mode below would see composite operations whole, and without autocast.
        no_grad = {name: getattr(torch.no_grad, name) for name in ("__enter__", "__exit__")}
        self._group = torch._C._group_tensors_by_device_and_dtype
        with ExitStack() as stack:
            for target, changes in ((torch.cuda, cuda), (torch, autocast), (torch.inference_mode, no_grad)):
                stack.enter_context(patch.multiple(target, **changes))
            stack.enter_context(patch.object(torch._C, self._group.__name__, self._grouped))
            stack.enter_context(_Calls(self))
            stack.enter_context(_Operations(self))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def reset(self) -> None:
        """Begin to count from 0."""
        self.waits.clear()
        self.kernels.clear()

    def has(self, tensor: Tensor) -> bool:
        """Whether a tensor lies on the GPU."""
        return tensor.untyped_storage()._cdata in self._storages

    def take(self, tensor: Tensor) -> Tensor:
        """Put a tensor on the GPU. The weak reference keeps the address of its storage from being used again."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = StorageWeakRef(storage)
        return tensor

    def move(self, tensor: Tensor, device: torch.device, *, non_blocking: bool = False) -> Tensor:
        """The tensor itself, if it lies on the device, or a copy there."""
        to_gpu = device.type == GPU.type
        if to_gpu == self.has(tensor):
            return tensor
        copy = tensor.clone()
        if to_gpu:
            self.take(copy)
        else:
            del self._storages[copy.untyped_storage()._cdata]
        if non_blocking and not to_gpu:
            self._under_way.append((copy, copy.clone()))
            copy.zero_()
        if not non_blocking:
            self.wait(f"copy to the {'GPU' if to_gpu else 'CPU'}")
        return copy

    @contextmanager
    def _capture(self, graph: PretendedGraph, *_: object, **options: object) -> Iterator[None]:
        self.graph = graph
        try:
            yield
        finally:
            self.graph = None
            with _disable_current_modes():
                for storage, content in graph.before.values():
                    storage.copy_(content)

    def _synchronize(self) -> None:
        """Only now copies to the host that did not block have their numbers."""
        self.wait("event")
        while self._under_way:
            copy, numbers = self._under_way.pop()
            copy.copy_(numbers)

    def wait(self, reason: str) -> None:
        """Count a wait of the host at the innermost line of the package on the stack. A capture may have none."""
        if self.graph is not None:
            raise RuntimeError(f"operation not permitted when stream is capturing: {reason}")
        frame = sys._getframe(1)
        while frame.f_back and not frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
        function, *_ = frame.f_code.co_qualname.split(".<locals>")
        self.waits[f"{place} {function}: {reason}"] += 1

    def _grouped(self, lists: Sequence[Sequence[Tensor]], *options: Any) -> dict[Any, Any]:
        """torch's grouping of an optimiser's tensors, which asks them below Python for their devices."""
        device = GPU if self.has(lists[0][0]) else CPU
        return {(device, dtype): group for (_, dtype), group in self._group(lists, *options).items()}


class _Calls(TorchFunctionMode):
    """Calls of torch by Python code: where a tensor is, moves, and tensors that are made on a device."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        gpu, kwargs = self.gpu, dict(kwargs or {})
        if func == Tensor.device.__get__:
            return GPU if gpu.has(args[0]) else CPU
        if func in (Tensor.is_cuda.__get__, Tensor.is_cpu.__get__):
            return gpu.has(args[0]) == (func == Tensor.is_cuda.__get__)
        if func is Tensor.to:
            return self._to(*args, **kwargs)
        if func is Tensor.cpu:
            return gpu.move(args[0], CPU)
        if func is Tensor.backward:  # the gradients of our own functions are Python code, too
            with self:
                return torch.autograd.backward(args[0], kwargs.pop("gradient", None), **kwargs)
        if func is F.dropout:  # one kernel on a GPU, several on a CPU
            return torch.native_dropout(args[0], kwargs["p"], kwargs["training"])[0]
        if func is F.scaled_dot_product_attention:  # with dropout a CPU has no fused kernel
            gpu.attending = gpu.has(args[0])
            attended = func(*args, **kwargs | {"dropout_p": 0.0})
            gpu.attending = False
            return attended
        if func in (Tensor.tolist, Tensor.numpy) and gpu.has(args[0]):
            if func is Tensor.numpy:
                raise DeviceMixError("numpy cannot read a tensor of the GPU")
            gpu.wait("tolist")
        if func is Tensor.new_tensor:
            kwargs.setdefault("device", GPU if gpu.has(args[0]) else CPU)
        if kwargs.get("device") is None:
            return func(*args, **kwargs)
        device, made = torch.device(kwargs.pop("device")), func(*args, **kwargs, device=CPU)
        if device.type == GPU.type:
            gpu.take(made)
            if func in (torch.tensor, torch.as_tensor, Tensor.new_tensor):
                gpu.wait("copy to the GPU")
        return made

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if args and isinstance(args[0], Tensor):
            device = GPU if self.gpu.has(args[0]) else CPU
        converted = tensor if dtype is None else tensor.to(dtype)
        return converted if device is None else self.gpu.move(converted, device, non_blocking=non_blocking)


class _Operations(TorchDispatchMode):
    """All operations, those of the backward pass as well: the devices of their tensors, waits and kernels."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # the calls here are not those of the program
            return self._run(func, args, kwargs or {})

    def _run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        gpu, name = self.gpu, func.overloadpacket.__name__
        tensors = list(_tensors((args, list(kwargs.values()))))
        here = [gpu.has(tensor) for tensor in tensors]
        # What attention or the backward pass makes beside their tensors is made where those are.
        makes = not tensors and (gpu.attending or torch._C._current_graph_task_id() != -1)
        if not (any(here) or makes):
            return func(*args, **kwargs)
        if name == "copy_" and not all(here):
            gpu.wait("copy to another device")
            return func(*args, **kwargs)
        elsewhere = [one for one, on_gpu in zip(tensors, here, strict=True) if not on_gpu]
        if name in INDEXING:
            self._index(name, *args)
        elif any(one.dim() or name.startswith("_fused_adam") for one in elsewhere):  # numbers may lie on the CPU
            raise DeviceMixError(f"{name} of tensors {[(*one.shape,) for one in elsewhere]} of the CPU with the GPU's")
        elif name in WAITING or (func is torch.ops.aten.repeat_interleave.Tensor and "output_size" not in kwargs):
            gpu.wait(name)
        if name not in WITHOUT_KERNEL:
            gpu.kernels[name] += KERNELS.get(name, 1)
        run = ON_GPUS_ONLY.get(name, func)
        # Other names of the tensors, because their shapes may change in place.
        given = tree_map_only(Tensor, Tensor.detach, (args, kwargs))
        if gpu.graph is not None and name.endswith("_"):
            for storage in (one.untyped_storage() for one in tensors):
                gpu.graph.before.setdefault(storage._cdata, (storage, storage.clone()))
        results = run(*args, **kwargs)
        if gpu.graph is not None and name not in WITHOUT_KERNEL:
            gpu.graph.calls.append((run, *given, tree_map_only(Tensor, Tensor.detach, results)))
        for result in _tensors((results,)):
            gpu.take(result)
        return results

    def _index(self, name: str, x: Tensor, indices: Sequence[Tensor | None], *values: Any) -> None:
        """Indices on the CPU are copied; a mask becomes indices, whose number the host needs."""
        for index in indices:
            if index is None:
                continue
            if not self.gpu.has(index) and index.dim():
                self.gpu.wait("indices on the CPU")
            elif index.dtype == torch.bool and not (values and values[0].numel() == 1):  # else it is masked_fill
                self.gpu.wait(f"{name} with a mask")
            elif index.dtype != torch.bool and values and not self.gpu.has(values[0]):
                self.gpu.wait(f"{name} of a number on the CPU")


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors in nested sequences."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
