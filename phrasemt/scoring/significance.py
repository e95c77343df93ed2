"""The stage `compare_systems`: tests of the difference of a system to the baseline.

All tests read the sentence statistics of the score files. With several seeds, the score of a system is the mean over
its seeds, so one lucky training does not decide.

Paired bootstrap (Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation"): each sample draws as
many sentences as the test set has, with replacement and the same ones for both systems. It covers the choice of test
sentences. Three definitions of p are in use; d_i is the difference in sample i, d that on the whole test set:

* `two_sided`: twice the share of samples with d_i <= 0, or with d_i >= 0 if that is less; at most 1. The marks of the
  table use it. Two identical systems have p = 1.
* `koehn2004` (the papers' daggers): share of samples in which the system is not better than the baseline. One-sided.
* `sacrebleu` (`sacrebleu --paired-bs`, after MultEval): (1 + number of samples with |d_i| - mean |d_i| > |d|) /
  (1 + samples). Two identical systems have p = 1/(1 + samples), because no sample exceeds a difference of 0.

Approximate randomisation (`randomization`; Riezler and Maxwell 2005; `sacrebleu --paired-ar`): each trial swaps the
outputs of both systems for every sentence with probability 1/2; p = (1 + number of trials with a larger |difference|) /
(1 + trials). A difference of 0 is not tested: its p is 1. With several seeds, all runs of a sentence are swapped
together, which needs equally many runs on both sides.

Two levels (`over_seeds`, when a side has several seeds; Clark et al. 2011): each sample also draws the seeds of each
side with replacement. n drawn seeds vary (n-1)/n times as much as n trainings, so the deviation of their mean is
multiplied by sqrt(n/(n-1)). It covers the choice of sentences and the randomness of training, and the table then marks
by its p.

Samples and trials equal those of sacreBLEU: with one seed per system, p and intervals are the same as sacreBLEU's. Its
code is not called, because it compares single texts and not means over seeds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.scores import (
    Comparison,
    ComparisonOnTestSet,
    Estimate,
    MetricComparison,
    MetricScore,
    MetricScores,
    OverSeeds,
    PValues,
    Scores,
    SystemScores,
)
from phrasemt.artefacts.signatures import lower_is_better
from phrasemt.errors import MismatchError, check_equal
from phrasemt.scoring.external import with_metrics
from phrasemt.scoring.scores import check_comparable
from phrasemt.scoring.statistics import as_array, corpus_scores
from phrasemt.stages.scoring import CompareSystems

log = logging.getLogger("phrasemt.scoring.significance")

# Samples drawn together; the memory is this many numbers per sentence. A multiple of 32, because NumPy draws 32 signs
# of a trial at once: trials then do not depend on it.
_SAMPLES_AT_ONCE = 96
_LEVEL, _POWER = 0.05, 0.8
_ROUNDING = 1e-9  # scores of equal statistics that were added in another order


def compare_systems(
    *,
    settings: CompareSystems,
    cores: int,
    baseline: list[In[SystemScores]],
    system: list[In[SystemScores]],
    baseline_metrics: list[In[MetricScores]],
    system_metrics: list[In[MetricScores]],
    comparison: Out[Comparison],
) -> None:
    """Compare a system with the baseline, and write a `Comparison`. baseline, system: score files of all seeds.

    baseline_metrics, system_metrics: files of `score_metric` of all seeds. Raises MismatchError if test sets,
    conventions or systems of the files do not agree with each other or the settings.
    """
    baseline_files = with_metrics(_read_side(baseline, settings.baseline, settings), baseline_metrics)
    system_files = with_metrics(_read_side(system, settings.system, settings), system_metrics)
    test_sets = {}
    for test_set in _test_sets(baseline_files | system_files):
        baseline_scores, system_scores = (
            {str(path): file.test_sets[test_set] for path, file in files.items()}
            for files in (baseline_files, system_files)
        )
        check_comparable(test_set, baseline_scores | system_scores)
        test_sets[test_set] = _compare(settings, test_set, list(baseline_scores.values()), list(system_scores.values()))
    file = Comparison(
        dataset=settings.dataset,
        system=settings.system,
        baseline=settings.baseline,
        system_seeds=[file.seed for file in system_files.values()],
        baseline_seeds=[file.seed for file in baseline_files.values()],
        samples=settings.samples,
        seed=settings.seed,
        test_sets=test_sets,
    )
    file.write(comparison)


def _compare(
    settings: CompareSystems, test_set: str, baseline: Sequence[Scores], system: Sequence[Scores]
) -> ComparisonOnTestSet:
    """The comparison on one test set, given the scores of all seeds."""
    metrics = compare_scores(baseline, system, samples=settings.samples, seed=settings.seed)
    for name, metric in metrics.items():
        log.info(
            "compare_systems: %s, %s: %+.4g to %s, p = %.3f (%d samples)",
            test_set,
            name,
            metric.difference.value,
            settings.baseline,
            metric.p_values.decisive,
            settings.samples,
        )
    return ComparisonOnTestSet(sentences=system[0].sentences, metrics=metrics)


def compare_scores(
    baseline: Sequence[Scores], system: Sequence[Scores], *, samples: int, seed: int
) -> dict[str, MetricComparison]:
    """Compare two systems on one test set in every convention. baseline, system: the scores of their runs."""
    first, both = system[0], [*baseline, *system]
    statistics = {name: np.stack([as_array(scores.statistics[name]) for scores in both]) for name in first.statistics}
    sampled = bootstrap_scores(first.metrics, statistics, samples=samples, seed=seed)
    randomized = (
        randomized_differences(first.metrics, statistics, samples=samples, seed=seed)
        if len(baseline) == len(system)
        else {}
    )
    return {
        name: _metric_comparison(
            first.metrics[name].signature,
            np.array([scores.metrics[name].score for scores in both]),
            sampled[name],
            randomized.get(name),
            len(baseline),
            seed,
        )
        for name in statistics
    }


def _metric_comparison(
    signature: str,
    values: NDArray[np.float64],
    samples: NDArray[np.float64],
    randomized: NDArray[np.float64] | None,
    runs_of_baseline: int,
    seed: int,
) -> MetricComparison:
    """The comparison in one convention. values: of the runs [runs]; samples: [runs, samples]; the baseline first."""
    sides = np.split(values, [runs_of_baseline])
    sampled = np.split(samples, [runs_of_baseline])
    baseline, system = (float(side.mean()) for side in sides)
    of_baseline, of_system = (side.mean(0) for side in sampled)
    difference, differences = system - baseline, of_system - of_baseline
    better = -differences if lower_is_better(signature) else differences
    over_seeds, p_over_seeds = None, None
    if len(values) > 2:
        generator = np.random.default_rng([seed, 1])
        drawn_baseline, drawn_system = (_drawn_runs(side, generator) for side in sampled)
        p_over_seeds = two_sided(drawn_system - drawn_baseline)
        deviations = [float(side.std(ddof=1)) if len(side) > 1 else 0.0 for side in sides]
        over_seeds = OverSeeds(
            baseline=estimate(baseline, drawn_baseline),
            system=estimate(system, drawn_system),
            difference=estimate(difference, drawn_system - drawn_baseline),
            baseline_deviation=deviations[0],
            system_deviation=deviations[1],
            seeds_needed=seeds_needed(difference, *deviations) if min(map(len, sides)) > 1 else None,
            detectable=detectable(list(zip(deviations, map(len, sides), strict=True))),
        )
    return MetricComparison(
        signature=signature,
        baseline=estimate(baseline, of_baseline),
        system=estimate(system, of_system),
        difference=estimate(difference, differences),
        p_values=PValues(
            two_sided=two_sided(differences),
            koehn2004=float(np.mean(better <= 0)),
            sacrebleu=_sacrebleu_p(difference, differences),
            randomization=None if randomized is None else _randomization_p(difference, randomized),
            over_seeds=p_over_seeds,
        ),
        over_seeds=over_seeds,
    )


def two_sided(differences: NDArray[np.float64]) -> float:
    """p of a bootstrap: twice the share of samples on the other side of 0, or on 0; at most 1."""
    return min(1.0, 2 * min(float(np.mean(differences <= 0)), float(np.mean(differences >= 0))))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for testing all of them (Holm 1979): the chance of any false positive stays below the level.

    The k-th smallest of n is multiplied by n - k + 1; corrected values never fall with rank and are at most 1. SciPy
    lacks this correction, and statsmodels would be a dependency for these lines.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def seeds_needed(difference: float, *deviations: float) -> int | None:
    """Trainings of each of two systems that show a difference of their means with p < 0.05 and power 0.8.

    deviations: of the scores between trainings. Normal approximation of the two-sided t-test with the correction of
    Guenther (1981) for small numbers; at least 2. None without a difference.
    """
    if difference == 0:
        return None
    level, power = _quantiles()
    variance = sum(deviation**2 for deviation in deviations)
    return max(2, math.ceil((level + power) ** 2 * variance / difference**2 + level**2 / 4))


def detectable(sides: Sequence[tuple[float, int]]) -> float:
    """The difference that a test shows with p < 0.05 and power 0.8. sides: deviation and number of trainings of each.

    The same approximation as in `seeds_needed`; a side with one run has no deviation.
    """
    level, power = _quantiles()
    variance = sum(deviation**2 / (runs - level**2 / 4) for deviation, runs in sides if runs > 1)
    return (level + power) * math.sqrt(variance)


def _quantiles() -> tuple[float, float]:
    normal = NormalDist()
    return normal.inv_cdf(1 - _LEVEL / 2), normal.inv_cdf(_POWER)


def bootstrap_scores(
    metrics: Mapping[str, MetricScore],
    statistics: Mapping[str, NDArray[np.float64]],
    *,
    samples: int,
    seed: int | Sequence[int],
) -> dict[str, NDArray[np.float64]]:
    """Scores of bootstrap samples, [runs, samples] for each metric. The samples are those of sacreBLEU for all of them.

    statistics: [runs, sentences, columns] for each metric. A sample is represented by the number of times
    that it contains each sentence, so the sums of samples are matrix products.
    """
    sentences = next(iter(statistics.values())).shape[1]
    generator = np.random.default_rng(seed)
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in statistics}
    for size in _sizes(samples):
        drawn = generator.choice(sentences, size=(size, sentences), replace=True)
        drawn += np.arange(size)[:, None] * sentences
        times = np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences).astype(np.float64)
        for name, rows in statistics.items():
            found[name].append(corpus_scores(metrics[name], times @ rows))
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}


def randomized_differences(
    metrics: Mapping[str, MetricScore], statistics: Mapping[str, NDArray[np.float64]], *, samples: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Differences of the means of both halves of the runs after random swaps of sentences, [samples] for each metric.

    metrics, statistics: as in `bootstrap_scores`, equally many runs of both systems. The trials are those of sacreBLEU.
    """
    sentences = next(iter(statistics.values())).shape[1]
    generator = np.random.default_rng(seed)
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in statistics}
    for size in _sizes(samples):
        kept = generator.integers(2, size=(size, sentences), dtype=bool).astype(np.float64)
        for name, rows in statistics.items():
            first, second = np.split(rows, 2)
            moved = kept @ (first - second)
            halves = (second.sum(1)[:, None] + moved, first.sum(1)[:, None] - moved)
            one, other = (corpus_scores(metrics[name], half).mean(0) for half in halves)
            found[name].append(other - one)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _sizes(samples: int) -> Iterator[int]:
    for start in range(0, samples, _SAMPLES_AT_ONCE):
        yield min(_SAMPLES_AT_ONCE, samples - start)


def _drawn_runs(samples: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Means over runs that are drawn anew for each sample, [samples]. samples: [runs, samples]."""
    runs, size = samples.shape
    mean: NDArray[np.float64] = samples.mean(0)
    if runs == 1:
        return mean
    drawn = np.take_along_axis(samples, generator.integers(runs, size=(runs, size)), axis=0).mean(0)
    widened: NDArray[np.float64] = mean + math.sqrt(runs / (runs - 1)) * (drawn - mean)
    return widened


def _read_side(paths: list[Path], system: str, settings: CompareSystems) -> dict[Path, SystemScores]:
    files = {path: SystemScores.read(path) for path in paths}
    if len({file.seed for file in files.values()}) != len(paths) or not files:
        raise MismatchError(
            f"{system} needs one score file for each seed",
            where=", ".join(str(path) for path in paths) or None,
            found=f"seeds {[file.seed for file in files.values()]}",
            next_step="give the file of each seed once",
        )
    expected = f"{settings.dataset} {system}"
    for path, file in files.items():
        what, next_step = "the scores belong to another system or data set", "give the files that the settings name"
        check_equal(expected, f"{file.dataset} {file.system}", what, where=path, next_step=next_step)
    return files


def _test_sets(files: Mapping[Path, SystemScores]) -> list[str]:
    """The test sets of all files. Raises MismatchError, with the file, if a file has other test sets."""
    (first_path, first), *others = files.items()
    what, next_step = f"the test sets differ from those in {first_path}", "score both systems on the same test sets"
    for path, file in others:
        names = ", ".join(sorted(file.test_sets))
        check_equal(", ".join(sorted(first.test_sets)), names, what, where=path, next_step=next_step)
    return list(first.test_sets)


def estimate(value: float, samples: NDArray[np.float64]) -> Estimate:
    """Mean and interval as in sacreBLEU; the interval omits the lowest and the highest fortieth of the samples."""
    ordered = np.sort(samples)
    tail = len(ordered) // 40
    return Estimate(value=value, mean=float(ordered.mean()), low=float(ordered[tail]), high=float(ordered[-tail - 1]))


def _sacrebleu_p(difference: float, differences: NDArray[np.float64]) -> float:
    absolute = np.abs(differences)
    beyond = int(np.sum(absolute - absolute.mean() > abs(difference)))
    return (beyond + 1) / (len(differences) + 1)


def _randomization_p(difference: float, differences: NDArray[np.float64]) -> float:
    if difference == 0:
        return 1.0
    beyond = int(np.sum(np.abs(differences) > abs(difference) + _ROUNDING))
    return (beyond + 1) / (len(differences) + 1)
