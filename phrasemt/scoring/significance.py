"""The stages `measure_variation` and `compare_systems`: tests of the difference of a system to the baseline.

All tests read the sentence statistics of the score files. With several seeds, the score of a system is the mean over
its seeds, so one lucky training does not decide.

Paired bootstrap (Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation"): each sample draws as
many sentences as the test set has, with replacement and the same ones for both systems. It covers the choice of test
sentences: `two_sided` is twice the p of samples with d_i <= 0, or with d_i >= 0 if that is less; at most 1; d_i is the
difference in sample i. `koehn2004` (the papers' daggers), beside a printed mark, is the p of samples in which the
system is not better than the baseline. p of k among B samples is (k + 1)/(B + 1), never 0: the observed outcome is one
more sample (Davison and Hinkley 1997, section 4.2.3). Nor is p below what all swaps of sentences allow: of n sentences
that differ, the most extreme of 2^n swaps and its mirror image are 2/2^n of all.

Trainings (`over_seeds`, by which tables mark; Clark et al. 2011): a training with another seed gives another score. Its
variance is pooled over all systems of the table of one kind (attention or recurrent, as their families say) that were
trained several times (`SeedVariation`), so a system with one training has one, too, and divided by the number of
trainings of each side. Kinds are not pooled: on one corpus the deviation of recurrent systems was four times that of
Transformers. The variances of the sides of one kind add up to one estimate with the degrees of freedom of its pool;
those of two kinds have the degrees of freedom of Welch and Satterthwaite.

A part of that variance is of the choice of sentences: the trainings of one system differ most on other sentences.
Resampling sentences moves both sides by this part, and it would count twice. So samples are drawn together until it is
taken out. A difference then is distributed as the mixture, over the samples, of Student's t around each sample, scaled
by the deviation of the difference. p is twice the smaller tail of this mixture at 0, and the interval has its
quantiles: nothing is drawn but sentences. Without sentences on which two systems differ more than trainings of one do,
this is the t-test of the trainings. Where no system of a kind was trained several times, no p is known: differences
then have an interval over sentences, and no mark. One training beside one is not tested.

A difference without a mark may have any size within its interval. Two systems are equal up to a margin if two one-sided
tests, each at 5 %, exclude the margin on both sides (Schuirmann 1987): if the 90 % interval lies within it. The file of
a paper states the margin of a measure, half of the gain that the paper prints.

Samples equal those of sacreBLEU: with one seed per system, intervals over sentences are the same as sacreBLEU's. Its
code is not called, because it compares single texts and not means over seeds.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit  # scipy.stats takes a second to import

from phrasemt.artefacts.scores import (
    Comparison,
    Estimate,
    MetricComparison,
    MetricScore,
    MetricScores,
    Power,
    Scores,
    SeedVariation,
    SeedVariations,
    SystemScores,
    VariationOnTestSet,
)
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.errors import MismatchError, check_equal
from phrasemt.scoring.external import with_metrics
from phrasemt.scoring.scores import as_array, check_comparable, corpus_scores, nats_of
from phrasemt.stages.scoring import CompareSystems, MeasureVariation

log = logging.getLogger("phrasemt.scoring.significance")

# Samples drawn together; the memory is this many numbers per sentence.
_SAMPLES_AT_ONCE = 96
_LEVEL, _POWER = 0.05, 0.8  # what tests of trainings can show
# Of equal systems, a direction is decided in 100 % of groups of one sentence, 28 % of three, 9 % of fourteen.
FEWEST = 30
_ROUNDING = 1e-9  # scores of equal statistics that were added in another order


@dataclass(frozen=True, kw_only=True)
class ResampledRuns:
    """The runs of a system on one test set, by convention. Samples depend on the seed and the number of sentences only.

    scores: [runs]. statistics: [runs, sentences, columns]. samples: scores of bootstrap
    samples, [runs, samples].
    """

    metrics: Mapping[str, MetricScore]
    scores: Mapping[str, NDArray[np.float64]]
    statistics: Mapping[str, NDArray[np.float64]]
    samples: Mapping[str, NDArray[np.float64]]

    def part(self, runs: slice) -> Self:
        """Some of the runs."""
        scores, statistics, samples = (
            {name: values[runs] for name, values in column.items()}
            for column in (self.scores, self.statistics, self.samples)
        )
        return replace(self, scores=scores, statistics=statistics, samples=samples)


@dataclass(frozen=True, kw_only=True)
class OverTrainings:
    """The distribution of a value over sentences and trainings: the mixture of Student's t around each sample.

    value: on the whole test set, with all trainings. centres: [samples]. scale: the deviation of the trainings.
    freedom: its degrees of freedom.
    """

    value: float
    centres: NDArray[np.float64]
    scale: float
    freedom: float

    def below(self, limit: float) -> float:
        """The probability of a value below `limit`."""
        return float(stdtr(self.freedom, (limit - self.centres) / self.scale).mean())

    def p_value(self, discordant: int) -> float:
        """Two-sided. discordant: as in `two_sided`."""
        if not self.scale:
            return two_sided(self.centres, discordant)
        below = self.below(0)
        return min(1.0, max(2 * min(below, 1 - below), 2.0 ** (1 - discordant)))

    def estimate(self) -> Estimate:
        """The value with its 95 % interval."""
        if not self.scale:
            return estimate(self.value, self.centres)
        low, high = self._quantile(_LEVEL / 2), self._quantile(1 - _LEVEL / 2)
        return Estimate(value=self.value, low=low, high=high)

    def one_sided(self) -> tuple[float, float]:
        """The 90 % interval, whose ends are excluded by one-sided tests at 5 % (Schuirmann 1987)."""
        if not self.scale:
            low, high = np.quantile(self.centres, [_LEVEL, 1 - _LEVEL])
            return float(low), float(high)
        return self._quantile(_LEVEL), self._quantile(1 - _LEVEL)

    def _quantile(self, probability: float) -> float:
        from scipy.optimize import brentq  # takes half a second to import, and most commands compute no interval

        of_t = self.scale * float(stdtrit(self.freedom, probability))
        low, high = float(self.centres.min()) + of_t, float(self.centres.max()) + of_t
        if low == high or self.below(high) <= probability:
            return high
        return low + float(brentq(lambda x: self.below(low + x) - probability, 0, high - low, xtol=1e-6 * self.scale))


Variations = Mapping[str, Mapping[str, SeedVariation]]  # by kind of system and convention


def measure_variation(
    *,
    settings: MeasureVariation,
    cores: int,
    repeated: list[Path],
    repeated_metrics: list[Path],
    repeated_forced: list[Path],
    variation: Path,
) -> None:
    """Measure how far trainings of one system differ, and write `SeedVariations`. Memory: the trainings of one system.

    repeated: the score files of all systems that were trained several times, system by system. repeated_metrics,
    repeated_forced: their files of `score_metric` and `analyse_attention`. Raises MismatchError if test sets or
    conventions of the trainings of a system do not agree; `compare_systems` compares systems.
    """
    metrics_of, forced_of = _by_system(MetricScores, repeated_metrics), _by_system(AttentionAnalysis, repeated_forced)
    firsts: dict[str, Scores] = {}  # of each test set
    sums: dict[str, SumsOfKinds] = {}
    signatures: dict[str, dict[str, str]] = {}
    read = ((path, SystemScores.read(path)) for path in repeated)
    for system, pairs in itertools.groupby(read, lambda pair: pair[1].system):
        files = with_metrics(dict(pairs), metrics_of.get(system, []))
        analyses = {path: AttentionAnalysis.read(path) for path in forced_of.get(system, [])}
        for test_set in _test_sets(files):
            for scores in _on_test_set(test_set, files, analyses):
                check_comparable(test_set, scores)
                runs = resample(list(scores.values()), samples=settings.samples, seed=settings.seed)
                add_runs(sums.setdefault(test_set, {}), settings.kinds[system], runs)
                names = {name: metric.signature for name, metric in runs.metrics.items()}
                signatures.setdefault(test_set, {}).update(names)
            firsts.setdefault(test_set, next(iter(files.values())).test_sets[test_set])
    of_test_sets = {
        test_set: VariationOnTestSet(
            sentences=first.sentences,
            references=dict(first.references),
            signatures=signatures[test_set],
            kinds=pooled(sums[test_set]),
        )
        for test_set, first in firsts.items()
    }
    SeedVariations(dataset=settings.dataset, test_sets=of_test_sets).write(variation)


def _by_system(kind: type[MetricScores] | type[AttentionAnalysis], paths: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of each system. Reads them, and keeps nothing else."""
    of_systems: dict[str, list[Path]] = {}
    for path in paths:
        of_systems.setdefault(kind.read(path).system, []).append(path)
    return of_systems


def _on_test_set(
    test_set: str, files: Mapping[Path, SystemScores], analyses: Mapping[Path, AttentionAnalysis]
) -> Iterator[dict[str, Scores]]:
    """The scores on a test set by path; then, if there are any, the nats of the references."""
    yield {str(path): file.test_sets[test_set] for path, file in files.items()}
    nats = {str(path): nats_of(analysis) for path, analysis in analyses.items() if analysis.test_set == test_set}
    if nats:
        yield nats


def _variations_on(test_set: str, variation: Mapping[Path, SeedVariations], scores: Scores) -> Variations:
    """The variation between trainings on a test set; none without a file. scores: of one training.

    Raises MismatchError if it is of other sentences or conventions.
    """
    for path, file in variation.items():
        if (found := file.test_sets.get(test_set)) is None:
            what, next_step = f"no variation between trainings on {test_set}", "delete it and run again"
            raise MismatchError(what, where=path, next_step=next_step)
        for what, expected, of_variation in (
            ("number of sentences", scores.sentences, found.sentences),
            ("reference", scores.references, found.references),
            *(
                (f"convention of {name}", metric.signature, found.signatures.get(name))
                for name, metric in scores.metrics.items()
            ),
        ):
            problem = f"the variation between trainings on {test_set} is of other scores: the {what} differs"
            check_equal(expected, of_variation, problem, where=path, next_step="delete it and run again")
        return found.kinds
    return {}


def compare_systems(
    *,
    settings: CompareSystems,
    cores: int,
    baseline: list[Path],
    system: list[Path],
    variation: list[Path],
    baseline_metrics: list[Path],
    system_metrics: list[Path],
    forced: list[Path],
    comparison: Path,
) -> None:
    """Compare a system with the baseline, and write a `Comparison`. baseline, system: score files of all seeds.

    variation: the file of `measure_variation`; none if no system was trained several times. baseline_metrics,
    system_metrics: files of `score_metric` of all seeds. forced: files of `analyse_attention` of both sides on all test
    sets, with the nats of the references; none if one side has none. Raises MismatchError if test sets or conventions
    of the files do not agree. `make_table` refuses a comparison of other systems or seeds.
    """
    baseline_files = with_metrics({path: SystemScores.read(path) for path in baseline}, baseline_metrics)
    system_files = with_metrics({path: SystemScores.read(path) for path in system}, system_metrics)
    files = baseline_files | system_files
    analyses = {path: AttentionAnalysis.read(path) for path in forced}
    sides = [
        (of_side, {path: analysis for path, analysis in analyses.items() if analysis.system == name})
        for name, of_side in ((settings.baseline, baseline_files), (settings.system, system_files))
    ]
    known = {path: SeedVariations.read(path) for path in variation}
    draws, test_sets = {"samples": settings.samples, "seed": settings.seed}, {}
    for test_set in _test_sets(files):
        scores = next(iter(files.values())).test_sets[test_set]
        variations = _variations_on(test_set, known, scores)
        metrics: dict[str, MetricComparison] = {}
        for of_baseline, of_system in zip(*(_on_test_set(test_set, *side) for side in sides), strict=False):
            check_comparable(test_set, of_baseline | of_system)
            metrics |= compare_runs(
                *(resample([*side.values()], **draws) for side in (of_baseline, of_system)),
                variations=variations,
                kinds=[settings.kinds[name] for name in (settings.baseline, settings.system)],
            )
        for name, metric in metrics.items():
            shown = metric.difference.value, settings.baseline, p_text(metric.p_value), settings.samples
            log.info("compare_systems: %s, %s: %+.4g to %s, p %s (%d samples)", test_set, name, *shown)
        test_sets[test_set] = metrics
    Comparison(
        dataset=settings.dataset, system=settings.system, baseline=settings.baseline, **draws, test_sets=test_sets
    ).write(comparison)


def compare_runs(
    baseline: ResampledRuns,
    system: ResampledRuns,
    *,
    variations: Variations | None = None,
    kinds: Sequence[str] = ("", ""),
) -> dict[str, MetricComparison]:
    """Compare two systems on one test set in every convention.

    variations: of the trainings of the table (`seed_variations`); without those of the kinds of both sides, only the
    choice of sentences is tested. kinds: of each side.
    """
    of_kinds = [(variations or {}).get(kind, {}) for kind in kinds]
    return {
        name: _metric_comparison(name, (baseline, system), [of_kind.get(name) for of_kind in of_kinds])
        for name in system.metrics
    }


def resample(runs: Sequence[Scores], *, samples: int, seed: int | Sequence[int]) -> ResampledRuns:
    """Draw bootstrap samples of the sentences of a system. runs: the scores of its runs on one test set."""
    metrics = {name: metric for name, metric in runs[0].metrics.items() if name in runs[0].statistics}
    statistics = {name: np.stack([as_array(scores.statistics[name]) for scores in runs]) for name in metrics}
    return ResampledRuns(
        metrics=metrics,
        scores={name: np.array([scores.metrics[name].score for scores in runs]) for name in metrics},
        statistics=statistics,
        samples=bootstrap_scores(metrics, statistics, samples=samples, seed=seed),
    )


def _discordant(baseline: NDArray[np.float64], system: NDArray[np.float64]) -> int:
    """The number of sentences whose statistics differ, in the mean over the runs of each side."""
    return int((np.abs(system.mean(0) - baseline.mean(0)) > _ROUNDING).any(1).sum())


def _metric_comparison(
    name: str, sides: Sequence[ResampledRuns], variations: Sequence[SeedVariation | None]
) -> MetricComparison:
    """The comparison in one convention. sides: the baseline first; variations: of the kinds of both."""
    better = sides[1].metrics[name].better
    values = [float(side.scores[name].mean()) for side in sides]
    samples = [side.samples[name].mean(0) for side in sides]
    runs = [len(side.scores[name]) for side in sides]
    discordant = _discordant(*(side.statistics[name] for side in sides))
    difference, differences = values[1] - values[0], samples[1] - samples[0]
    of_difference = estimate(difference, differences)
    not_better = differences >= 0 if better == "lower" else differences <= 0
    shares = [(variation, 1 / number) for variation, number in zip(variations, runs, strict=True) if variation]
    p_value, one_sided, power = None, None, None
    if len(shares) == len(runs):  # the variation of both sides is known
        mixture = over_trainings(difference, differences, shares)
        of_difference = mixture.estimate()
        if max(runs) > 1:
            p_value, one_sided = mixture.p_value(discordant), mixture.one_sided()
        deviations = [math.sqrt(variation.variance) for variation, _ in shares]
        power = Power(
            deviation=math.hypot(*deviations) / math.sqrt(2),
            freedom=mixture.freedom,
            seeds_needed=seeds_needed(difference, *deviations),
            detectable=detectable(mixture.scale, mixture.freedom),
        )
    # The interval of a system is the same beside every other system.
    baseline, system = (
        over_trainings(value, side, [(variation, 1 / number)]).estimate() if variation else estimate(value, side)
        for value, side, variation, number in zip(values, samples, variations, runs, strict=True)
    )
    return MetricComparison(
        better=better,
        baseline=baseline,
        system=system,
        difference=of_difference,
        p_value=p_value,
        one_sided=one_sided,
        p_of_sentences=two_sided(differences, discordant),
        koehn2004=max(_p(not_better), 2.0**-discordant),
        power=power,
    )


def seed_variations(systems: Iterable[tuple[str, ResampledRuns]]) -> dict[str, dict[str, SeedVariation]]:
    """The variation between trainings of each kind in every convention, pooled over systems: kind and runs of each.

    Systems with one run say nothing of it; a kind whose systems all have one run is missing.
    """
    sums: SumsOfKinds = {}
    for kind, side in systems:
        add_runs(sums, kind, side)
    return pooled(sums)


# Of each kind and convention, by system: squares of deviations of scores, variances over sentences, degrees of freedom.
SumsOfKinds = dict[str, dict[str, list[tuple[float, float, int]]]]


def add_runs(sums: SumsOfKinds, kind: str, side: ResampledRuns) -> None:
    """Add the runs of a system, of which nothing else stays in memory."""
    for name, runs in side.scores.items():
        if len(runs) > 1:
            of_sentences = (side.samples[name] - side.samples[name].mean(0)).var(1).sum()
            added = (float(((runs - runs.mean()) ** 2).sum()), float(of_sentences), len(runs) - 1)
            sums.setdefault(kind, {}).setdefault(name, []).append(added)


def pooled(sums: SumsOfKinds) -> dict[str, dict[str, SeedVariation]]:
    """The variation of each kind and convention."""
    variations: dict[str, dict[str, SeedVariation]] = {}
    for kind, of_kind in sums.items():
        for name, systems in of_kind.items():
            squares, of_sentences, freedom = map(sum, zip(*systems, strict=True))
            variations.setdefault(kind, {})[name] = SeedVariation(
                variance=squares / freedom, of_sentences=of_sentences / freedom, freedom=int(freedom)
            )
    return variations


def over_trainings(
    value: float, samples: NDArray[np.float64], shares: Sequence[tuple[SeedVariation, float]]
) -> OverTrainings:
    """The distribution of a value over sentences and trainings. samples: of the value over sentences.

    shares: of each side of the value that varies, how much one training varies, and the share of it: 1/n for the mean
    of n trainings.
    """
    variance = float(samples.var())
    of_sentences = max(0.0, variance - math.fsum(share * variation.of_sentences for variation, share in shares))
    drawn_together = math.sqrt(of_sentences / variance) if variance else 0.0
    of_kinds: dict[SeedVariation, float] = {}  # an estimate that both sides share has its degrees of freedom once
    for variation, share in shares:
        of_kinds[variation] = of_kinds.get(variation, 0.0) + share * variation.variance
    total = math.fsum(of_kinds.values())
    uncertain = math.fsum(part**2 / variation.freedom for variation, part in of_kinds.items())
    return OverTrainings(
        value=value,
        centres=value + drawn_together * (samples - value),
        scale=math.sqrt(total),
        freedom=total**2 / uncertain if uncertain else 1.0,  # of deviations of 0, any
    )


def _p(beyond: NDArray[np.bool_]) -> float:
    """p of samples beyond what was observed, which is one more sample (Davison and Hinkley 1997, Eq. 4.11)."""
    return (int(beyond.sum()) + 1) / (len(beyond) + 1)


def two_sided(differences: NDArray[np.float64], discordant: int) -> float:
    """p of a bootstrap: twice that of samples on the other side of 0, or on 0; at most 1.

    discordant: sentences (or other units) in which the sides differ. Of n, all swaps allow no p below 2/2^n.
    """
    return min(1.0, max(2 * min(_p(differences <= 0), _p(differences >= 0)), 2.0 ** (1 - discordant)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for testing all of them (Holm 1979): the chance of any false positive stays below the level.

    The k-th smallest of n is multiplied by n - k + 1; corrected values never fall with rank and are at most 1.
    """
    order = np.argsort(p_values, kind="stable")
    corrected = np.empty(len(order))
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * np.asarray(p_values, dtype=np.float64)[order]))
    return corrected.tolist()


_MOST_DECIMALS = 6


def mark_of(p_value: float | None) -> str:
    """The mark of a difference; none of one that is not tested."""
    if p_value is None or p_value >= 0.05:
        return ""
    return "‡" if p_value < 0.01 else "†"


def p_text(p_value: float | None) -> str:
    """A p-value as it is printed: three decimals below 0.1, never 0. None: of a difference that is not tested."""
    if p_value is None:
        return "not tested"
    return "below 0.001" if p_value < 0.001 else f"{p_value:.3f}" if p_value < 0.0995 else f"{p_value:.2f}"


def undecided(sentences: int) -> str:
    """What stands in place of a direction and of p where a test set or a group is too small; otherwise nothing."""
    return "" if sentences >= FEWEST else f"not decided ({sentences:,} sentence{'s' * (sentences != 1)})"


def decimals_of(difference: float, p_value: float | None, usual: int) -> int:
    """The decimals with which a difference is printed: more than usual where a significant one would be 0."""
    needed = usual
    while mark_of(p_value) and needed < _MOST_DECIMALS and not round(difference, needed):
        needed += 1
    return needed


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
    runs, sentences, _ = next(iter(statistics.values())).shape
    generator = np.random.default_rng(seed)
    # One product for all runs and metrics: many products with few columns take several times as long.
    columns = np.concatenate([rows.transpose(1, 0, 2).reshape(sentences, -1) for rows in statistics.values()], axis=1)
    ends = np.cumsum([runs * rows.shape[2] for rows in statistics.values()])
    scores: dict[str, list[NDArray[np.float64]]] = {name: [] for name in statistics}
    for start in range(0, samples, _SAMPLES_AT_ONCE):
        size = min(_SAMPLES_AT_ONCE, samples - start)
        drawn = generator.choice(sentences, size=(size, sentences), replace=True)
        drawn += np.arange(size)[:, None] * sentences
        times = np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences).astype(np.float64)
        for name, sums in zip(statistics, np.split(times @ columns, ends[:-1], axis=1), strict=True):
            scores[name].append(corpus_scores(metrics[name], sums.reshape(size, runs, -1)).T)
    return {name: np.concatenate(parts, axis=1) for name, parts in scores.items()}


def _test_sets(files: Mapping[Path, SystemScores]) -> list[str]:
    """The test sets of all files. Raises MismatchError, with the file, if a file has other test sets."""
    (first_path, first), *others = files.items()
    what, next_step = f"the test sets differ from those in {first_path}", "score both systems on the same test sets"
    for path, file in others:
        names = ", ".join(sorted(file.test_sets))
        check_equal(", ".join(sorted(first.test_sets)), names, what, where=path, next_step=next_step)
    return list(first.test_sets)


def estimate(value: float, samples: NDArray[np.float64]) -> Estimate:
    """The interval as in sacreBLEU; the interval omits the lowest and the highest fortieth of the samples."""
    ordered = np.sort(samples)
    tail = len(ordered) // 40
    return Estimate(value=value, low=float(ordered[tail]), high=float(ordered[-tail - 1]))


def power_among(power: Power, difference: float, *, tests: int) -> Power:
    """The power of the test that marks. tests: as for `detectable`."""
    return Power(
        deviation=power.deviation,
        freedom=power.freedom,
        seeds_needed=seeds_needed(difference, power.deviation, power.deviation, tests=tests),
        detectable=power.detectable * detectable(1, power.freedom, tests) / detectable(1, power.freedom),
    )


def seeds_needed(difference: float, *deviations: float, tests: int = 1) -> int | None:
    """Trainings of each of two systems that show a difference of their means with p < 0.05 and power 0.8.

    deviations: of the scores between trainings; the test set is taken as given. tests: as for `detectable`. Normal
    approximation of the two-sided t-test with the correction of Guenther (1981) for small numbers; at least 2. None
    without a difference.
    """
    if difference == 0:
        return None
    level, power = float(ndtri(1 - _LEVEL / (2 * tests))), float(ndtri(_POWER))
    variance = sum(deviation**2 for deviation in deviations)
    return max(2, math.ceil((level + power) ** 2 * variance / difference**2 + level**2 / 4))


def detectable(deviation: float, freedom: float, tests: int = 1) -> float:
    """The difference that a two-sided t-test shows with p < 0.05 and power 0.8.

    deviation: of the difference, estimated with so many degrees of freedom. tests: among which it is the smallest p,
    corrected as by `holm`.
    """
    return deviation * float(stdtrit(freedom, 1 - _LEVEL / (2 * tests)) + stdtrit(freedom, _POWER))
