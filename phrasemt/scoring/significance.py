"""The stage `compare_systems`: paired bootstrap tests of a system against the baseline.

Each sample draws as many sentences as the test set has, with replacement and the same ones for both systems. The corpus
BLEU of a sample is computed from the statistics in the score files. With several seeds, the score of a system is the
mean over its seeds, so one lucky training does not decide. The test covers only the sampling of test sentences; the
standard deviation over seeds shows how much a system varies between trainings.

Two definitions of p are in use:

* `koehn2004` (Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation"; the papers' daggers):
  share of samples in which the system is not better than the baseline. One-sided.
* `sacrebleu` (`sacrebleu --paired-bs`, after MultEval): (1 + number of samples with d_i - mean(d_i) > d) /
  (1 + samples), where d_i is the absolute difference in sample i and d on the whole test set. Two-sided. Two identical
  systems have p = 1/(1 + samples), because no sample exceeds a difference of 0, so read p together with the difference.

Samples equal those of sacreBLEU: with one seed per system, p and intervals are the same as sacreBLEU's. Its code is not
called, because it compares single texts and not means over seeds, and computes only the second p.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phrasemt.errors import MismatchError
from phrasemt.fields import Settings
from phrasemt.files.lines import write_text
from phrasemt.scoring.scores import (
    CORRECT,
    REFERENCE_LENGTH,
    SYSTEM_LENGTH,
    TOTALS,
    ScoreFile,
    Scores,
    check_comparable,
    read_artefact,
)
from phrasemt.stages.scoring import CompareSystems

log = logging.getLogger("phrasemt.scoring.significance")

# Samples drawn together; the memory is this many numbers per sentence.
_SAMPLES_AT_ONCE = 100


class Estimate(Settings):
    """A value on the whole test set, with its mean and 95 % interval over the bootstrap samples."""

    value: float
    mean: float
    low: float
    high: float


class PValues(Settings):
    """The p values by both definitions (see the docstring of the module)."""

    koehn2004: float
    sacrebleu: float


class MetricComparison(Settings):
    """The comparison in one convention: both systems (mean over seeds) and their difference, system minus baseline."""

    signature: str
    baseline: Estimate
    system: Estimate
    difference: Estimate
    p_values: PValues


class ComparisonOnTestSet(Settings):
    """The comparison on one test set. metrics: by convention, as in the score files."""

    sentences: int
    metrics: dict[str, MetricComparison]


class ComparisonFile(Settings):
    """The file that `compare_systems` writes. samples, seed: of the bootstrap; test_sets: by name."""

    format: Literal[2]
    dataset: str
    system: str
    baseline: str
    system_seeds: list[int]
    baseline_seeds: list[int]
    samples: int
    seed: int
    test_sets: dict[str, ComparisonOnTestSet]


def compare_systems(
    *, settings: CompareSystems, cores: int, baseline: list[Path], system: list[Path], comparison: Path
) -> None:
    """Compare a system with the baseline, and write a `ComparisonFile`. baseline, system: score files of all seeds.

    Raises MismatchError if test sets, conventions or systems of the files do not agree with each other or the settings.
    """
    baseline_files = _read_side(baseline, settings.baseline, settings)
    system_files = _read_side(system, settings.system, settings)
    test_sets = {}
    for test_set in _test_sets(baseline_files | system_files):
        baseline_scores, system_scores = (
            {str(path): file.test_sets[test_set] for path, file in files.items()}
            for files in (baseline_files, system_files)
        )
        check_comparable(test_set, baseline_scores | system_scores)
        test_sets[test_set] = _compare(settings, test_set, list(baseline_scores.values()), list(system_scores.values()))
    file = ComparisonFile(
        format=2,
        dataset=settings.dataset,
        system=settings.system,
        baseline=settings.baseline,
        system_seeds=[file.seed for file in system_files.values()],
        baseline_seeds=[file.seed for file in baseline_files.values()],
        samples=settings.samples,
        seed=settings.seed,
        test_sets=test_sets,
    )
    write_text(comparison, file.model_dump_json(indent=1) + "\n")


def _compare(
    settings: CompareSystems, test_set: str, baseline: Sequence[Scores], system: Sequence[Scores]
) -> ComparisonOnTestSet:
    """The comparison on one test set, given the scores of all seeds."""
    first, both = system[0], [*baseline, *system]
    metrics = {}
    for name in first.statistics:
        metric = first.metrics[name]
        values = np.array([scores.metrics[name].score for scores in both])
        statistics = np.array([scores.statistics[name] for scores in both], dtype=np.float64)
        samples = bootstrap_scores(statistics, metric.smoothing, samples=settings.samples, seed=settings.seed)
        baseline_value, system_value = (float(part.mean()) for part in np.split(values, [len(baseline)]))
        baseline_samples, system_samples = (part.mean(0) for part in np.split(samples, [len(baseline)]))
        difference, differences = system_value - baseline_value, system_samples - baseline_samples
        metrics[name] = MetricComparison(
            signature=metric.signature,
            baseline=estimate(baseline_value, baseline_samples),
            system=estimate(system_value, system_samples),
            difference=estimate(difference, differences),
            p_values=PValues(
                koehn2004=float(np.mean(differences <= 0)), sacrebleu=_sacrebleu_p(difference, differences)
            ),
        )
        log.info(
            "compare_systems: %s, %s: %+.2f to %s, p = %.3f (Koehn 2004, %d samples)",
            test_set,
            name,
            difference,
            settings.baseline,
            metrics[name].p_values.koehn2004,
            settings.samples,
        )
    return ComparisonOnTestSet(sentences=first.sentences, metrics=metrics)


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


def bootstrap_scores(
    statistics: NDArray[np.float64], smoothing: str, *, samples: int, seed: int
) -> NDArray[np.float64]:
    """BLEU of bootstrap samples, [files, samples]. The samples are the same for all files and equal sacreBLEU's.

    statistics: [files, sentences, COLUMNS]. A sample is represented by the number of times that it contains each
    sentence, so the sums of samples are a matrix product, which is exact because all numbers are far below 2^53.
    """
    sentences = statistics.shape[1]
    generator = np.random.default_rng(seed)
    scores = []
    for start in range(0, samples, _SAMPLES_AT_ONCE):
        size = min(_SAMPLES_AT_ONCE, samples - start)
        drawn = generator.choice(sentences, size=(size, sentences), replace=True)
        drawn += np.arange(size)[:, None] * sentences
        times = np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences)
        scores.append(corpus_bleu(times.astype(np.float64) @ statistics, smoothing))
    return np.concatenate(scores, axis=1)


def _read_side(paths: list[Path], system: str, settings: CompareSystems) -> dict[Path, ScoreFile]:
    files = {path: read_artefact(path, ScoreFile) for path in paths}
    if len({file.seed for file in files.values()}) != len(paths) or not files:
        raise MismatchError(
            f"{system} needs one score file for each seed",
            where=", ".join(str(path) for path in paths) or None,
            found=f"seeds {[file.seed for file in files.values()]}",
            next_step="give the file of each seed once",
        )
    expected = (settings.dataset, system)
    for path, file in files.items():
        found = (file.dataset, file.system)
        if found != expected:
            raise MismatchError(
                "the scores belong to another system or data set",
                where=path,
                expected=" ".join(expected),
                found=" ".join(found),
                next_step="give the score files of the systems that the settings name",
            )
    return files


def _test_sets(files: Mapping[Path, ScoreFile]) -> list[str]:
    """The test sets of all files. Raises MismatchError, with the file, if a file has other test sets."""
    (first_path, first), *others = files.items()
    for path, file in others:
        if file.test_sets.keys() != first.test_sets.keys():
            raise MismatchError(
                f"the test sets differ from those in {first_path}",
                where=path,
                expected=", ".join(first.test_sets),
                found=", ".join(file.test_sets),
                next_step="score both systems on the same test sets",
            )
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
