"""Phrases of n tokens each, which follow from the length of a sentence alone. Training computes them as it goes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phrasemt.study.architectures import PhraseSegmentation


def phrase_tokens(length: int, settings: PhraseSegmentation) -> int:
    """n_tok of Xu et al. (2020), footnote 2, from a length in positions (docs/decisions.md, X1-X4).

    max(min(ntok_max, length / ntok_div rounded), ntok_min).
    """
    rounding = math.ceil if settings.ntok_round == "ceil" else math.floor
    return max(min(settings.ntok_max, rounding(length / settings.ntok_div)), settings.ntok_min)


def ngram_ends(length: int, settings: PhraseSegmentation, longest: int | None = None) -> NDArray[np.int64]:
    """Ends of consecutive phrases of n_tok tokens, the last of them possibly shorter.

    longest: take n_tok from this length, that of the longest sentence of a batch (ntok_scope: batch).
    """
    size = phrase_tokens(length if longest is None else longest, settings)
    return np.minimum(np.arange(size, length + size, size), length)
