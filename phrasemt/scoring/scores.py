"""Scores on a test set: what must hold before they are compared, those of forced decoding, and the formulas of metrics.

A score file holds the statistics of each sentence (columns: phrasemt/artefacts/scores.py), so a score on other
sentences (a bootstrap sample, a group of lengths) needs no text. BLEU, chrF and TER are computed for many sums at once.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.scores import Better, MetricScore, Scores, parts_of
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.errors import check_equal

NATS = "nats"
ACCURACY = "contrastive_accuracy"
ORDERS = 4
CORRECT, TOTALS = slice(0, ORDERS), slice(ORDERS, 2 * ORDERS)
SYSTEM_LENGTH, REFERENCE_LENGTH = 2 * ORDERS, 2 * ORDERS + 1


def of_test_sets(names: Sequence[str], *files: Sequence[Path]) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Each test set with its files, one of each kind. Raises MismatchError if a kind has another number of files."""
    for paths in files:
        what = f"each test set needs one file ({', '.join(names)})"
        where, next_step = ", ".join(map(str, paths)) or None, "give the files in the order of the test sets"
        check_equal(len(names), len(paths), what, where=where, next_step=next_step)
    return zip(names, zip(*files, strict=True), strict=True)


def references_of(files: Sequence[Path], numbers: Sequence[int]) -> list[list[Path]]:
    """The files of references by test set. numbers: how many each test set has."""
    assert sum(numbers) == len(files), (numbers, files)
    remaining = iter(files)
    return [list(itertools.islice(remaining, number)) for number in numbers]


def check_comparable(test_set: str, files: Mapping[str, Scores]) -> None:
    """Check that scores on a test set have equal sentences and equal conventions. files: scores by path.

    Raises MismatchError, with file and difference, for the first file that differs from the first one.
    """
    (first_path, first), *others = files.items()
    for path, file in others:
        for what, expected, found in (
            ("number of sentences", first.sentences, file.sentences),
            ("reference", first.references, file.references),
            ("set of metrics", sorted(first.metrics), sorted(file.metrics)),
            *(
                (f"convention of {name}", metric.signature, file.metrics[name].signature)
                for name, metric in first.metrics.items()
                if name in file.metrics
            ),
        ):
            problem = f"{test_set} cannot be compared with {first_path}: the {what} differs"
            next_step = "score both systems on the same test set with the same convention"
            check_equal(expected, found, problem, where=path, next_step=next_step)


def mean_scores(
    name: str, better: Better, signature: str, rows: Iterable[tuple[float, int]], references: Sequence[str] = ()
) -> Scores:
    """A mean as scores. rows: of each sentence, a sum and the number of what it is the sum of."""
    statistics: list[list[int | float]] = [[total, number] for total, number in rows]
    value = math.fsum(total for total, _ in statistics) / sum(number for _, number in statistics)
    metric = MetricScore(score=value, metric="mean", better=better, signature=signature)
    of_texts = {"tokens": list(references)} if references else {}
    return Scores(sentences=len(statistics), references=of_texts, metrics={name: metric}, statistics={name: statistics})


def nats_scores(nats: Sequence[float], tokens: Sequence[int], references: Sequence[str] = ()) -> Scores:
    """The nats of each sentence under forced decoding, and its tokens, as scores in nats per token."""
    return mean_scores(NATS, "lower", "nats|forced decoding", zip(nats, tokens, strict=True), references)


def accuracy_scores(right: Sequence[bool]) -> Scores:
    """Decisions about contrastive pairs as scores, whose mean is the accuracy in percent."""
    return mean_scores(ACCURACY, "higher", "accuracy|forced decoding", ((100 * one, 1) for one in right))


def of_clusters(scores: Scores, clusters: NDArray[np.int64], among: NDArray[np.int64] | None = None) -> Scores:
    """The same scores with a row for each cluster of sentences or pairs, so that the bootstrap draws whole clusters.

    Sentences of one cluster are right or wrong together; drawn one by one they would count as so many proofs (Cameron,
    Gelbach and Miller 2008). clusters: the number of each sentence's cluster [sentences]. among: the clusters that have
    a row, without sentences perhaps; by default those of the sentences.
    """
    numbers = np.unique(clusters if among is None else among)
    places, statistics = np.searchsorted(numbers, clusters), {}
    for name, rows in scores.statistics.items():
        sums = np.zeros((len(numbers), len(rows[0])))
        np.add.at(sums, places, as_array(rows))
        statistics[name] = sums.tolist()
    return scores.model_copy(update={"sentences": len(numbers), "statistics": statistics})


def nats_of(analysis: AttentionAnalysis) -> Scores:
    """The negative log-probability of the references for each token, the lower the better.

    It has far more power than BLEU: no search and no choice of words stand between. Systems with other subwords have
    other tokens, and are not comparable: the lengths of the references stand for these.
    """
    lengths = analysis.sentence_tokens
    digest = hashlib.sha256(" ".join(map(str, lengths)).encode()).hexdigest()
    return nats_scores(analysis.sentence_nats, lengths, [digest])


def corpus_scores(metric: MetricScore, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of summed statistics [..., columns] in the convention of a metric; 0 to 100, but for means."""
    match metric.metric:
        case "BLEU":
            return corpus_bleu(sums, parts_of(metric.signature)["smooth"])
        case "chrF":
            return corpus_chrf(sums)
        case "TER":
            return corpus_ter(sums)
        case "mean":
            means: NDArray[np.float64] = sums[..., 0] / sums[..., 1]
            return means


def corpus_bleu(statistics: NDArray[np.float64], smoothing: str) -> NDArray[np.float64]:
    """BLEU, 0 to 100, of summed statistics [..., 10] (Papineni et al. 2002).

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


def length_ratio(runs: Iterable[Scores]) -> float:
    """Tokens of the translations for each token of the references that BLEU of tokens compares them with."""
    sums = np.sum([as_array(scores.statistics["bleu_tok"]).sum(0) for scores in runs], axis=0)
    return float(sums[SYSTEM_LENGTH] / sums[REFERENCE_LENGTH])


def as_array(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Statistics of a score file as [sentences, columns]. All sums are far below 2^53, so they are exact."""
    return np.array(rows, dtype=np.float64)


def wilson_interval(share: float, pairs: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, 0 to 1, of so many pairs (Wilson 1927).

    The share may be a mean over seeds; the interval is then that of one training, because all seeds see the same pairs.
    """
    z = 1.959963984540054  # 97.5 % of a normal distribution lie below
    middle = (share + z * z / (2 * pairs)) / (1 + z * z / pairs)
    half = z / (1 + z * z / pairs) * math.sqrt(share * (1 - share) / pairs + z * z / (4 * pairs * pairs))
    return middle - half, middle + half
