"""Signatures of metrics, which score files carry: what they say about the columns of the sentence statistics.

Columns of the statistics of a sentence, in the order of the score file:

| metric | columns |
|---|---|
| BLEU | 4 clipped n-gram matches, 4 n-grams of the hypothesis, tokens of the hypothesis, tokens of the reference |
| chrF | for 6 orders of characters, then of words: n-grams of the hypothesis, n-grams of the reference, matches |
| TER | edits; tokens of the reference, the mean over references |
| mean (of a metric of the user) | the score of the sentence; 1 |

Of several references BLEU takes the closest or the shortest length, and chrF and TER the best reference.
"""

from __future__ import annotations

from typing import Literal

BLEU_COLUMNS = 10
_MEAN = "mean:"


def parts_of(signature: str) -> dict[str, str]:
    """The parts of a signature: `nrefs:1|case:mixed` is {nrefs: 1, case: mixed}."""
    return dict(part.split(":", 1) for part in signature.split("|"))


def mean_signature(metric: str, better: Literal["higher", "lower"], program: str) -> str:
    """The signature of a metric whose score is the mean over the sentences of what a program computes."""
    return f"{metric}|{_MEAN}{better}|{program}"


def is_mean(signature: str) -> bool:
    """Whether a signature is one of `mean_signature`. Programs may hold any characters, so only its begin is read."""
    return signature.partition("|")[2].startswith(_MEAN)


def columns_of(signature: str) -> int:
    """The number of statistics of a sentence for the metric of a signature."""
    if is_mean(signature):
        return 2
    parts = parts_of(signature)
    if "nc" in parts:  # chrF
        return 3 * (int(parts["nc"]) + int(parts["nw"]))
    return BLEU_COLUMNS if "smooth" in parts else 2


def lower_is_better(signature: str) -> bool:
    """Whether the metric counts mistakes: TER does, and a metric of the user may."""
    if is_mean(signature):
        return signature.partition("|")[2].startswith(f"{_MEAN}lower|")
    return columns_of(signature) == 2
