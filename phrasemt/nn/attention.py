"""Multi-head attention without biases (Vaswani et al. 2017, section 3.2).

Letters: B sentences, T query positions, S key positions, D model width d, h heads, E = d/h head width, K hypotheses,
G = B*h, n projections that were made by one multiplication.
Families of the Transformer put modules of their own in the places of `SelfAttention` and `KeyValueAttention`; they have
the same methods. What `project_memory` makes is a tuple of tensors whose second axis is the sentences.

Masks are True where a key may be used by a query; each query must have at least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.nn.beams import BeamCache
from phrasemt.nn.dropout import scaled_keep_mask
from phrasemt.nn.init import xavier_blocks
from phrasemt.nn.linear import project
from phrasemt.nn.precision import normalised_dtype

# What attention to a memory makes of it once per sentence: tensors whose second axis is the sentences.
Projected = tuple[Tensor, ...]


def held(projected: Projected) -> Projected:
    """Laid out for being read at every step of a search."""
    return tuple(tensor.contiguous() for tensor in projected)


def kept(projected: Projected, sentences: Tensor) -> Projected:
    """That of some sentences only (int64 indices)."""
    return tuple(tensor.index_select(1, sentences) for tensor in projected)


def weights_for_training(
    scores_GTS: Tensor, dropout: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Softmax over the keys, the factors of its dropout, if there is any, and their product in some type."""
    weights_GTS = torch.softmax(scores_GTS, dim=-1)
    kept_GTS = scaled_keep_mask(weights_GTS, dropout) if dropout > 0 else None
    return weights_GTS, kept_GTS, (weights_GTS if kept_GTS is None else weights_GTS * kept_GTS).to(dtype)


def gradient_of_scores(d_dropped_GTS: Tensor, weights_GTS: Tensor, kept_GTS: Tensor | None) -> Tensor:
    """The gradient of the scores, in their type, from that of the weights after dropout, which may be overwritten."""
    d_weights_GTS = d_dropped_GTS.to(weights_GTS.dtype)
    if kept_GTS is not None:
        d_weights_GTS *= kept_GTS
    # Masked scores have weight 0 and so gradient 0.
    return torch._softmax_backward_data(d_weights_GTS, weights_GTS, -1, weights_GTS.dtype)


class _CpuAttention(torch.autograd.Function):
    """Attention for training on a CPU.

    torch's fused CPU kernel has no dropout and a slow gradient in bfloat16; as separate operations the copies between
    the layouts [B, T, h, E] and [B, h, T, E] take as long as the products. Here each projection is copied once, and its
    gradient is laid out as the projection was. Between the products there is float32: there is little of it, and the
    softmax of short rows is ten times as fast as in bfloat16.
    """

    @staticmethod
    def forward(ctx: Any, mask: Tensor | None, dropout: float, *projections_nBhTE: Tensor) -> Tensor:
        ctx.blocks = [projection.shape[0] for projection in projections_nBhTE]
        queries_BhTE, keys_BhSE, values_BhSE = (
            block.contiguous() for projection in projections_nBhTE for block in projection
        )
        sentences, heads, positions, head_width = queries_BhTE.shape
        queries_GTE, keys_GSE, values_GSE = (block.flatten(0, 1) for block in (queries_BhTE, keys_BhSE, values_BhSE))
        exact, fast = normalised_dtype(queries_GTE), queries_GTE.dtype
        scores_GTS = torch.bmm(queries_GTE, keys_GSE.transpose(1, 2)).to(exact).mul_(head_width**-0.5)
        if mask is not None:
            scores_GTS.view(sentences, heads, positions, -1).masked_fill_(~mask, -torch.inf)
        weights_GTS, kept_GTS, dropped_GTS = weights_for_training(scores_GTS, dropout, fast)
        ctx.save_for_backward(queries_GTE, keys_GSE, values_GSE, weights_GTS, kept_GTS, dropped_GTS)
        attended_GTE = torch.bmm(dropped_GTS, values_GSE)
        return attended_GTE.view(sentences, heads, positions, head_width).transpose(1, 2).flatten(2)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_BTD: Tensor) -> tuple[Tensor | None, ...]:
        queries_GTE, keys_GSE, values_GSE, weights_GTS, kept_GTS, dropped_GTS = ctx.saved_tensors
        sentences, positions, _ = gradient_BTD.shape
        head_width, fast = queries_GTE.shape[-1], queries_GTE.dtype
        heads = queries_GTE.shape[0] // sentences

        d_attended_GTE = gradient_BTD.view(sentences, positions, heads, head_width).transpose(1, 2).flatten(0, 1)
        d_values_GSE = torch.bmm(dropped_GTS.transpose(1, 2), d_attended_GTE)
        d_dropped_GTS = torch.bmm(d_attended_GTE, values_GSE.transpose(1, 2))
        d_scores_GTS = gradient_of_scores(d_dropped_GTS, weights_GTS, kept_GTS).mul_(head_width**-0.5).to(fast)
        d_queries_GTE = torch.bmm(d_scores_GTS, keys_GSE)
        d_keys_GSE = torch.bmm(d_scores_GTS.transpose(1, 2), queries_GTE)

        gradients = iter(
            [block.view(sentences, heads, -1, head_width) for block in (d_queries_GTE, d_keys_GSE, d_values_GSE)]
        )
        return None, None, *(_as_projected(list(islice(gradients, blocks))) for blocks in ctx.blocks)


def _as_projected(blocks_BhTE: Sequence[Tensor]) -> Tensor:
    """n tensors as one [n, B, h, T, E] that lies in memory as a projection [B, T, n*D] does."""
    sentences, heads, positions, head_width = blocks_BhTE[0].shape
    projection_BTnhE = blocks_BhTE[0].new_empty(sentences, positions, len(blocks_BhTE), heads, head_width)
    for index, block_BhTE in enumerate(blocks_BhTE):
        projection_BTnhE[:, :, index] = block_BhTE.transpose(1, 2)
    return projection_BTnhE.permute(2, 0, 3, 1, 4)


def heads_first(projection_BTX: Tensor, heads: int, width: int) -> Tensor:
    """n fused projections [B, T, n*D] as [n, B, h, T, E]."""
    sentences, positions, _ = projection_BTX.shape
    return projection_BTX.view(sentences, positions, -1, heads, width // heads).permute(2, 0, 3, 1, 4)


def attend(*projections_nBhTE: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """softmax(Q K^T / sqrt(E)) V (Vaswani et al. 2017, Eq. 1), heads side by side: [B, T, D].

    projections: Q, K, V in this order, as tensors of one or more of them each: [n, B, h, T or S, E].
    mask: [B, 1, 1, S], [B, 1, T, S] or [T, S]; None if every query may use every key.
    """
    if projections_nBhTE[0].device.type == "cpu" and torch.is_grad_enabled():
        attended_BTD: Tensor = _CpuAttention.apply(mask, dropout, *projections_nBhTE)  # type: ignore[no-untyped-call]
        return attended_BTD
    queries_BhTE, keys_BhSE, values_BhSE = (block for blocks in projections_nBhTE for block in blocks)
    attended_BhTE = F.scaled_dot_product_attention(
        queries_BhTE, keys_BhSE, values_BhSE, attn_mask=mask, dropout_p=dropout
    )
    return attended_BhTE.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """MHA(x, x): queries, keys and values from one multiplication with [Wq; Wk; Wv]."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.query_key_value = xavier_blocks(width, width, blocks=3)  # [3D, D]
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def project(self, x_BTD: Tensor) -> Tensor:
        """Queries, keys and values of each head: [3, B, h, T, E]."""
        return heads_first(project(x_BTD, self.query_key_value), self.heads, self.width)

    def forward(self, x_BTD: Tensor, mask: Tensor | None) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        attended_BTD = attend(self.project(x_BTD), mask=mask, dropout=self.dropout if self.training else 0.0)
        return project(attended_BTD, self.output)

    def cache(self, *, layers: int, beams: int, like_BXD: Tensor) -> BeamCache:
        """What a search keeps of the past in all layers, for as many sentences and of the type of `like_BXD`."""
        return BeamCache.empty(layers=layers, beams=beams, heads=self.heads, like_BXD=like_BXD)

    def step(self, x_BKD: Tensor, cache: BeamCache, layer: int) -> Tensor:
        """The newest position of K hypotheses, which are the queries of a sentence here: [B, K, D] -> [B, K, D]."""
        queries_BhKE, keys_BhKE, values_BhKE = self.project(x_BKD)
        keys_values_2BhLE = cache.add(layer, keys_BhKE, values_BhKE)
        attended_BKD = attend(queries_BhKE[None], keys_values_2BhLE, mask=cache.mask_B1KL, dropout=0.0)
        return project(attended_BKD, self.output)


class KeyValueAttention(nn.Module):
    """MHA(x, memory): keys and values are projected apart, so that a search does it once per sentence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.query = xavier_blocks(width, width)  # Wq [D, D]
        self.key_value = xavier_blocks(width, width, blocks=2)  # [Wk; Wv] [2D, D]
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def project_memory(self, memory_BSD: Tensor) -> Projected:
        """Keys and values of each head: ([2, B, h, S, E],)."""
        return (heads_first(project(memory_BSD, self.key_value), self.heads, self.width),)

    def forward(self, x_BTD: Tensor, keys_values: Projected, mask: Tensor | None) -> Tensor:
        """[B, T, D] -> [B, T, D]; T may as well be the hypotheses of a sentence."""
        queries_1BhTE = heads_first(project(x_BTD, self.query), self.heads, self.width)
        attended_BTD = attend(queries_1BhTE, *keys_values, mask=mask, dropout=self.dropout if self.training else 0.0)
        return project(attended_BTD, self.output)
