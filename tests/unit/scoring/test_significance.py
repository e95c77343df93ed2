"""Witnesses: sacreBLEU's own paired tests on the same sentences, bootstraps as loops, hand work."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest, Result
from scipy.integrate import quad
from scipy.stats import ttest_ind

from phrasemt.artefacts.scores import Comparison, MetricComparison, MetricScore, MetricScores, SystemScores
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.errors import MismatchError
from phrasemt.files.lines import write_lines
from phrasemt.scoring.bleu import score_system
from phrasemt.scoring.scores import corpus_bleu, mean_scores
from phrasemt.scoring.significance import (
    ResampledRuns,
    SeedVariation,
    compare_runs,
    compare_systems,
    holm,
    measure_variation,
    over_trainings,
    p_text,
    resample,
    seed_variations,
)
from phrasemt.stages.scoring import CompareSystems, MeasureVariation, ScoreSystem
from phrasemt.study.tokenization import Tokenizer

SYSTEMS = "base", "new", "other"
WORDS = ["der", "die", "das", "Hund", "Katze", "Haus", "sieht", "kauft", "und", "rote", "alte", ",", "."]


def invent(sentences: int, *, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 15))) for _ in range(sentences)]


def worsen(lines: list[str], *, share: float, seed: int) -> list[str]:
    """A "translation": the reference with a share of its words replaced."""
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) if draw.random() < share else word for word in line.split()) for line in lines]


def score(
    folder: Path, hypotheses: list[str], references: list[str], *, system: str, seed: int, **changes: object
) -> Path:
    folder = folder / f"{system}-{seed}"
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        write_lines(folder / name, lines)
    settings = {
        "dataset": "toy",
        "test_sets": ["test"],
        "references": [1],
        "target_tokenizer": Tokenizer.for_language("en"),
        **changes,
    }
    score_system(
        settings=ScoreSystem.model_validate({**settings, "system": system, "seed": seed}),
        cores=1,
        tokens=[folder / "hypotheses"],
        text=[folder / "hypotheses"],
        reference_tokens=[folder / "references"],
        reference=[folder / "references"],
        scores=folder / "scores.json",
    )
    return folder / "scores.json"


def compare(
    folder: Path, baseline: list[Path], system: list[Path], *, samples: int = 200, seed: int = 12345, **more: Any
) -> dict[str, MetricComparison]:
    return compared(folder, baseline, system, samples=samples, seed=seed, **more).test_sets["test"]


def compared(
    folder: Path, baseline: list[Path], system: list[Path], *, samples: int, seed: int, **more: list[Path]
) -> Comparison:
    """Sides of several runs are systems with several seeds. more: `repeated`, `baseline_metrics`, `system_metrics`."""
    draws = {"dataset": "toy", "kinds": dict.fromkeys(SYSTEMS, "attention"), "samples": samples, "seed": seed}
    repeated = more.pop("repeated", [path for side in (baseline, system) if len(side) > 1 for path in side])
    metrics = {side: more.get(side, []) for side in ("baseline_metrics", "system_metrics")}
    if repeated:
        measure_variation(
            settings=MeasureVariation.model_validate(draws),
            cores=1,
            repeated=repeated,
            repeated_metrics=[path for side in metrics.values() if len(side) > 1 for path in side],
            repeated_forced=more.get("forced", []),
            variation=folder / "variation.json",
        )
    compare_systems(
        settings=CompareSystems.model_validate({**draws, "system": "new", "baseline": "base"}),
        cores=1,
        baseline=baseline,
        system=system,
        variation=[folder / "variation.json"] if repeated else [],
        **metrics,
        forced=more.get("forced", []),
        comparison=folder / "comparison.json",
    )
    return Comparison.read(folder / "comparison.json")


def paired_test(
    metric: BLEU | CHRF | TER, baseline: list[str], system: list[str], references: list[str]
) -> list[Result]:
    """sacreBLEU's results of the bootstrap for both systems."""
    named = [("base", baseline), ("new", system)]
    _, results = PairedTest(named, {"metric": metric}, [references], test_type="bs", n_samples=230)()
    (found,) = (result for name, result in results.items() if name != "System")
    return found


@pytest.mark.parametrize(("baseline_share", "system_share"), [(0.30, 0.30), (0.30, 0.27), (0.30, 0.1), (0.2, 0.5)])
def test_one_seed_equals_sacrebleu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline_share: float, system_share: float
) -> None:
    references = invent(80, seed=1)
    baseline = worsen(references, share=baseline_share, seed=2)
    system = worsen(references, share=system_share, seed=3)
    ours = compare(
        tmp_path,
        [score(tmp_path, baseline, references, system="base", seed=1)],
        [score(tmp_path, system, references, system="new", seed=1)],
        samples=230,  # more than are drawn at once, and no multiple of it
        seed=77,
    )
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    theirs = {
        "bleu_tok": BLEU(tokenize="none", smooth_method="none", force=True),
        "bleu_detok": BLEU(),
        "chrf2pp": CHRF(word_order=2),
        "ter": TER(),
    }
    for name, metric in theirs.items():
        found = ours[name]
        base, new = paired_test(metric, baseline, system, references)
        assert (found.baseline.value, found.system.value) == (base.score, new.score)
        # sacreBLEU sums in single precision (six digits) and we in double, so the scores of samples agree to 1e-4.
        for estimate, result in ((found.baseline, base), (found.system, new)):
            assert (estimate.high - estimate.low) / 2 == pytest.approx(result.ci, abs=1e-4)


def test_equals_a_plain_loop_over_seeds(tmp_path: Path) -> None:
    """Koehn's p from its definition, with the mean over two and three seeds."""
    references = invent(40, seed=4)
    sides = {
        "base": [worsen(references, share=0.3, seed=seed) for seed in (5, 6)],
        "new": [worsen(references, share=0.25, seed=seed) for seed in (7, 8, 9)],
    }
    metric = BLEU(tokenize="none", smooth_method="none", force=True)

    def mean_bleu(system: str, rows: list[int]) -> float:
        of_rows = [references[row] for row in rows]
        scores = [metric.corpus_score([lines[row] for row in rows], [of_rows]).score for lines in sides[system]]
        return sum(scores) / len(scores)

    generator = np.random.default_rng(11)
    differences = []
    for _ in range(60):
        rows = list(generator.choice(40, size=40, replace=True))
        differences.append(mean_bleu("new", rows) - mean_bleu("base", rows))

    paths = {
        system: [score(tmp_path, lines, references, system=system, seed=seed) for seed, lines in enumerate(runs)]
        for system, runs in sides.items()
    }
    parts = [[SystemScores.read(path).test_sets["test"] for path in paths[name]] for name in ("base", "new")]
    found = compare_runs(*(resample(part, samples=60, seed=11) for part in parts))["bleu_tok"]
    difference = found.difference
    assert found.koehn2004 == (sum(d <= 0 for d in differences) + 1) / 61
    everything = list(range(40))
    assert difference.value == pytest.approx(mean_bleu("new", everything) - mean_bleu("base", everything), abs=1e-9)
    assert (difference.low, difference.high) == pytest.approx(
        (sorted(differences)[1], sorted(differences)[-2]), abs=1e-9
    )


def test_identical_systems_are_not_significant(tmp_path: Path) -> None:
    references = invent(30, seed=1)
    lines = worsen(references, share=0.3, seed=2)
    found = compare(
        tmp_path,
        [score(tmp_path, lines, references, system="base", seed=seed) for seed in (1, 2)],
        [score(tmp_path, lines, references, system="new", seed=seed) for seed in (1, 2)],
    )["bleu_tok"]
    assert found.koehn2004 == found.p_of_sentences == found.p_value == 1.0
    assert found.power.seeds_needed is None
    assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)


def metric_file(folder: Path, scores: list[float], *, system: str, seed: int, better: str = "higher") -> Path:
    """Scores of a metric of the user."""
    signature = f"words|mean:{better}|count --case:lc|smooth:no"
    part = mean_scores("metric_words", better, signature, [(one, 1) for one in scores])
    path = folder / f"{system}-{seed}" / "metric.json"
    MetricScores(metric="words", dataset="toy", system=system, seed=seed, test_sets={"test": part}).write(path)
    return path


def with_metrics(folder: Path, base: list[list[float]], new: list[list[float]], **choices: Any) -> MetricComparison:
    """The comparison in a metric of the user, whose scores are given for each run."""
    references = invent(len(base[0]), seed=1)
    scores = {
        system: [score(folder, references, references, system=system, seed=seed) for seed in range(len(runs))]
        for system, runs in (("base", base), ("new", new))
    }
    metrics = {
        name: [metric_file(folder, run, system=system, seed=seed, **choices) for seed, run in enumerate(runs)]
        for name, system, runs in (("baseline_metrics", "base", base), ("system_metrics", "new", new))
    }
    found = compare(folder, scores["base"], scores["new"], samples=230, seed=5, **metrics)
    return found["metric_words"]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_means_of_a_metric_of_the_user_equal_plain_loops(tmp_path: Path, better: str) -> None:
    """Samples are those of sacreBLEU for all metrics: sentences from one generator, swaps from another of its seed."""
    draw = np.random.default_rng(1)
    base, new = draw.normal(0.50, 0.2, 40), draw.normal(0.56, 0.2, 40)
    found = with_metrics(tmp_path, [base.tolist()], [new.tolist()], better=better)
    sentences = np.random.default_rng(5)
    differences = []
    for _ in range(230):
        chosen = sentences.choice(40, size=40)
        differences.append(sum(new[i] - base[i] for i in chosen) / 40)
    assert found.difference.value == pytest.approx(new.mean() - base.mean())
    assert found.difference.low == pytest.approx(sorted(differences)[5])  # a fortieth of 230 on each side
    not_better = [d <= 0 if better == "higher" else d >= 0 for d in differences]
    assert found.koehn2004 == (sum(not_better) + 1) / 231
    below = sum(d <= 0 for d in differences)
    assert found.p_of_sentences == min(1, 2 * (min(below, 230 - below) + 1) / 231)


def _forced(folder: Path, nats: np.ndarray, tokens: list[int], *, system: str, seed: int) -> Path:
    path = folder / f"{system}-{seed}" / "analysis.json"
    AttentionAnalysis(
        dataset="toy",
        test_set="test",
        system=system,
        seed=seed,
        sentences=len(tokens),
        tokens=sum(tokens),
        perplexity=1.0,
        diagnostics={},
        attentions=[],
        sentence_nats=nats.tolist(),
        sentence_tokens=tokens,
    ).write(path)
    return path


def test_nats_of_references_are_compared_where_they_are_about_the_same_tokens(tmp_path: Path) -> None:
    references, draw, tokens = invent(20, seed=1), np.random.default_rng(3), [5, 9] * 10
    scores, forced, nats = {}, {}, {"base": [], "new": []}
    for system, mean in (("base", 2.0), ("new", 1.8)):
        nats[system] = [draw.normal(mean, 0.1, 20) * tokens for _ in range(2)]
        scores[system] = [score(tmp_path, references, references, system=system, seed=seed) for seed in (0, 1)]
        forced[system] = [
            _forced(tmp_path, one, tokens, system=system, seed=seed) for seed, one in enumerate(nats[system])
        ]
    both = forced["base"] + forced["new"]
    found = compare(tmp_path, scores["base"], scores["new"], forced=both)["nats"]
    means = {system: sum(map(sum, runs)) / 2 / sum(tokens) for system, runs in nats.items()}
    assert (found.baseline.value, found.system.value) == pytest.approx((means["base"], means["new"]))
    assert (found.better, found.power.freedom) == ("lower", 2)
    assert found.difference.high < 0
    assert found.p_value < 0.05
    _forced(tmp_path, nats["new"][1], tokens[::-1], system="new", seed=1)  # other subwords
    with pytest.raises(MismatchError, match="the reference differs"):
        compare(tmp_path, scores["base"], scores["new"], forced=both)


def test_a_metric_that_one_side_lacks_is_refused(tmp_path: Path) -> None:
    references = invent(5, seed=1)
    paths = [score(tmp_path, references, references, system=system, seed=1) for system in ("base", "new")]
    metric = metric_file(tmp_path, [0.5] * 5, system="new", seed=1)
    with pytest.raises(MismatchError, match="the set of metrics differs"):
        compare(tmp_path, paths[:1], paths[1:], system_metrics=[metric])
    with pytest.raises(MismatchError, match="metric words belong to other translations"):
        compare(tmp_path, paths[:1], paths[1:], baseline_metrics=[metric])
    metric_file(tmp_path, [0.5] * 4, system="new", seed=1)
    with pytest.raises(MismatchError, match="metric words belong to other translations"):
        compare(tmp_path, paths[:1], paths[1:], system_metrics=[metric])


def test_swapping_the_sides_turns_the_sign(tmp_path: Path) -> None:
    references = invent(30, seed=1)
    texts = [worsen(references, share=share, seed=2) for share in (0.4, 0.2)]
    there, back = (
        compare(
            tmp_path,
            [score(tmp_path, first, references, system="base", seed=1)],
            [score(tmp_path, second, references, system="new", seed=1)],
        )["bleu_detok"]
        for first, second in (texts, texts[::-1])
    )
    assert there.difference.value == -back.difference.value
    assert (there.difference.low, there.difference.high) == (-back.difference.high, -back.difference.low)
    assert there.koehn2004 + back.koehn2004 == pytest.approx(202 / 201)  # no sample is a tie here
    assert there.koehn2004 < 0.05
    assert there.p_of_sentences == back.p_of_sentences == 2 * there.koehn2004


def _over_seeds(folder: Path, *, runs: int = 3, sentences: int = 30) -> tuple[Comparison, dict[str, list[Path]]]:
    references = invent(sentences, seed=4)
    shares = {"base": 0.30, "new": 0.2}
    paths = {
        system: [
            score(folder, worsen(references, share=share + seed / 50, seed=seed), references, system=system, seed=seed)
            for seed in range(runs)
        ]
        for system, share in shares.items()
    }
    return compared(folder, paths["base"], paths["new"], samples=400, seed=3), paths


def test_samples_over_sentences_and_trainings_equal_plain_loops(tmp_path: Path) -> None:
    """The pooled variance by hand; what resampling sentences moves between the runs of a system counts once."""
    file, paths = _over_seeds(tmp_path)
    found = file.test_sets["test"]["bleu_tok"]
    parts = {name: [SystemScores.read(path).test_sets["test"] for path in of_one] for name, of_one in paths.items()}
    rows = {name: [np.array(run.statistics["bleu_tok"]) for run in runs] for name, runs in parts.items()}
    sentences = np.random.default_rng(3)
    drawn = [sentences.choice(30, size=30) for _ in range(400)]
    scores = {
        name: [[float(corpus_bleu(run[chosen].sum(0), "none")) for chosen in drawn] for run in runs]
        for name, runs in rows.items()
    }
    squares = of_sentences = 0.0
    for name, runs in scores.items():
        values = [run.metrics["bleu_tok"].score for run in parts[name]]
        squares += sum((value - sum(values) / 3) ** 2 for value in values)
        means = [sum(one) / 3 for one in zip(*runs, strict=True)]
        for run in runs:
            away = [score - mean for score, mean in zip(run, means, strict=True)]
            of_sentences += sum((one - sum(away) / 400) ** 2 for one in away) / 400
    plain = [
        sum(new[sample] for new in scores["new"]) / 3 - sum(base[sample] for base in scores["base"]) / 3
        for sample in range(400)
    ]
    variance = float(np.var(plain))
    kept = max(0, 1 - of_sentences / 4 * (2 / 3) / variance) ** 0.5
    observed, scale = found.difference.value, (squares / 4 * 2 / 3) ** 0.5
    centres = [observed + kept * (one - observed) for one in plain]

    def below(limit: float) -> float:
        """By numerical integration of the density of t with four degrees of freedom: 3/8 (1 + x^2/4)^(-5/2)."""
        parts = (quad(lambda x: 0.375 * (1 + x * x / 4) ** -2.5, -np.inf, (limit - one) / scale)[0] for one in centres)
        return sum(parts) / 400

    assert (found.power.deviation, found.power.freedom) == (pytest.approx((squares / 4) ** 0.5), 4)
    difference = found.difference
    assert found.p_value == pytest.approx(2 * min(below(0), 1 - below(0)), abs=1e-6)
    assert (below(difference.low), below(difference.high)) == pytest.approx((0.025, 0.975), abs=1e-6)


def _invented_runs(
    draw: np.random.Generator, runs: int, *, of_system: float, of_training: float, tables: int
) -> ResampledRuns:
    """Runs of a system on 40 sentences, in as many tables as there are conventions; its expected score is always 0.

    Deviations of the score of a sentence: of_system between systems, 1 between trainings. of_training: that of a
    training on all sentences alike.
    """
    scores = draw.normal(0, of_system, (tables, 1, 40)) + draw.normal(0, 1, (tables, runs, 40))
    scores += draw.normal(0, of_training, (tables, runs, 1))
    times = np.random.default_rng(1).multinomial(40, [1 / 40] * 40, size=250)  # the same sentences for all systems
    names = [str(table) for table in range(tables)]
    return ResampledRuns(
        metrics=dict.fromkeys(names, MetricScore(score=0, metric="mean", better="higher", signature="")),
        scores=dict(zip(names, scores.mean(2), strict=True)),
        statistics=dict(zip(names, scores[..., None], strict=True)),
        samples=dict(zip(names, scores @ times.T / 40, strict=True)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("of_system", [0.0, 0.7])
@pytest.mark.parametrize("mixed", [False, True], ids=["one kind", "two kinds"])
@pytest.mark.parametrize(("baseline", "system"), [(3, 3), (3, 1), (2, 2)])
def test_of_equal_systems_five_in_a_hundred_are_marked(
    baseline: int, system: int, mixed: bool, of_system: float
) -> None:
    """Tables of a baseline, a system, and two more of each kind with the trainings of the baseline, all equally good.

    Trainings of the second kind vary four times as much, as those of recurrent systems in demo-claims. 4,000 tables:
    three standard errors of 5 % are 1 %.
    """
    draw, marked, covered = np.random.default_rng(7), 0, 0
    deviations = {"attention": 0.2, "recurrent": 0.8}
    kinds = "attention", "recurrent" if mixed else "attention"
    for _ in range(16):
        others = [(kind, baseline) for kind in kinds for _ in range(2)]
        sides = [
            (kind, _invented_runs(draw, runs, of_system=of_system, of_training=deviations[kind], tables=250))
            for kind, runs in [*zip(kinds, (baseline, system), strict=True), *others]
        ]
        (_, base), (_, new) = sides[:2]
        for metric in compare_runs(base, new, variations=seed_variations(sides), kinds=kinds).values():
            marked += metric.p_value is not None and metric.p_value < 0.05
            covered += metric.power is not None and metric.difference.low <= 0 <= metric.difference.high
    print(f"{baseline} + {system}, {kinds}, {of_system}: {marked / 40:.1f} % marked, {covered / 40:.1f} % covered")
    assert 0.04 <= marked / 4000 <= 0.06
    assert 0.94 <= covered / 4000 <= 0.96


def test_one_training_beside_one_is_not_tested() -> None:
    draw = np.random.default_rng(7)
    base, new, other = (_invented_runs(draw, runs, of_system=0, of_training=0.1, tables=1) for runs in (1, 1, 3))
    variations = seed_variations(("attention", side) for side in (base, new, other))
    (found,) = compare_runs(base, new, variations=variations, kinds=("attention", "attention")).values()
    assert found.p_value is None
    assert found.power is not None
    (found,) = compare_runs(base, new, variations=variations, kinds=("attention", "recurrent")).values()
    assert found.power is None, "nobody knows how far trainings of the other kind differ"


def test_the_interval_of_a_system_is_the_same_beside_every_other_system() -> None:
    """Also beside one of a kind whose trainings nobody knows to differ: the baseline keeps its own deviation."""
    draw = np.random.default_rng(7)
    base, new = (_invented_runs(draw, runs, of_system=0, of_training=0.5, tables=1) for runs in (3, 1))
    variations = seed_variations([("attention", base)])
    (like,), (unlike,) = (
        compare_runs(base, new, variations=variations, kinds=("attention", kind)).values()
        for kind in ("attention", "recurrent")
    )
    assert unlike.baseline == like.baseline
    assert unlike.system.high - unlike.system.low < like.system.high - like.system.low
    assert unlike.p_value is None


def test_two_kinds_have_the_degrees_of_freedom_of_welch() -> None:
    """Witness: SciPy's t-test of two means with unequal variances."""
    draw = np.random.default_rng(5)
    base, new = draw.normal(30, 0.3, size=4), draw.normal(31, 1.2, size=3)
    shares = [
        (SeedVariation(variance=float(runs.var(ddof=1)), of_sentences=0.0, freedom=len(runs) - 1), 1 / len(runs))
        for runs in (base, new)
    ]
    value = float(new.mean() - base.mean())
    found = over_trainings(value, np.full(400, value), shares)
    theirs = ttest_ind(new, base, equal_var=False)
    assert found.freedom == pytest.approx(theirs.df)
    assert found.p_value(100) == pytest.approx(theirs.pvalue)
    shown, interval = found.estimate(), theirs.confidence_interval()
    assert (shown.low, shown.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(("apart", "margin", "equal"), [(0.1, 0.65, True), (0.1, 0.3, False), (0.6, 0.65, False)])
def test_equal_up_to_a_margin_are_two_one_sided_t_tests(apart: float, margin: float, equal: bool) -> None:
    """Witness: SciPy's one-sided t-tests against the margin on either side, of trainings that differ in their mean."""
    base = np.array([30.1, 29.8, 30.2, 29.9])
    new = base + apart
    pooled = SeedVariation(variance=float(base.var(ddof=1)), of_sentences=0.0, freedom=6)
    found = over_trainings(apart, np.full(400, apart), [(pooled, 1 / 4), (pooled, 1 / 4)]).one_sided()
    p_values = (
        ttest_ind(new + margin, base, alternative="greater").pvalue,
        ttest_ind(new - margin, base, alternative="less").pvalue,
    )
    assert bool(max(p_values) < 0.05) == (max(map(abs, found)) < margin) == equal
    interval = ttest_ind(new, base).confidence_interval(0.90)
    assert found == pytest.approx((interval.low, interval.high))


def test_one_sided_ends_are_quantiles_of_the_mixture() -> None:
    """Witness: numerical integration of the density of t, over sentences and trainings."""
    centres = np.random.default_rng(2).normal(0.2, 0.5, 50)
    shares = [(SeedVariation(variance=0.09, of_sentences=0.0, freedom=4), 2 / 3)]
    found = over_trainings(float(centres.mean()), centres, shares)
    for end, probability in zip(found.one_sided(), (0.05, 0.95), strict=True):
        limits = (end - found.centres) / found.scale
        below = [quad(lambda x: 0.375 * (1 + x * x / 4) ** -2.5, -np.inf, limit)[0] for limit in limits]
        assert np.mean(below) == pytest.approx(probability, abs=1e-6)


def test_a_single_run_borrows_the_deviation_of_others(tmp_path: Path) -> None:
    _, paths = _over_seeds(tmp_path)
    sides = [paths["base"][:1], paths["new"][:1]]
    alone = compare(tmp_path, *sides)["bleu_tok"]
    assert alone.p_value is None
    assert alone.power is None, "nobody knows how far trainings differ"
    references = invent(30, seed=4)
    texts = [worsen(references, share=0.3, seed=seed) for seed in (7, 8, 9)]
    others = [score(tmp_path, text, references, system="other", seed=seed) for seed, text in enumerate(texts)]
    beside = compare(tmp_path, *sides, repeated=others)["bleu_tok"]
    assert beside.p_of_sentences == alone.p_of_sentences
    values = [SystemScores.read(path).test_sets["test"].metrics["bleu_tok"].score for path in others]
    assert beside.power.deviation == pytest.approx(np.std(values, ddof=1))
    assert beside.power.freedom == 2
    mixed = compare(tmp_path, paths["base"], paths["new"][:1])["bleu_tok"]
    assert mixed.power.detectable < beside.power.detectable


@pytest.mark.parametrize(("sentences", "lowest"), [(1, 1.0), (2, 0.5), (3, 0.25), (5, 0.0625)])
def test_few_sentences_allow_no_p_below_that_of_all_swaps(tmp_path: Path, sentences: int, lowest: float) -> None:
    """Each sentence is better: of 2^n swaps two are as extreme. Sentences that both translate alike add nothing."""
    base, new = [[0.1] * sentences + [0.5] * 4], [[0.9] * sentences + [0.5] * 4]
    found = with_metrics(tmp_path, base, new)
    assert (found.p_of_sentences, found.koehn2004) == pytest.approx((lowest, lowest / 2), rel=0.3)
    assert found.p_of_sentences >= lowest


def test_no_p_is_0_or_printed_as_0(tmp_path: Path) -> None:
    found = with_metrics(tmp_path, [[0.1] * 30], [[0.9] * 30])
    assert (found.p_of_sentences, found.koehn2004) == (2 / 231, 1 / 231)
    assert holm([found.p_of_sentences] * 8) == [pytest.approx(16 / 231)] * 8
    assert [p_text(p) for p in (2 / 1001, 0.0004, 0.0999, 0.5)] == ["0.002", "below 0.001", "0.10", "0.50"]


@pytest.fixture
def texts() -> tuple[list[str], list[str]]:
    references = invent(10, seed=1)
    return worsen(references, share=0.2, seed=2), references


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_sets": ["dev"]}, "the test sets differ from those in "),
        ({"target_tokenizer": Tokenizer.for_language("en", "space")}, "the convention of bleu_tok differs"),
    ],
)
def test_refuses_scores_that_do_not_belong_together(
    tmp_path: Path, texts: tuple[list[str], list[str]], changes: dict[str, str], message: str
) -> None:
    base = score(tmp_path, *texts, system="base", seed=1)
    new = score(tmp_path, *texts, **{"system": "new", "seed": 1, **changes})
    with pytest.raises(MismatchError) as error:
        compare(tmp_path, [base], [new])
    assert str(error.value).startswith(f"{new}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "comparison.json").exists()


def test_refuses_other_sentence_counts(tmp_path: Path, texts: tuple[list[str], list[str]]) -> None:
    base = score(tmp_path, *texts, system="base", seed=1)
    new = score(tmp_path, *(side[:-1] for side in texts), system="new", seed=1)
    with pytest.raises(MismatchError, match=r"the number of sentences differs \(expected 10, found 9\)"):
        compare(tmp_path, [base], [new])


def test_a_variation_of_other_scores_is_refused(tmp_path: Path) -> None:
    references = invent(20, seed=1)
    sides = [
        [
            score(tmp_path, worsen(references, share=0.3, seed=seed), references, system=name, seed=seed)
            for seed in (1, 2)
        ]
        for name in ("base", "new")
    ]
    compare(tmp_path, *sides)
    path = tmp_path / "variation.json"
    whole = json.loads(path.read_text())
    for changed, message in (
        ({"sentences": 21}, "the number of sentences differs"),
        ({"references": {}}, "the reference differs"),
        ({"signatures": {}}, "the convention of bleu_tok differs"),
    ):
        path.write_text(json.dumps(whole | {"test_sets": {"test": whole["test_sets"]["test"] | changed}}))
        settings = {"dataset": "toy", "kinds": dict.fromkeys(SYSTEMS, "attention"), "samples": 200, "seed": 12345}
        with pytest.raises(MismatchError, match=message):
            compare_systems(
                settings=CompareSystems.model_validate({**settings, "system": "new", "baseline": "base"}),
                cores=1,
                baseline=sides[0],
                system=sides[1],
                variation=[path],
                baseline_metrics=[],
                system_metrics=[],
                forced=[],
                comparison=tmp_path / "comparison.json",
            )
