"""Transformer with relative positions.

Shaw, Uszkoreit, Vaswani (2018): Self-Attention with Relative Position Representations. NAACL.

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
    Eq. (3)  sum of values and a^V, weighted             phrasemt/nn/relative_attention.py
    Eq. (4)  scores from keys and a^K
    Eq. (5)  the same scores as a sum of two products, so that a^K is not added to each key

Deviations and choices (docs/decisions.md)
    Each layer has its own vectors a^K and a^V, which its heads share.
    In the decoder no key comes after its query, so the last k rows are never used. They are parameters all the same.
    Eq. (3)  is split into two products like Eq. (5).
    Attention to the source is plain. No absolute positions are added.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from phrasemt.models.transformer import Attentions, Transformer
from phrasemt.nn.relative_attention import RelativeSelfAttention
from phrasemt.study.architectures import RelativePositionsModel


def build(settings: RelativePositionsModel, *, source_vocabulary: int, target_vocabulary: int) -> Transformer:
    """Return the untrained model. Sizes of vocabularies include the special symbols."""
    relative = partial(  # Eqs. (3-5)
        RelativeSelfAttention, settings.width, settings.heads, settings.attn_dropout, rel_k=settings.rel_k
    )
    return Transformer(
        settings,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        attentions=replace(Attentions.plain(settings), encoder=relative, decoder=relative),
        positions=False,
    )
