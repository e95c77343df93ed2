"""Corpus scores of summed sentence statistics: BLEU, chrF and TER, for many sums at once.

A score file holds the statistics of each sentence, so a score on other sentences (a bootstrap sample, a group of
lengths) needs no text. Columns of the statistics of a sentence, in the order of the score file:

| metric | columns |
|---|---|
| BLEU | 4 clipped n-gram matches, 4 n-grams of the hypothesis, tokens of the hypothesis, tokens of the reference |
| chrF | for 6 orders of characters, then of words: n-grams of the hypothesis, n-grams of the reference, matches |
| TER | edits; tokens of the reference, the mean over references |
| mean (of a metric of the user) | the score of the sentence; 1 |

Of several references BLEU takes the closest or the shortest length, and chrF and TER the best reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from phrasemt.scoring.scores import MetricScore

ORDERS = 4
CORRECT, TOTALS = slice(0, ORDERS), slice(ORDERS, 2 * ORDERS)
SYSTEM_LENGTH, REFERENCE_LENGTH = 2 * ORDERS, 2 * ORDERS + 1
COLUMNS = 2 * ORDERS + 2
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
    return COLUMNS if "smooth" in parts else 2


def lower_is_better(signature: str) -> bool:
    """Whether the metric counts mistakes: TER does, and a metric of the user may."""
    if is_mean(signature):
        return signature.partition("|")[2].startswith(f"{_MEAN}lower|")
    return columns_of(signature) == 2


def corpus_scores(metric: MetricScore, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of summed statistics [..., columns] in the convention of a metric; 0 to 100, but for means."""
    if is_mean(metric.signature):
        return sums[..., 0] / sums[..., 1]
    parts = parts_of(metric.signature)
    if "nc" in parts:
        return corpus_chrf(sums)
    return corpus_bleu(sums, parts["smooth"]) if "smooth" in parts else corpus_ter(sums)


def corpus_bleu(statistics: NDArray[np.float64], smoothing: str) -> NDArray[np.float64]:
    """BLEU, 0 to 100, of summed statistics [..., COLUMNS] (Papineni et al. 2002).

    smoothing: `none`, or `exp` as in NIST's mteval-v13a.pl, where the k-th order without a match counts 2^-k matches.
    """
    assert smoothing in ("none", "exp"), smoothing
    correct, totals = statistics[..., CORRECT], statistics[..., TOTALS]
    system_length, reference_length = statistics[..., SYSTEM_LENGTH], statistics[..., REFERENCE_LENGTH]
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0 and 0/0: scores of 0, set below
        if smoothing == "exp":
            correct = np.where(correct == 0, 0.5 ** np.cumsum(correct == 0, axis=-1), correct)
        log_precision = np.log(correct / totals).mean(axis=-1)
        log_brevity = np.minimum(0, 1 - reference_length / system_length)
        scores = 100 * np.exp(log_brevity + log_precision)
    without_score = (statistics[..., CORRECT] == 0).all(-1) | (totals == 0).any(-1)
    return np.where(without_score, 0.0, scores)


def corpus_chrf(statistics: NDArray[np.float64], beta: int = 2) -> NDArray[np.float64]:
    """chrF, 0 to 100, of summed statistics (Popović 2015): F of the mean precision and the mean recall.

    Orders without n-grams on one side are left out of the means.
    """
    hypothesis, reference, matches = (statistics[..., part::3] for part in range(3))
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(-1), 1)
    precision, recall = (
        np.where(counted, matches / np.where(counted, side, 1), 0).sum(-1) / orders for side in (hypothesis, reference)
    )
    weighted = beta**2 * precision + recall
    score: NDArray[np.float64] = (1 + beta**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return 100 * score


def corpus_ter(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """TER in percent of summed statistics (Snover et al. 2006): edits / tokens of the reference.

    Without tokens in the reference it is 100, or 0 if the hypothesis is empty, too.
    """
    edits, tokens = statistics[..., 0], statistics[..., 1]
    score: NDArray[np.float64] = np.where(tokens > 0, edits / np.where(tokens > 0, tokens, 1), edits > 0)
    return 100 * score


def as_array(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Statistics of a score file as [sentences, columns]. All sums are far below 2^53, so they are exact."""
    return np.array(rows, dtype=np.float64)
