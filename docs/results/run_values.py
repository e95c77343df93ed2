"""Values of the published trainings as text: scores, gains, intervals, p-values, perplexities.

Runs have keys: STUDY/SYSTEM stands for all seeds of a system, STUDY/SYSTEM.SEED for one, and STUDY/DATASET/SYSTEM tells
data sets apart. Tests of differences are those of `phrasemt compare_systems`, with 10,000 samples. The deviation
between trainings is that of all systems of the study with several seeds. Marks are corrected for the systems that
docs/results/studies.yaml lists together (Holm).
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatch
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from runs import FOLDER, Run, TestSet, read_runs

from phrasemt.artefacts.scores import MetricComparison, MetricScore, SeedVariation
from phrasemt.commands._prices import Prices, rate_of
from phrasemt.files.yaml import parse_yaml
from phrasemt.scoring.gains import GainByLength, Gains, PairedTest, groups_up_to, quarters
from phrasemt.scoring.scores import ACCURACY, NATS, length_ratio
from phrasemt.scoring.significance import (
    ResampledRuns,
    compare_runs,
    holm,
    mark_of,
    p_text,
    power_among,
    resample,
    seed_variations,
)
from phrasemt.study.architectures import RecurrentModel
from phrasemt.study.reading import load_study

_METRICS = ("bleu_tok", "bleu_tok_compound_split", "bleu_detok", "chrf2", "ter")
_UNCASED = "bleu_tok_uncased"  # what Zhou et al. print: of studies with recurrent systems
# Beside the metrics: nats per token of dev with the last weights. Less is better; trainings differ, not sentences.
DEV_NATS = "dev_nats"

STUDIES: dict[str, dict[str, Any]] = parse_yaml((FOLDER / "studies.yaml").read_text())


def keys_of(study: str, systems: str) -> list[str]:
    return [f"{study}/{system}" for system in systems.split()]


# The systems that are tested together, each with its baseline: those of a study and of others that are repeated in it.
COMPARED: dict[str, dict[str, str]] = {}
for _study, _one in STUDIES.items():
    for _baseline, _systems in _one.get("compared", {}).items():
        _family = COMPARED.setdefault(_one.get("repeated_in", _study), {})
        _family.update(dict.fromkeys(keys_of(_study, _systems), _baseline))
DRAWS = {"samples": 10_000, "seed": 12345}
_RECURRENT = {
    family for model in RecurrentModel.__subclasses__() for family in get_args(model.model_fields["family"].annotation)
}


@functools.cache
def runs(key: str) -> tuple[Run, ...]:
    """The runs of a key, by seed."""
    study, *dataset, name = key.split("/")
    system, _, seed = name.partition(".")
    found = tuple(
        run
        for run in of_study(study)
        if run.system == system and seed in ("", str(run.seed)) and dataset in ([], [run.dataset])
    )
    assert len({run.dataset for run in found}) == 1, key
    return found


@functools.cache
def of_study(study: str) -> list[Run]:
    return read_runs(study)


def parts(key: str) -> list[TestSet]:
    """What the runs have on their test set; the studies have one."""
    return [part for run in runs(key) for part in run.test_sets.values()]


def family_of(system: str) -> tuple[dict[str, str], str]:
    """The systems with which a system is tested, with their baselines, and the baseline of the system.

    The key of one seed has those of this seed.
    """
    key, dot, seed = system.partition(".")
    for compared in COMPARED.values():
        if key in compared:
            return {one + dot + seed: other + dot + seed for one, other in compared.items()}, compared[key] + dot + seed
    raise KeyError(system)


@functools.cache
def comparison(system: str, baseline: str) -> dict[str, MetricComparison]:
    """The test of a difference, for each metric of the tables."""
    sides = _resampled(baseline), _resampled(system)
    variations = _variations(system.split("/")[0], runs(system)[0].dataset)
    return compare_runs(*sides, variations=variations, kinds=[kind_of(baseline), kind_of(system)])


@functools.cache
def _variations(study: str, dataset: str) -> dict[str, dict[str, SeedVariation]]:
    """How much the trainings of a study differ on the test set of a data set."""
    return seed_variations((kind_of(key), _resampled(key)) for key in _repeated(study, dataset))


def is_baseline(other: str, system: str) -> bool:
    """Whether the tables mark the difference of a system to another one."""
    return any(system in compared and compared[system] == other for compared in COMPARED.values())


def kind_of(key: str) -> str:
    """Among which systems deviations between trainings are pooled; Moses is no model of ours."""
    model = runs(key)[0].record.get("model")
    return "other" if not model else "recurrent" if model["family"] in _RECURRENT else "attention"


def _repeated(study: str, dataset: str) -> list[str]:
    """The systems that tell how much the trainings of a study differ: those with several seeds."""
    study = STUDIES[study].get("repeated_in", study)
    found = [run.system for run in of_study(study) if run.dataset == dataset and run.test_sets]
    return [f"{study}/{dataset}/{system}" for system in sorted(set(found)) if found.count(system) > 1]


@functools.cache
def _resampled(key: str) -> ResampledRuns:
    """The runs of a key, in the metrics of the tables."""
    of_runs, metrics = [], _metrics_of(key.split("/")[0])
    for scores in (part.scores for part in parts(key)):
        printed = {name: metric for name, metric in scores.metrics.items() if name in metrics}
        of_runs.append(scores.model_copy(update={"metrics": printed}))
    found = resample(of_runs, **DRAWS)
    if not runs(key)[0].evaluations:  # Moses
        return found
    if "pairs-difference" in STUDIES[key.split("/")[0]].get("columns", ""):
        found = _together(found, resample([part.accuracy for part in parts(key)], **DRAWS))
    nats = np.log([run.evaluations["dev_perplexity"][-1] for run in runs(key)])
    metric = MetricScore(score=0, metric="mean", better="lower", signature="nats per token of dev|forced decoding")
    of_dev = ResampledRuns(
        metrics={DEV_NATS: metric},
        scores={DEV_NATS: nats},
        statistics={DEV_NATS: np.broadcast_to(nats[:, None, None], (len(nats), 1000, 1))},
        samples={DEV_NATS: np.broadcast_to(nats[:, None], (len(nats), DRAWS["samples"]))},
    )
    return _together(found, of_dev)


def _together(one: ResampledRuns, other: ResampledRuns) -> ResampledRuns:
    """The same runs in the metrics of both."""
    columns = (field.name for field in fields(ResampledRuns))
    return ResampledRuns(**{name: {**getattr(one, name), **getattr(other, name)} for name in columns})


def _metrics_of(study: str) -> tuple[str, ...]:
    recurrent = any(run.record.get("model", {}).get("family") in _RECURRENT for run in of_study(study))
    return (*_METRICS, _UNCASED) if recurrent else _METRICS


def words_of(part: TestSet) -> NDArray[np.int64]:
    """The words of each source. Earlier runs have none, so those of any run with the same references."""
    return np.array(_source_words()[str(part.references)])


@functools.cache
def _source_words() -> dict[str, list[int]]:
    all_parts = (part for study in STUDIES for run in of_study(study) for part in run.test_sets.values())
    return {str(part.references): part.source_words for part in all_parts if part.source_words}


# On Multi30k, up to so many words of the source; the last group has 102 of 1,000 sentences. Elsewhere quarters.
LENGTHS = (9, 12, 16)


@functools.cache
def by_length(
    system: str, other: str = "", metric: str = "bleu_tok", limits: tuple[int, ...] | None = None
) -> GainByLength:
    """The gain of a system over another one, or its baseline, by the words of the source.

    limits: of the groups; by default `LENGTHS` on Multi30k, and quarters elsewhere. The metric `NATS` is that of the
    references of the test set under forced decoding.
    """
    study = system.split("/")[0]
    baseline = other or family_of(system)[1]
    words = words_of(parts(system)[0])
    of_captions = study.startswith("multi30k")
    gains = Gains(
        name=study,
        of_systems={
            key: [part.forced if metric == NATS else part.scores for part in parts(key)]
            for key in repeated_with(system, baseline)
        },
        words=words,
        metric=metric,
        test=paired_test(system, baseline),
    )
    groups = groups_up_to(limits or LENGTHS) if of_captions or limits else quarters(words)
    return gains.of(baseline, system, groups=groups, joint=[(13, None)] if of_captions else [])


def repeated_with(system: str, other: str) -> list[str]:
    """The systems that tell how much trainings differ, and the two that are compared."""
    return list(dict.fromkeys([*_repeated(system.split("/")[0], runs(system)[0].dataset), other, system]))


def paired_test(system: str, other: str) -> PairedTest:
    """How gains of groups of sentences or pairs are tested."""
    repeated = _repeated(system.split("/")[0], runs(system)[0].dataset)
    kinds = {key: kind_of(key) for key in (*repeated, other, system)}
    return PairedTest(samples=1000, seed=12345, repeated=repeated, kinds=kinds)


def name(key: str) -> str:
    """The name of a system, with its seed where the key has one."""
    study, *_, system = key.split("/")
    system, _, seed = system.partition(".")
    return str(STUDIES[study]["names"][system]) + (f", seed {seed}" if seed else "")


def mean(values: Sequence[float], decimals: int = 2) -> str:
    """The mean over seeds, with the sample standard deviation."""
    deviation = f" ± {statistics.stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{decimals}f}{deviation}"


def scores_of(key: str, metric: str) -> list[float]:
    return [part.scores.metrics[metric].score for part in parts(key)]


def score(key: str, metric: str = "bleu_tok") -> str:
    return mean(scores_of(key, metric))


def by_seed(key: str) -> str:
    """BLEU tok with that of each seed, and the length of the translations if it is unlike that of the reference."""
    values, ratio = scores_of(key, "bleu_tok"), length_ratio(part.scores for part in parts(key))
    return (
        mean(values)
        + (f" ({', '.join(f'{value:.2f}' for value in values)})" if len(values) > 1 else "")
        + ("" if 0.95 <= ratio <= 1.05 else f", length {ratio:.2f}")
    )


def bound(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The smallest margin up to which a system equals another one, by two one-sided tests at 5 %."""
    ends = comparison(system, other or family_of(system)[1])[metric].one_sided
    return "not tested" if ends is None else f"{max(map(abs, ends)):.2f}"


def gain(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The difference to another system, or to the baseline; marked for BLEU, nats of dev and pairs."""
    mark = ""
    if not other and metric.startswith(("bleu", DEV_NATS, ACCURACY)):
        mark = mark_of(corrected_p(system, metric))
    return unmarked_gain(system, metric, other) + mark


def unmarked_gain(system: str, metric: str, other: str = "") -> str:
    """The difference, as in the table of a run that tests nothing."""
    value = comparison(system, other or family_of(system)[1])[metric].difference.value
    return f"{value:+.{decimals_of(metric)}f}"


def decimals_of(metric: str) -> int:
    return 3 if metric == DEV_NATS else 2


@functools.cache
def _corrected(family: tuple[tuple[str, str], ...], metric: str) -> dict[str, float]:
    found = {system: comparison(system, other)[metric].p_value for system, other in family}
    tested = {system: p_value for system, p_value in found.items() if p_value is not None}
    return dict(zip(tested, holm(list(tested.values())), strict=True))


def interval(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The 95 % interval of a difference."""
    ends = comparison(system, other or family_of(system)[1])[metric].difference
    return f"{ends.low:.{decimals_of(metric)}f} to {ends.high:.{decimals_of(metric)}f}"


def interval_over_sentences(system: str, metric: str = "bleu_tok") -> str:
    """The 95 % interval of the difference of one training to one of the baseline, as their study alone shows it."""
    baseline = family_of(system)[1]
    kinds = [kind_of(baseline), kind_of(system)]
    ends = compare_runs(_resampled(baseline), _resampled(system), variations={}, kinds=kinds)[metric].difference
    return f"{ends.low:.2f} to {ends.high:.2f}"


def p(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The p-value of a difference, not corrected."""
    return p_text(comparison(system, other or family_of(system)[1])[metric].p_value)


def corrected(system: str, metric: str = "bleu_tok") -> str:
    """The p-value of the difference to the baseline, corrected for the systems that are tested together (Holm)."""
    return p_text(corrected_p(system, metric))


def corrected_p(system: str, metric: str) -> float | None:
    return _corrected(tuple(family_of(system)[0].items()), metric).get(system)


def power(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """What the test that marks would have taken: the smallest difference that it shows in 80 % of repetitions, and the
    trainings of each system that it would have taken to show the difference found.

    Differences to the baseline are tested with those of other systems: at the first step of Holm, .05 divided by their
    number.
    """
    baseline = other or family_of(system)[1]
    found = comparison(system, baseline)[metric]
    if found.power is None or found.p_value is None:
        return ""
    tests = 1 if other else len(family_of(system)[0])
    return power_among(found.power, found.difference.value, tests=tests).text


def deviation(key: str, metric: str = "bleu_tok") -> str:
    """The deviation between trainings in the study of a key, pooled over systems of its kind with several seeds."""
    of_kinds = _variations(key.split("/")[0], runs(key)[0].dataset)
    return f"{math.sqrt(of_kinds[kind_of(key)][metric].variance):.2f}"


MEASURED = {"dev_bleu": 1, "dev_perplexity": 2}


def dev(key: str, update: str) -> str:
    """Dev BLEU and dev perplexity after an update, the means over seeds; language models have no BLEU."""
    return dev_at(runs(key), int(update))


def dev_at(runs: Sequence[Run], update: int, measured: Mapping[str, int] = MEASURED) -> str:
    """Means over the runs of evaluations after an update. measured: decimals by their names."""
    columns = [run.evaluations for run in runs]
    if update not in columns[0]["update"]:
        return ""  # stopped before
    place = columns[0]["update"].index(update)
    return ", ".join(
        f"{statistics.mean(values[name][place] for values in columns):.{decimals}f}"
        for name, decimals in measured.items()
        if name in columns[0]
    )


def right(key: str, kinds: str = "*") -> str:
    """Contrastive pairs decided right, in percent. kinds: a pattern of their kinds of mistakes."""
    percent = []
    for part in parts(key):
        chosen = [kind for kind in part.contrasts if fnmatch(kind["kind"], kinds)]
        percent.append(100 * sum(kind["right"] for kind in chosen) / sum(kind["pairs"] for kind in chosen))
    return mean(percent, 1)


def chunks(key: str, *place: str) -> str:
    """An accuracy of decisions about chunks, in percent. place: of it in `ChunkAccuracy`."""
    (part,) = parts(key)
    accuracy: Any = part.chunks
    for name in place:
        accuracy = accuracy[name]
    return f"{100 * accuracy:.1f}"


def more_parameters(system: str, other: str) -> str:
    """How many more parameters a system has than another one, in percent."""
    return f"{100 * (runs(system)[0].record['parameters'] / runs(other)[0].record['parameters'] - 1):.0f}"


def even_mass(key: str) -> str:
    """The share of attention on n-grams, in percent, if all tokens and n-grams had the same weight."""
    return f"{100 * statistics.mean(sum(one['even'][1:]) for one in parts(key)[0].attention['attentions']):.1f}"


def mixture(part: TestSet) -> NDArray[np.float64]:
    """The weights of encoder levels in each decoder layer [levels, layers]."""
    return np.array(part.attention["mixtures"]["phrases"])


def distance_of_levels(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The total variation distance of the decoder layers' weights of encoder levels to their mean.

    weights: [..., levels, layers].
    """
    distances: NDArray[np.float64] = np.abs(weights - weights.mean(-1, keepdims=True)).sum(-2).mean(-1) / 2
    return distances


def initial_levels(key: str) -> float:
    """The median of such distances of initial weights, which are drawn as `TransparentAttention` draws them."""
    levels, layers = mixture(parts(key)[0]).shape
    bound = levels**-0.5
    drawn_XIJ = np.exp(np.random.default_rng(1).uniform(-bound, bound, (10_000, levels, layers)))
    return round(float(np.median(distance_of_levels(drawn_XIJ / drawn_XIJ.sum(1, keepdims=True)))), 2)


def length(key: str) -> str:
    return f"{length_ratio(part.scores for part in parts(key)):.2f}"


def perplexity(key: str) -> str:
    """The perplexity of a language model per word on the test set; the end of a sentence counts as a word."""
    return f"{perplexity_of(key):.2f}"


def to_transformer(key: str) -> str:
    """The change of the perplexity per word to that of the Transformer."""
    plain = "/".join([key.split("/")[0], "plain"])
    return "" if key == plain else f"{100 * (perplexity_of(key) / perplexity_of(plain) - 1):+.1f} %"


def perplexity_of(key: str, unit: str = "words") -> float:
    (part,) = parts(key)
    ends = part.perplexity["sentences"] if unit == "words" else 0  # the tokens hold them
    return math.exp(part.perplexity["nll"] / (part.perplexity[unit] + ends))


def gpu_hours(*studies: str) -> str:
    """What `phrasemt plan --gpu-model a100` estimates for all trainings and translations of studies of papers."""
    return ", ".join(f"{sum(one * number for one, number in _hours(study)):,.0f}" for study in studies)


def longest(study: str) -> str:
    """The days that the longest training of a study takes on one A100."""
    return f"{max(one for one, _ in _hours(study)) / 24:.1f}"


@functools.cache
def _hours(study: str) -> list[tuple[float, int]]:
    """The hours of a training of each system, and their number."""
    of = load_study(FOLDER.parents[1] / "studies" / f"{study}.yaml")
    prices = Prices(of, rate_of("a100"))
    return [(prices.hours_of_training(system), len(of.seeds_of(system))) for system in of.models]
