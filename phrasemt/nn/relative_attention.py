"""Multi-head self-attention with relative positions.

Shaw, Uszkoreit, Vaswani (2018): Self-Attention with Relative Position Representations. NAACL. (Sections 3.2 and 3.3.)

Notation
    paper        here                 shape
    d_x          width, D             512
    d_z          E                    D / heads
    k            rel_k                16
    x            x_BTD                [B sentences, T positions, D]
    a^K_ij       distance_keys        [2k+1, E]; row clip(j - i, -k, k) + k
    a^V_ij       distance_values      [2k+1, E]; same rows
    e_ij         scores_BhTS          [B, heads, T queries, S keys]
    alpha_ij     weights_BhTS         [B, heads, T queries, S keys]

Equations
    Eq. (3)  sum of values and a^V, weighted
    Eq. (4)  scores from keys and a^K
    Eq. (5)  the same scores as a sum of two products, so that a^K is not added to each key

Deviations and choices (docs/decisions.md)
    Each layer has its own vectors a^K and a^V, which its heads share.
    In the decoder no key comes after its query, so the last k rows are never used. They are parameters all the same.
    Eq. (3)  is split into two products like Eq. (5).
    Attention to the source has no distances. No absolute positions are added (phrasemt/models/transformer.py).

Letters: B sentences, T positions (keys j as well as queries i), D model width, h heads, E = D/h head width,
K hypotheses, L = steps * K entries of a search's cache, R distances.

Adding the vectors of distances to keys and values would need tensors [B, T, T, E]. Instead each query is multiplied
with the vector of each distance once, and the products are then distributed to the keys (Eq. 5); the attention weights
are summed by distance before they are multiplied with the vectors. In a [T, T] matrix equal distances lie on diagonals,
so shifting rows converts between keys and distances without a gather.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from phrasemt.nn.attention import SelfAttention, attention_weights
from phrasemt.nn.beams import BeamCache
from phrasemt.nn.layers import Mask, xavier_blocks


def distances_to_keys(x_BhTR: Tensor) -> Tensor:
    """[B, h, T, 2T] with columns for distances -T to T-1 -> [B, h, T, T]: [i, j] is row i's value at distance j - i."""
    sentences, heads, positions, _ = x_BhTR.shape
    shifted = x_BhTR.flatten(2)[:, :, positions:].view(sentences, heads, positions, 2 * positions - 1)
    return shifted[..., :positions]


def keys_to_distances(x_BhTT: Tensor) -> Tensor:
    """Inverse of `distances_to_keys`: [B, h, T, T] -> [B, h, T, 2T], 0 at distances without a key."""
    positions = x_BhTT.shape[2]
    shifted = F.pad(x_BhTT, (0, positions - 1)).flatten(2)
    return F.pad(shifted, (positions, 0)).view(*x_BhTT.shape[:3], 2 * positions)


class RelativeSelfAttention(SelfAttention):
    """Self-attention with vectors for the distance between query and key; x needs no absolute positions.

    rel_k: the largest distance k with vectors of its own. Larger distances have the vectors of -k or k.
    """

    looked_up = ("distance_keys", "distance_values")  # parameters of which rows are read (phrasemt/nn/precision.py)

    def __init__(self, width: int, heads: int, dropout: float, *, rel_k: int) -> None:
        super().__init__(width, heads, dropout)
        self.rel_k = rel_k
        # a^K and a^V of the distances -k to k [2k+1, E]; the heads share them.
        self.distance_keys = xavier_blocks(2 * rel_k + 1, width // heads)
        self.distance_values = xavier_blocks(2 * rel_k + 1, width // heads)

    def forward(self, x_BTD: Tensor, mask: Mask | None) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        positions = x_BTD.shape[1]
        distances_R = torch.arange(-positions, positions, device=x_BTD.device)
        queries_BhTE, keys_BhTE, values_BhTE = self.project(x_BTD)
        return self._attend(
            queries_BhTE, keys_BhTE, values_BhTE, distances_R, distances_to_keys, keys_to_distances, mask
        )

    def step(self, x_BKD: Tensor, cache: BeamCache, layer: int) -> Tensor:
        """As `SelfAttention.step`. All hypotheses have the same distance to the entries of a step."""
        queries_BhKE, keys_BhKE, values_BhKE = self.project(x_BKD)
        keys_BhLE, values_BhLE = cache.add(layer, keys_BhKE, values_BhKE)
        distances_R = torch.arange(1 - cache.steps, 1, device=x_BKD.device)

        def to_entries(x_BhKR: Tensor) -> Tensor:
            return x_BhKR.repeat_interleave(cache.beams, dim=-1)

        def to_distances(x_BhKL: Tensor) -> Tensor:
            return x_BhKL.view(*x_BhKL.shape[:3], cache.steps, cache.beams).sum(-1)

        return self._attend(queries_BhKE, keys_BhLE, values_BhLE, distances_R, to_entries, to_distances, cache.mask)

    def _attend(
        self,
        queries_BhTE: Tensor,
        keys_BhSE: Tensor,
        values_BhSE: Tensor,
        distances_R: Tensor,
        to_keys: Callable[[Tensor], Tensor],
        to_distances: Callable[[Tensor], Tensor],
        mask: Mask | None,
    ) -> Tensor:
        """Return [B, T, D], from scores q (k + a^K) / sqrt(E) and values v + a^V.

        to_keys: maps columns for distances to columns for keys, [B, h, T, R] -> [B, h, T, S].
        to_distances: sums the keys of each distance, [B, h, T, S] -> [B, h, T, R].
        """
        rows_R = distances_R.clamp(-self.rel_k, self.rel_k) + self.rel_k
        distance_keys_RE = F.embedding(rows_R, self.distance_keys)
        distance_values_RE = F.embedding(rows_R, self.distance_values)
        scores_BhTS = queries_BhTE @ keys_BhSE.transpose(-1, -2) + to_keys(
            queries_BhTE @ distance_keys_RE.T
        )  # Eqs. (4-5)
        weights_BhTS = attention_weights(
            scores_BhTS,
            queries_BhTE.shape[-1] ** -0.5,
            mask=mask,
            probability=self.dropout if self.training else 0.0,
            record=self.record,
        ).to(values_BhSE.dtype)
        attended_BhTE = weights_BhTS @ values_BhSE + to_distances(weights_BhTS) @ distance_values_RE  # Eq. (3)
        return F.linear(attended_BhTE.transpose(1, 2).flatten(2), self.output)
