"""N-gram phrases. They depend only on the length of a sentence, so training computes them and stores nothing.

Apart from the other segmenters (phrasemt/syntax/segmenters.py), so that an edit of these trains nothing again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phrasemt.study.architectures import PhraseSegmentation


def phrase_tokens(length: int, settings: PhraseSegmentation) -> int:
    """The phrase length n_tok of Xu et al. (2020), footnote 2: max(min(ntok_max, length / ntok_div), ntok_min).

    length: encoder positions. docs/decisions.md, rows X1 to X4, explains rounding and constants.
    """
    return max(min(settings.ntok_max, math.ceil(length / settings.ntok_div)), settings.ntok_min)


def ngram_ends(length: int, settings: PhraseSegmentation, longest: int | None = None) -> NDArray[np.int64]:
    """Ends of consecutive phrases of n_tok positions; the last phrase may be shorter.

    longest: compute n_tok from this length, the longest in a batch, instead (`ntok_scope: batch`).
    """
    size = phrase_tokens(length if longest is None else longest, settings)
    return np.minimum(np.arange(size, length + size, size), length)
