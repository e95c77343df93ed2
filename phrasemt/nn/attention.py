"""Multi-head attention without biases (Vaswani et al. 2017, section 3.2).

Letters: B sentences, T query positions, S key positions, D model width d, h heads, E = d/h head width, K hypotheses.
Masks are True where a key may be used by a query; each query must have at least one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.nn.beams import BeamCache
from phrasemt.nn.dropout import scaled_keep_mask
from phrasemt.nn.init import xavier_blocks


class _AttentionWeights(torch.autograd.Function):
    """softmax of masked scores, in float32, with dropout; overwrites the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        if mask is not None:
            scores.masked_fill_(~mask, -torch.inf)
        weights = torch.softmax(scores, dim=-1)  # of bfloat16 scores, torch computes inside in float32
        kept = scaled_keep_mask(weights, dropout) if dropout > 0 else None
        ctx.save_for_backward(weights, kept)
        return weights if kept is None else weights * kept

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        weights, kept = ctx.saved_tensors
        if kept is not None:
            gradient = gradient * kept
        # Masked scores have weight 0 and so gradient 0.
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype), None, None


def attend(queries_BhTE: Tensor, keys_BhSE: Tensor, values_BhSE: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """softmax(Q K^T / sqrt(E)) V (Vaswani et al. 2017, Eq. 1), heads side by side: [B, T, D].

    mask: [B, 1, 1, S], [B, 1, T, S] or [T, S]; None if every query may use every key.
    """
    if queries_BhTE.device.type == "cpu" and torch.is_grad_enabled():
        # Training on a CPU: faster than torch's kernels, of which the fused one has no dropout and a slow gradient.
        scores_BhTS = (queries_BhTE * queries_BhTE.shape[-1] ** -0.5) @ keys_BhSE.transpose(-1, -2)
        weights_BhTS = _AttentionWeights.apply(scores_BhTS, mask, dropout)  # type: ignore[no-untyped-call]
        heads_BhTE = weights_BhTS @ values_BhSE
    else:
        heads_BhTE = F.scaled_dot_product_attention(
            queries_BhTE, keys_BhSE, values_BhSE, attn_mask=mask, dropout_p=dropout
        )
    return heads_BhTE.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """MHA(x, x): queries, keys and values from one multiplication with [Wq; Wk; Wv]."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query_key_value = xavier_blocks(width, width, blocks=3)  # [3D, D]
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def project(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys, values of each head: [B, h, T, E] each."""
        projected = F.linear(x_BTD, self.query_key_value).unflatten(-1, (3, self.heads, -1))
        queries_BhTE, keys_BhTE, values_BhTE = projected.permute(2, 0, 3, 1, 4)
        return queries_BhTE, keys_BhTE, values_BhTE

    def forward(self, x_BTD: Tensor, mask: Tensor | None) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        attended_BTD = attend(*self.project(x_BTD), mask, self.dropout if self.training else 0.0)
        return F.linear(attended_BTD, self.output)

    def step(self, x_BKD: Tensor, cache: BeamCache, layer: int) -> Tensor:
        """The newest position of K hypotheses, which are the queries of a sentence here: [B, K, D] -> [B, K, D]."""
        queries_BhKE, keys_BhKE, values_BhKE = self.project(x_BKD)
        attended_BKD = attend(queries_BhKE, *cache.add(layer, keys_BhKE, values_BhKE), cache.mask_B1KL, 0.0)
        return F.linear(attended_BKD, self.output)


class KeyValueAttention(nn.Module):
    """MHA(x, memory): keys and values are projected apart, so that a decoder does it once per sentence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = xavier_blocks(width, width)  # Wq [D, D]
        self.key_value = xavier_blocks(width, width, blocks=2)  # [Wk; Wv] [2D, D]
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def project_memory(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of each head: [B, h, S, E] each."""
        projected = F.linear(memory_BSD, self.key_value).unflatten(-1, (2, self.heads, -1))
        keys_BhSE, values_BhSE = projected.permute(2, 0, 3, 1, 4)
        return keys_BhSE, values_BhSE

    def forward(self, x_BTD: Tensor, keys_values: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """[B, T, D] -> [B, T, D]; T may as well be the hypotheses of a sentence."""
        queries_BhTE = F.linear(x_BTD, self.query).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        attended_BTD = attend(queries_BhTE, *keys_values, mask, self.dropout if self.training else 0.0)
        return F.linear(attended_BTD, self.output)
