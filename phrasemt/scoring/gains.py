"""The gain of a system over another one by the length of the source (Xu et al. 2020, Figure 3), or by the distance of
words that must agree (Figure 4), with its slope.

A paper that claims longer sentences to gain more claims a slope: how much the gain grows each time the source doubles.
Scores like BLEU exist for groups of sentences only, so the slope is that of the least-squares line through the gains of
the groups over the mean of log2 of their lengths, weighted by their sentences. Its interval and its p-value come from
the same samples of sentences and trainings as those of any score (phrasemt/scoring/significance.py), for each training
has a slope of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.scores import GainByLength, GainOfGroup, MetricScore, Scores
from phrasemt.artefacts.signatures import lower_is_better, mean_signature
from phrasemt.artefacts.translations import ContrastAccuracy
from phrasemt.errors import check_equal
from phrasemt.scoring.significance import ResampledRuns, compare_resampled, compare_scores, resample, seed_variations
from phrasemt.scoring.statistics import as_array, corpus_scores

NATS = "nats per token"

# From so many words to so many, both included; None for no limit.
Range = tuple[int, int | None]


# Distances in which differences are tested: with fewer, larger groups a test has more power.
DISTANCES: tuple[Range, ...] = ((1, 2), (3, 4), (5, 8), (9, 12), (13, None))
MORE_THAN_10: Range = (11, None)  # Xu et al. (2020), Figure 4
ALL: Range = (0, None)
_ACCURACY = "contrastive accuracy"


def ranges_of(limits: Sequence[int]) -> list[Range]:
    """Ranges of lengths that meet: up to the first limit, from there up to the second, ..., and above the last."""
    return list(zip([0, *(limit + 1 for limit in limits)], [*limits, None], strict=True))


def quarters(words: NDArray[np.int64]) -> list[Range]:
    """The ranges whose limits are the quartiles of the lengths; fewer where quartiles are equal."""
    limits = sorted({math.floor(limit) for limit in np.quantile(words, [0.25, 0.5, 0.75])})
    return ranges_of([limit for limit in limits if limit < words.max()])


def nats_per_token(nats: Sequence[float], tokens: Sequence[int]) -> Scores:
    """The metric `NATS` of references under forced decoding: negative log-probability by token, the lower the better.

    nats, tokens: of each sentence. It has far more power than BLEU: no search and no choice of words stand between.
    """
    metric = MetricScore(score=0, signature=mean_signature(NATS, "lower", "forced decoding"))
    rows: list[list[int | float]] = [[value, length] for value, length in zip(nats, tokens, strict=True)]
    return Scores(sentences=len(rows), references={}, metrics={NATS: metric}, statistics={NATS: rows})


def gain_by_length(
    baseline: Sequence[Scores],
    system: Sequence[Scores],
    words: NDArray[np.int64],
    *,
    metric: str,
    ranges: Sequence[Range],
    joint: Sequence[Range] = (),
    repeated: Sequence[Sequence[Scores]] | None = None,
    samples: int,
    seed: int,
) -> GainByLength:
    """Test the difference of two systems in each range of source lengths, and the slope of the gain.

    baseline, system: the scores of the trainings on one test set. words: of each source [sentences]. metric: its name
    in the scores. joint: further ranges to test, such as (11, None) for more than 10 words, without part in the slope.
    repeated: the scores of the systems that tell how much trainings differ; None: of both.
    """
    sides = [
        [_with_one(scores, metric) for scores in side]
        for side in (baseline, system, *((baseline, system) if repeated is None else repeated))
    ]
    found = [one for one in ranges if _rows(words, one).size]
    draws = {"samples": samples, "seed": seed}
    return GainByLength(
        signature=system[0].metrics[metric].signature,
        groups=[_group(sides, words, one, **draws) for one in found],
        joint=[_group(sides, words, one, **draws) for one in joint if _rows(words, one).size],
        **_slope(sides, words, metric, found, **draws),
    )


def _with_one(scores: Scores, metric: str) -> Scores:
    """The scores in one metric only."""
    chosen = {"metrics": {metric: scores.metrics[metric]}, "statistics": {metric: scores.statistics[metric]}}
    return scores.model_copy(update=chosen)


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
    sides: Sequence[Sequence[Scores]], words: NDArray[np.int64], one: Range, *, samples: int, seed: int
) -> GainOfGroup:
    """The comparison of the first two sides in a range; the others tell how much trainings differ there."""
    rows = _rows(words, one)
    baseline, system, *repeated = ([_of_rows(scores, rows) for scores in side] for side in sides)
    variations = seed_variations([resample(side, samples=samples, seed=seed) for side in repeated])
    (comparison,) = compare_scores(baseline, system, variations=variations, samples=samples, seed=seed).values()
    return GainOfGroup(low=one[0], high=one[1], sentences=len(rows), comparison=comparison)


def _slope(
    sides: Sequence[Sequence[Scores]],
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
    signature = sides[0][0].metrics[metric].signature
    line = (-1 if lower_is_better(signature) else 1) * weights * centred / spread
    slopes = []
    for side in sides:
        of_groups = [
            resample([_of_rows(scores, rows) for scores in side], samples=samples, seed=[seed, number])
            for number, rows in enumerate(groups)
        ]
        slopes.append(
            ResampledRuns(
                signatures={metric: signature},
                scores={metric: line @ np.stack([group.scores[metric] for group in of_groups])},
                statistics={metric: np.concatenate([group.statistics[metric] for group in of_groups], axis=1)},
                samples={metric: np.tensordot(line, np.stack([group.samples[metric] for group in of_groups]), axes=1)},
            )
        )
    found = compare_resampled(slopes[0], slopes[1], variations=seed_variations(slopes[2:]), seed=seed)[metric]
    return {"slope": (found.over_seeds or found).difference, "slope_p": found.p_values.over_seeds}


def gain_by_distance(
    baseline: Sequence[ContrastAccuracy],
    system: Sequence[ContrastAccuracy],
    *,
    kind: int | None = None,
    ranges: Sequence[Range] = DISTANCES,
    joint: Sequence[Range] = (MORE_THAN_10, ALL),
    repeated: Sequence[Sequence[ContrastAccuracy]] | None = None,
    samples: int,
    seed: int,
) -> GainByLength:
    """Test the difference of two systems in accuracy, in percent, by the distance between words that must agree.

    baseline, system: files of their trainings about one set. kind: the place of a kind of mistake; None: all kinds.
    Pairs without a distance belong to no range but `ALL`. The slope is that for twice the distance. repeated: files
    of the systems that tell how much trainings differ; None: of both. Raises MismatchError for files about other pairs.
    """
    first = baseline[0].decisions
    for file in (*baseline, *system, *(one for side in repeated or () for one in side)):
        what, next_step = "the decisions are about other pairs", "score all systems on the same pairs"
        of_file = (file.decisions.kinds, file.decisions.distances)
        where = f"{file.system}, seed {file.seed}"
        check_equal(True, of_file == (first.kinds, first.distances), what, where=where, next_step=next_step)
    chosen = [place for place, of in enumerate(first.kinds) if kind in (None, of)]
    of_baseline, of_system, *of_repeated = (
        [_of_decisions([file.decisions.right[place] for place in chosen]) for file in side]
        for side in (baseline, system, *(repeated or ()))
    )
    return gain_by_length(
        of_baseline,
        of_system,
        np.array([first.distances[place] or 0 for place in chosen], dtype=np.int64),
        metric=_ACCURACY,
        ranges=ranges,
        joint=joint,
        repeated=of_repeated if repeated else None,
        samples=samples,
        seed=seed,
    )


def _of_decisions(right: Sequence[bool]) -> Scores:
    """Decisions as scores of sentences, whose mean is the accuracy in percent."""
    metric = MetricScore(score=0, signature=mean_signature(_ACCURACY, "higher", "forced decoding"))
    rows: list[list[int | float]] = [[100 * wins, 1] for wins in right]
    return Scores(sentences=len(rows), references={}, metrics={_ACCURACY: metric}, statistics={_ACCURACY: rows})
