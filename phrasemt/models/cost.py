"""What a system costs: its parameters, part by part, and its multiply-adds, counted while it computes.

Letters: S source positions, T target positions, each with `</s>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from phrasemt.batching.batch import Batch, collate_chunks, collate_phrases, collate_source, collate_target
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import Architecture, ModelInputs
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL, UNK
from phrasemt.syntax.phrases.ngrams import ngram_ends

# The pair that multiply-adds are counted for: about the mean length of WMT's subwords, `</s>` included.
POSITIONS = 27
WORDS_PER_CHUNK = 1.57  # of the CoNLL-2000 chunks of English, each word outside of chunks being one


@dataclass(frozen=True)
class Part:
    """Parameters of a part of a model; `depth` 1 of what stands in a part. layers: 0 for what is no stack of layers."""

    name: str
    layers: int
    parameters: int
    depth: int = 0


@dataclass(frozen=True)
class Cost:
    """Parts of a model, all of its parameters, and the multiply-adds of one target token, forward."""

    parts: tuple[Part, ...]
    parameters: int
    multiply_adds: float


def cost_of(settings: Architecture, *, source_vocabulary: int, target_vocabulary: int) -> Cost:
    """Build a model, count what it has, and let it score a pair of `POSITIONS` positions on either side."""
    with torch.device("meta"):
        model = build_model(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
    model = model.to_empty(device="cpu").eval()
    batch = pair_of(settings.model_inputs, POSITIONS)
    # The fused kernels of attention are not counted; its plain form multiplies the same numbers.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model.loss(batch, label_smoothing=0.1)
    return Cost(
        parts=tuple(parts_of(model)),
        parameters=parameters_of(model),
        multiply_adds=counter.get_total_flops() / 2 / POSITIONS,
    )


def parameters_of(module: nn.Module) -> int:
    """Parameters of a module; tied ones count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def parts_of(model: nn.Module, within: str = "") -> Iterator[Part]:
    """What a model is made of; the parts of depth 0 share no parameter and have all there are.

    What words have stands one by one; below a stack of layers stands what its layers hold.
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
    """A sentence pair of so many positions on either side, `</s>` included; `<s>` of a source comes in addition.

    Phrases of whatever mode are here those of n tokens, and chunks have the mean length of English ones.
    """
    words = np.full(positions - 1, UNK, dtype=np.int32)
    phrases, chunks = None, None
    if reads.phrases is not None:
        length = positions + reads.begins_with_bos
        phrases = collate_phrases([ngram_ends(length, reads.phrases)])
    if reads.chunks:
        starts = np.append(np.arange(0, len(words), WORDS_PER_CHUNK), len(words)).astype(np.int32)
        labels = np.full(len(starts), CHUNK_LABELS.index("O"), dtype=np.int32)
        labels[-1] = EOS_LABEL
        chunks = collate_chunks([starts], [labels])
    return Batch(
        rows=(0,),
        source=collate_source([words], phrases, with_bos=reads.begins_with_bos),
        target=collate_target([words], chunks),
    )
