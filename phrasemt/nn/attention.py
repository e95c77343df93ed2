"""Multi-head attention without biases (Vaswani et al. 2017, section 3.2).

Letters: B sentences, T query positions, S key positions, D model width d, h heads, E = d/h head width, K hypotheses,
G = B*h, N orders of n-grams (1: tokens), n projections that one multiplication computes.
Some families of the Transformer replace `SelfAttention` and `KeyValueAttention` by modules of their own with the same
methods. `project_memory` returns a tuple of tensors; the sentences are their second axis.

A fused kernel returns no weights, and most callers need none. Every module of attention therefore has a field `record`
(`RecordableAttention`): if it is not None, the attention hands its weights to it and computes in separate operations.

Each query must have at least one key that its mask (phrasemt/nn/layers.py) lets it use; without any keys (S = 0) all
queries get 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.files.attention import AttentionPlace
from phrasemt.nn.beams import BeamCache
from phrasemt.nn.layers import Mask, cpu_form_applies, dropout, xavier_blocks
from phrasemt.nn.precision import normalised_dtype

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


# The projections of a memory, computed once per sentence. The sentences are the second axis of each tensor.
Projected = tuple[Tensor, ...]


def heads_first(projection_BTX: Tensor, heads: int, width: int) -> Tensor:
    """Return n fused projections [B, T, n*D] as a view [n, B, h, T, E]."""
    sentences, positions, columns = projection_BTX.shape
    blocks = projection_BTX.view(sentences, positions, columns // width, heads, width // heads)
    return blocks.permute(2, 0, 3, 1, 4)


def attend(*projections_nBhTE: Tensor, mask: Mask | None, dropout: float, record: Record | None = None) -> Tensor:
    """Return softmax(Q K^T / sqrt(E)) V (Vaswani et al. 2017, Eq. 1) with the heads side by side: [B, T, D].

    projections: Q, K, V in this order; each tensor holds n of them: [n, B, h, T or S, E].
    mask: None if each query may use each key.
    dropout: probability of dropping an attention weight. record: takes the weights [B, h, T, 1, S].
    """
    queries_BhTE, keys_BhSE, values_BhSE = (block for blocks in projections_nBhTE for block in blocks)
    if record is not None or (torch.is_grad_enabled() and cpu_form_applies("attention", queries_BhTE)):
        # torch's fused kernel for CPUs has no dropout, and the operations that it falls back to are slower and less
        # exact in bfloat16 (docs/log/performance.md). No fused kernel returns weights.
        scores_BhTS = queries_BhTE @ keys_BhSE.transpose(-1, -2)
        weights_BhTS = attention_weights(
            scores_BhTS, queries_BhTE.shape[-1] ** -0.5, mask=mask, probability=dropout, record=record
        )
        attended_BhTE: Tensor = weights_BhTS.to(values_BhSE.dtype) @ values_BhSE
    else:
        bias_XS = None if mask is None else mask.bias_XS(queries_BhTE.dtype)
        attended_BhTE = F.scaled_dot_product_attention(
            queries_BhTE, keys_BhSE, values_BhSE, attn_mask=bias_XS, dropout_p=dropout
        )
    return attended_BhTE.transpose(1, 2).flatten(2)


def attention_weights(
    scores_BhTS: Tensor, scale: float, *, mask: Mask | None, probability: float, record: Record | None
) -> Tensor:
    """softmax(scale * scores) in float32, with dropout: [B, h, T, S]. probability: of dropping a weight."""
    scores_BhTS = scores_BhTS.to(normalised_dtype(scores_BhTS)) * scale
    if mask is not None:
        scores_BhTS = scores_BhTS.masked_fill(mask.forbidden_XS, -torch.inf)
    weights_BhTS = torch.softmax(scores_BhTS, dim=-1)
    if record is not None:
        record(weights_BhTS[..., None, :])
    return dropout(weights_BhTS, probability) if probability > 0 else weights_BhTS


class SelfAttention(RecordableAttention):
    """MHA(x, x). One multiplication with [Wq; Wk; Wv] computes queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.query_key_value = xavier_blocks(width, width, blocks=3)  # [3D, D]
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def project(self, x_BTD: Tensor) -> Tensor:
        """Return queries, keys and values of each head: [3, B, h, T, E]."""
        return heads_first(F.linear(x_BTD, self.query_key_value), self.heads, self.width)

    def forward(self, x_BTD: Tensor, mask: Mask) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        dropout = self.dropout if self.training else 0.0
        attended_BTD = attend(self.project(x_BTD), mask=mask, dropout=dropout, record=self.record)
        return F.linear(attended_BTD, self.output)

    def cache(self, layers: int, *, sentences: int, beams: int, like: Tensor) -> BeamCache:
        """Return an empty cache of keys and values for a search; `like` gives type and device."""
        return BeamCache.empty(layers, sentences, beams, self.heads, self.width, like)

    def step(self, x_BKD: Tensor, cache: BeamCache, layer: int) -> Tensor:
        """Compute the newest position of K hypotheses, which take the place of the queries: [B, K, D] -> [B, K, D].

        Adds the keys and values of this position to the cache.
        """
        projected_3BhKE = self.project(x_BKD)
        keys_values_2BhLE = cache.add(layer, *projected_3BhKE[1:])
        attended_BKD = attend(projected_3BhKE[:1], keys_values_2BhLE, mask=cache.mask, dropout=0.0)
        return F.linear(attended_BKD, self.output)


class KeyValueAttention(RecordableAttention):
    """MHA(x, memory). Keys and values have a projection of their own, which a search computes once per sentence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.query = xavier_blocks(width, width)  # Wq [D, D]
        self.key_value = xavier_blocks(width, width, blocks=2)  # [Wk; Wv] [2D, D]
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def project_memory(self, memory_BSD: Tensor) -> Projected:
        """Return keys and values of each head: ([2, B, h, S, E],)."""
        return (heads_first(F.linear(memory_BSD, self.key_value), self.heads, self.width),)

    def forward(self, x_BTD: Tensor, keys_values: Projected, mask: Mask) -> Tensor:
        """[B, T, D] -> [B, T, D]. In a search, the hypotheses of a sentence take the place of the positions T."""
        queries_1BhTE = heads_first(F.linear(x_BTD, self.query), self.heads, self.width)
        dropout = self.dropout if self.training else 0.0
        attended_BTD = attend(queries_1BhTE, *keys_values, mask=mask, dropout=dropout, record=self.record)
        return F.linear(attended_BTD, self.output)
