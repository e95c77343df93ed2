"""Forward and backward passes as CUDA graphs: a system launches a thousand kernels or more, which the host cannot do as
fast as a GPU computes them. A replay of a graph is one launch.

A graph reads and writes the tensors that it was captured with. So a batch of a shape that came before is copied into
the tensors of the first one, and gradients are always added to the same tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Batch

log = logging.getLogger("phrasemt.train_model")

Sums = dict[str, Tensor]
Shape = tuple[torch.Size, ...]
_MOST_GRAPHS = 128  # a graph of bi-scale has some 4,000 kernels


@dataclass(frozen=True)
class _Graph:
    replay: Callable[[], None]
    reads: list[Tensor]
    sums: Sums


class Replays:
    """Computes the passes of batches, from the second time on that a shape comes by a graph.

    compute: adds the gradients of a batch, times a scalar tensor, to those of the parameters, and returns scalars. It
    must ask the device for nothing (`TranslationModel.repeats`). The graphs share memory, as much as the largest needs.
    """

    def __init__(self, compute: Callable[[Batch, Tensor], Sums], parameters: Iterable[nn.Parameter]) -> None:
        self._compute, self._parameters = compute, list(parameters)
        self._scale = self._parameters[0].detach().new_zeros(())
        self._graphs: dict[Shape, _Graph | None] = {}
        self._too_large: set[Shape] = set()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._memory = torch.cuda.graph_pool_handle()
        self._broken = False

    def forget(self) -> None:
        """Drop all graphs, before somebody takes the gradients' tensors away or needs the memory."""
        self._graphs.clear()

    def zero_gradients(self) -> None:
        """Set the gradients to 0, in the same tensors as before."""
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        torch._foreach_zero_([parameter.grad for parameter in self._parameters])  # type: ignore[misc]

    def __call__(self, batch: Batch, scale: float) -> Sums:
        """Return what `compute` returns, until the next call."""
        self._scale.fill_(scale)
        tensors = [tensor for tensor, _ in batch.tensors()]
        shape = tuple(tensor.shape for tensor in tensors)
        if shape not in self._graphs or shape in self._too_large or self._broken:
            if len(self._graphs) < _MOST_GRAPHS:
                self._graphs[shape] = None
            return self._aside(batch)
        if (graph := self._graphs[shape]) is None:
            graph = self._graphs[shape] = self._captured(batch, tensors)
            if graph is None:
                return self._aside(batch)
        else:
            torch._foreach_copy_(graph.reads, tensors)
        graph.replay()
        return graph.sums

    def _aside(self, batch: Batch) -> Sums:
        """Compute without a graph, on the stream of captures, which must have seen all libraries before."""
        here = torch.cuda.current_stream()
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            sums = self._compute(batch, self._scale)
        here.wait_stream(self._stream)
        return sums

    def _captured(self, batch: Batch, tensors: list[Tensor]) -> _Graph | None:
        graph = torch.cuda.CUDAGraph()
        try:
            # Threads that pin memory and watch NCCL call CUDA meanwhile, which concerns no other thread.
            with torch.cuda.graph(graph, self._memory, self._stream, capture_error_mode="thread_local"):
                sums = self._compute(batch, self._scale)
        except RuntimeError as error:
            # The end of a capture raises an error of its own.
            if isinstance(error, torch.OutOfMemoryError) or isinstance(error.__context__, torch.OutOfMemoryError):
                log.warning("train_model: no CUDA graph of some batches, because memory ran out; they take longer")
                self._too_large.add(tuple(tensor.shape for tensor in tensors))
                return None
            log.warning("train_model: no CUDA graphs, so this training is slower: %s", str(error).partition("\n")[0])
            self._broken = True
            self.forget()
            return None
        return _Graph(graph.replay, tensors, sums)
