"""The cost of a system: parameters of each part, and multiply-adds, which torch counts during a forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

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
    """Parts of a model, all of its parameters, how many of them are idle, and the multiply-adds of a target token."""

    parts: tuple[Part, ...]
    parameters: int
    idle: int
    multiply_adds: float


def cost_of(settings: Architecture, *, source_vocabulary: int, target_vocabulary: int) -> Cost:
    """Build a model, count its parameters, and count multiply-adds while it scores a pair of `POSITIONS` positions.

    Raises PhrasemtError for a model that needs more memory than there is.
    """
    with torch.device("meta"):
        model = build_model(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
    needed, available = _BYTES_PER_PARAMETER * parameters_of(model), psutil.virtual_memory().available
    if needed > available:
        raise PhrasemtError(
            "the model does not fit into the memory of this machine",
            expected=f"at most {available / 1e9:,.1f} GB",
            found=f"{needed / 1e9:,.1f} GB for {parameters_of(model):,} parameters",
            next_step="lower the widths or the number of layers, or use a machine with more memory",
        )
    model = model.to_empty(device="cpu").eval()
    batch = pair_of(settings.model_inputs, POSITIONS)
    # torch does not count the fused kernels of attention; the plain form has the same multiplications.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model.loss(batch, label_smoothing=0.1)
    return Cost(
        parts=tuple(parts_of(model)),
        parameters=parameters_of(model),
        idle=model.idle_parameters(),
        multiply_adds=counter.get_total_flops() / 2 / POSITIONS,
    )


def parameters_of(module: nn.Module) -> int:
    """Return the number of parameters of a module. Shared parameters count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def parts_of(model: nn.Module, within: str = "") -> Iterator[Part]:
    """Yield the parts of a model. The parts of depth 0 together have each parameter once.

    The module `words` is divided into its own parts. Parts of depth 1 follow a stack of layers: the modules of a layer,
    summed over the layers.
    """
    for name, parameter in model.named_parameters(recurse=False):
        yield Part(within + re.sub(r"_[A-Z0-9]+$", "", name), 0, parameter.numel())  # without its shape
    for name, module in model.named_children():
        if name == "words":
            yield from parts_of(module, "words.")
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
