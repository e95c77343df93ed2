"""The gain of a system over another one by the length of the source (Xu et al. 2020, Figure 3), with its slope.

A paper that claims longer sentences to gain more claims a slope: how much the gain grows each time the source doubles.
Scores like BLEU exist for groups of sentences only, so the slope is that of the least-squares line through the gains of
the groups over the mean of log2 of their lengths, weighted by their sentences. Its interval and its p-value come from
bootstrap samples of the sentences of each group and, where a side has several trainings, of the trainings, which are
the same for all groups of a sample. A side with one training adds no variance of trainings: its slope is about this
training only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.scores import GainByLength, GainOfGroup, Scores
from phrasemt.artefacts.signatures import lower_is_better
from phrasemt.scoring.significance import bootstrap_scores, compare_scores, estimate
from phrasemt.scoring.statistics import as_array, corpus_scores

# From so many words to so many, both included; None for no limit.
Range = tuple[int, int | None]


def ranges_of(limits: Sequence[int]) -> list[Range]:
    """Ranges of lengths that meet: up to the first limit, from there up to the second, ..., and above the last."""
    return list(zip([0, *(limit + 1 for limit in limits)], [*limits, None], strict=True))


def quarters(words: NDArray[np.int64]) -> list[Range]:
    """The ranges whose limits are the quartiles of the lengths; fewer where quartiles are equal."""
    limits = sorted({math.floor(limit) for limit in np.quantile(words, [0.25, 0.5, 0.75])})
    return ranges_of([limit for limit in limits if limit < words.max()])


def gain_by_length(
    baseline: Sequence[Scores],
    system: Sequence[Scores],
    words: NDArray[np.int64],
    *,
    metric: str,
    ranges: Sequence[Range],
    joint: Sequence[Range] = (),
    samples: int,
    seed: int,
) -> GainByLength:
    """Test the difference of two systems in each range of source lengths, and the slope of the gain.

    baseline, system: the scores of the trainings on one test set. words: of each source [sentences]. metric: its name
    in the scores. joint: further ranges to test, such as (11, None) for more than 10 words, without part in the slope.
    """
    first = [scores.model_copy(update={"statistics": {metric: scores.statistics[metric]}}) for scores in baseline]
    second = [scores.model_copy(update={"statistics": {metric: scores.statistics[metric]}}) for scores in system]
    found = [one for one in ranges if _rows(words, one).size]
    return GainByLength(
        signature=system[0].metrics[metric].signature,
        groups=[_group(first, second, words, one, samples=samples, seed=seed) for one in found],
        joint=[
            _group(first, second, words, one, samples=samples, seed=seed) for one in joint if _rows(words, one).size
        ],
        **_slope(first, second, words, metric, found, samples=samples, seed=seed),
    )


def _rows(words: NDArray[np.int64], one: Range) -> NDArray[np.int64]:
    low, high = one
    return np.flatnonzero((words >= low) & (words <= (math.inf if high is None else high)))


def _of_rows(scores: Scores, rows: NDArray[np.int64]) -> Scores:
    """The scores of some sentences. The score of each metric is computed anew."""
    statistics = {name: [lines[row] for row in rows] for name, lines in scores.statistics.items()}
    metrics = {
        name: scores.metrics[name].model_copy(
            update={"score": float(corpus_scores(scores.metrics[name], as_array(lines).sum(0)))}
        )
        for name, lines in statistics.items()
    }
    return scores.model_copy(update={"sentences": len(rows), "statistics": statistics, "metrics": metrics})


def _group(
    baseline: Sequence[Scores],
    system: Sequence[Scores],
    words: NDArray[np.int64],
    one: Range,
    *,
    samples: int,
    seed: int,
) -> GainOfGroup:
    rows = _rows(words, one)
    sides = [[_of_rows(scores, rows) for scores in side] for side in (baseline, system)]
    (comparison,) = compare_scores(*sides, samples=samples, seed=seed).values()
    return GainOfGroup(low=one[0], high=one[1], sentences=len(rows), comparison=comparison)


def _slope(
    baseline: Sequence[Scores],
    system: Sequence[Scores],
    words: NDArray[np.int64],
    metric: str,
    ranges: Sequence[Range],
    *,
    samples: int,
    seed: int,
) -> dict[str, object]:
    """The slope with its interval and its p-value; nothing for fewer than two groups of different lengths."""
    groups = [_rows(words, one) for one in ranges]
    weights = np.array([len(rows) for rows in groups], dtype=np.float64)
    places = np.array([np.log2(np.maximum(words[rows], 1)).mean() for rows in groups])
    centred = places - (weights @ places / weights.sum() if groups else 0)
    if len(groups) < 2 or not (spread := weights @ centred**2):
        return {}
    score = system[0].metrics[metric]
    sign = -1 if lower_is_better(score.signature) else 1
    gains, sampled = [], []
    for number, rows in enumerate(groups):
        statistics = np.stack([as_array(one.statistics[metric])[rows] for one in (*baseline, *system)])
        drawn = bootstrap_scores({metric: score}, {metric: statistics}, samples=samples, seed=[seed, number])[metric]
        whole = [_of_rows(one, rows).metrics[metric].score for one in (*baseline, *system)]
        trainings = np.random.default_rng([seed, 1])  # begins anew, so all groups of a sample have the same trainings
        of_baseline, of_system = (over_trainings(side, trainings) for side in np.split(drawn, [len(baseline)]))
        gains.append(sign * (np.mean(whole[len(baseline) :]) - np.mean(whole[: len(baseline)])))
        sampled.append(sign * (of_system - of_baseline))
    line = weights * centred / spread
    slopes = line @ np.stack(sampled)
    return {"slope": estimate(float(line @ np.array(gains)), slopes), "slope_p": two_sided(slopes)}


def over_trainings(samples: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Means over trainings that are drawn anew for each sample, [samples]. samples: [trainings, samples].

    The mean of n drawn trainings varies (n-1)/n times as much as that of n trainings, so its deviation is widened.
    """
    trainings, size = samples.shape
    mean: NDArray[np.float64] = samples.mean(0)
    if trainings == 1:
        return mean
    drawn = np.take_along_axis(samples, generator.integers(trainings, size=(trainings, size)), axis=0).mean(0)
    widened: NDArray[np.float64] = mean + math.sqrt(trainings / (trainings - 1)) * (drawn - mean)
    return widened


def two_sided(differences: NDArray[np.float64]) -> float:
    """p of bootstrap samples, of which what was observed is one more: twice those on the other side of 0, or on 0."""
    beyond = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(differences) + 1))
