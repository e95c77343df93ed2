"""Recording of attention weights.

A fused kernel returns no weights, and most callers need none. A module of attention therefore has a field `record`: if
it is not None, the attention of the module hands its weights to it and computes in separate operations.

Letters: B sentences, h heads, T query positions, N orders of n-grams (1: tokens), S key positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasemt.files.attention import AttentionPlace

# Takes weights [B, h, T, N, S] as the softmax returns them, before dropout.
Record = Callable[[Tensor], None]


class RecordableAttention(nn.Module):
    """Base of all modules of attention.

    record: takes the weights of each call; None: they are not recorded. over_ngrams: True for attention to n-grams.
    """

    record: Record | None = None
    over_ngrams = False


@dataclass(frozen=True, kw_only=True)
class Attention:
    """An attention of a model. layer: counts from 1."""

    place: AttentionPlace
    layer: int
    module: RecordableAttention


@contextmanager
def recording(modules: Sequence[RecordableAttention]) -> Iterator[Callable[[], list[Tensor]]]:
    """Record the weights of some modules within a block.

    Yields a function that returns the weights so far, [B, h, T, N, S] for each module; calls for single positions are
    joined along T. The record ends with the block, also after an error. Blocks may be nested: each records all weights.
    """
    parts: list[list[Tensor]] = [[] for _ in modules]
    outer = [module.record for module in modules]
    for module, weights in zip(modules, parts, strict=True):
        module.record = _both(module.record, weights.append)
    try:
        yield lambda: [torch.cat(weights, dim=2) for weights in parts]
    finally:
        for module, record in zip(modules, outer, strict=True):
            module.record = record


def _both(first: Record | None, second: Record) -> Record:
    if first is None:
        return second

    def record(weights_BhTNS: Tensor) -> None:
        first(weights_BhTNS)
        second(weights_BhTNS)

    return record
