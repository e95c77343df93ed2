"""Attention in separate operations, for training and for the recording of weights.

torch's fused kernel for CPUs has no dropout; with dropout torch falls back to separate operations of its own, which
compute the softmax of bfloat16 scores in bfloat16. The softmax in float32 is ten times as fast and more exact.

Without this form a training step takes 1.09 to 1.18 times as long in bfloat16, 1.03 in float32
(docs/performance-log.md). The fused kernel is kept for translation, which has no dropout. It returns no weights, so
recorded attention uses this form on all devices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phrasemt.nn.layers import Mask, dropout
from phrasemt.nn.precision import normalised_dtype
from phrasemt.nn.recording import Record


def attend(
    queries_BhTE: Tensor,
    keys_BhSE: Tensor,
    values_BhSE: Tensor,
    *,
    mask: Mask | None,
    probability: float,
    record: Record | None = None,
) -> Tensor:
    """softmax(Q K^T / sqrt(E)) V: [B, h, T, E]; the mask as in `phrasemt.nn.attention.attend`.

    probability: of dropping a weight. record: takes the weights [B, h, T, 1, S].
    """
    scores_BhTS = queries_BhTE @ keys_BhSE.transpose(-1, -2)
    weights_BhTS = attention_weights(
        scores_BhTS, queries_BhTE.shape[-1] ** -0.5, mask=mask, probability=probability, record=record
    )
    return weights_BhTS.to(values_BhSE.dtype) @ values_BhSE


def attention_weights(
    scores_BhTS: Tensor, scale: float, *, mask: Mask | None, probability: float, record: Record | None
) -> Tensor:
    """softmax(scale * scores) in float32, with dropout; arguments as above."""
    scores_BhTS = scores_BhTS.to(normalised_dtype(scores_BhTS)) * scale
    if mask is not None:
        scores_BhTS = scores_BhTS.masked_fill(mask.forbidden_XS, -torch.inf)
    weights_BhTS = torch.softmax(scores_BhTS, dim=-1)
    if record is not None:
        record(weights_BhTS[..., None, :])
    return dropout(weights_BhTS, probability) if probability > 0 else weights_BhTS
