"""What surrounds attention in every Transformer layer: embeddings, feed-forward networks, residual connections.

Letters: B sentences, T positions, D model width. Layer normalisation is in float32 whatever the products are in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.nn.dropout import dropout_module
from phrasemt.nn.init import linear
from phrasemt.nn.positions import SinusoidalPositions

NORM_EPSILON = 1e-6


def layer_norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=NORM_EPSILON)


class Residual(nn.Module):
    """A residual connection with dropout and layer normalisation around a sub-layer F.

    post: LN(x + drop(F(x))). pre: x + drop(F(LN(x))), where the stack ends with one more LN.
    """

    def __init__(self, width: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = layer_norm(width)
        self.dropout = dropout_module(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x_BTD + self.dropout(sublayer(self.norm(x_BTD)))
        normalised_BTD: Tensor = self.norm(x_BTD + self.dropout(sublayer(x_BTD)))
        return normalised_BTD


class FeedForward(nn.Module):
    """FFN(x) = W2 drop(max(0, W1 x + b1)) + b2 (Vaswani et al. 2017, Eq. 2)."""

    def __init__(self, width: int, inner_width: int, dropout: float) -> None:
        super().__init__()
        self.inner = linear(width, inner_width)
        self.dropout = dropout_module(dropout)
        self.outer = linear(inner_width, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        outer_BTD: Tensor = self.outer(self.dropout(F.relu(self.inner(x_BTD), inplace=True)))
        return outer_BTD


class Embedding(nn.Module):
    """drop(sqrt(d) E[id] + PE), with `normalise` followed by a layer normalisation. The table E is its user's."""

    def __init__(self, width: int, dropout: float, *, normalise: bool) -> None:
        super().__init__()
        self.scale = width**0.5
        self.positions = SinusoidalPositions(width)
        self.dropout = dropout_module(dropout)
        self.norm = layer_norm(width) if normalise else nn.Identity()

    def forward(self, ids_BT: Tensor, table_VD: Tensor) -> Tensor:
        """Sentences: [B, T] -> [B, T, D]."""
        return self._embed(ids_BT, table_VD, self.positions(0, ids_BT.shape[1]))

    def one_position(self, ids_BK: Tensor, table_VD: Tensor, position: int) -> Tensor:
        """Hypotheses, all at the same position: [B, K] -> [B, K, D]."""
        return self._embed(ids_BK, table_VD, self.positions(position, 1))

    def _embed(self, ids: Tensor, table_VD: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.norm(self.dropout(positions.add(F.embedding(ids, table_VD), alpha=self.scale)))
        return embedded
