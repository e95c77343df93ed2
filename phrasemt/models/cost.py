"""The cost of a system: parameters of each part, and multiply-adds, which torch counts during a forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from phrasemt.batching.batch import Batch, collate_chunks, collate_target
from phrasemt.batching.reader import SourceCollator
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import Architecture, ModelInputs
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL, UNK

# Positions on each side of the pair whose multiply-adds are counted: about the mean of WMT in subwords, with `</s>`.
POSITIONS = 27
_BYTES_PER_PARAMETER = 4  # float32
WORDS_PER_CHUNK = 1.57  # mean in CoNLL-2000 (English), where a word outside of chunks counts as a chunk


@dataclass(frozen=True)
class Part:
    """Parameters of a part of a model; `depth` 1 of what stands in a part. layers: 0 for what is no stack of layers."""

    name: str
    layers: int
    parameters: int
    depth: int = 0


@dataclass(frozen=True)
class Cost:
    """Parts of a model, all of its parameters, how many of them are unused, and the multiply-adds of a target token."""

    parts: tuple[Part, ...]
    parameters: int
    unused: int
    multiply_adds: float


def cost_of(settings: Architecture, *, source_vocabulary: int, target_vocabulary: int) -> Cost:
    """Build a model, count its parameters, and count multiply-adds while it scores a pair of `POSITIONS` positions.

    Raises PhrasemtError for a model that needs more memory than there is.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of 27 rows, more threads would mostly wait for each other
    try:
        return _cost_of(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
    finally:
        torch.set_num_threads(threads)


def _cost_of(settings: Architecture, *, source_vocabulary: int, target_vocabulary: int) -> Cost:
    sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
    try:
        with _Counter():  # type: ignore[no-untyped-call]
            model = build_model(settings, **sizes)
    except RuntimeError:  # torch cannot even reserve the memory of a parameter
        with torch.device("meta"):
            _refuse_too_large(build_model(settings, **sizes))
        raise
    _refuse_too_large(model)
    model.eval()
    batch = pair_of(settings.model_inputs, POSITIONS)
    # torch does not count the fused kernels of attention; the plain form has the same multiplications.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _Counter() as counter:  # type: ignore[no-untyped-call]
        model.loss(batch, label_smoothing=0.1)
    return Cost(
        parts=tuple(parts_of(model)),
        parameters=parameters_of(model),
        unused=model.unused_parameters(),
        multiply_adds=counter.operations / 2 / POSITIONS,
    )


def _refuse_too_large(model: nn.Module) -> None:
    needed, available = _BYTES_PER_PARAMETER * parameters_of(model), psutil.virtual_memory().available
    if needed > available:
        raise PhrasemtError(
            "the model does not fit into the memory of this machine",
            expected=f"at most {available / 1e9:,.1f} GB",
            found=f"{needed / 1e9:,.1f} GB for {parameters_of(model):,} parameters",
            next_step="lower the widths or the number of layers, or use a machine with more memory",
        )


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the floating-point operations of matrix products, all of which are 0, and computes no initial weights.

    The weights of a model that is made under it have no values and take no memory, because nothing reads them. torch's
    own FlopCounterMode imports torch's compiler, as the device "meta" does.
    """

    operations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the wrapper that skips it would import it

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in _RANDOM:
            return args[0]
        if function is torch.ops.aten.linalg_qr.default:  # of weights that become orthogonal
            rank = min(args[0].shape[-2:])
            return args[0].new_zeros(*args[0].shape[:-1], rank), args[0].new_zeros(rank, args[0].shape[-1])
        if function.overloadpacket in _PRODUCTS:
            *_, left, right = args
            out = kwargs.get("out")
            result = left.new_zeros(*left.shape[:-1], right.shape[-1]) if out is None else out.zero_()
            self.operations += 2 * result.numel() * left.shape[-1]
            return result
        result = function(*args, **kwargs)
        if (count := flop_registry.get(function.overloadpacket)) is not None:
            self.operations += count(*args, **kwargs, out_val=result)
        return result


_PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm, torch.ops.aten.baddbmm)
_RANDOM = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)  # write into their first argument


def parameters_of(module: nn.Module) -> int:
    """Return the number of parameters of a module. Shared parameters count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def parts_of(model: nn.Module, within: str = "") -> Iterator[Part]:
    """Yield the parts of a model. The parts of depth 0 together have each parameter once.

    `embeddings` is divided into its own parts. Parts of depth 1 follow a stack of layers: the modules of a layer,
    summed over the layers.
    """
    for name, parameter in model.named_parameters(recurse=False):
        yield Part(within + re.sub(r"_[A-Z0-9]+$", "", name), 0, parameter.numel())  # without its shape
    for name, module in model.named_children():
        if name == "embeddings":
            yield from parts_of(module, "embeddings.")
        elif isinstance(module, nn.ModuleList):
            yield Part(name, len(module), parameters_of(module))
            for inner, _ in module[0].named_children():
                yield Part(inner, len(module), sum(parameters_of(layer.get_submodule(inner)) for layer in module), 1)
        elif parameters_of(module):
            yield Part(within + name, 0, parameters_of(module))


def pair_of(reads: ModelInputs, positions: int) -> Batch:
    """Return a sentence pair with this number of positions on each side, `</s>` included, `<s>` of a source excluded.

    All phrases are n-grams, whatever the mode of the segmentation. Chunks have the mean length of English chunks.
    """
    words, chunks = np.full(positions - 1, UNK, dtype=np.int32), None
    if reads.phrases is not None:
        reads = reads.model_copy(update={"phrases": reads.phrases.model_copy(update={"mode": "ngram"})})
    if reads.chunks:
        starts = np.append(np.arange(0, len(words), WORDS_PER_CHUNK), len(words)).astype(np.int32)
        labels = np.full(len(starts), CHUNK_LABELS.index("O"), dtype=np.int32)
        labels[-1] = EOS_LABEL
        chunks = collate_chunks([starts], [labels])
    return Batch(rows=(0,), source=SourceCollator(reads)([words], [0]), target=collate_target([words], chunks))
