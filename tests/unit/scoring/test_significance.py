"""Witnesses: sacreBLEU's own paired tests on the same sentences, bootstraps as loops, SciPy's t-test, hand work."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest, Result

from phrasemt.artefacts.scores import Comparison, ComparisonOnTestSet, MetricComparison, MetricScore, SystemScores
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import write_lines
from phrasemt.scoring import significance
from phrasemt.scoring.bleu import score_system
from phrasemt.scoring.significance import compare_systems, detectable, holm, seeds_needed
from phrasemt.scoring.statistics import corpus_bleu, corpus_scores
from phrasemt.stages.scoring import CompareSystems, ScoreSystem
from phrasemt.study.tokenization import Tokenizer

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
        "reference_length": "closest",
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
    folder: Path,
    baseline: list[Path],
    system: list[Path],
    *,
    samples: int = 200,
    seed: int = 12345,
    **metrics: list[Path],
) -> ComparisonOnTestSet:
    return compared(folder, baseline, system, samples=samples, seed=seed, **metrics).test_sets["test"]


def compared(
    folder: Path, baseline: list[Path], system: list[Path], *, samples: int, seed: int, **metrics: list[Path]
) -> Comparison:
    """metrics: `baseline_metrics` and `system_metrics`."""
    compare_systems(
        settings=CompareSystems(dataset="toy", system="new", baseline="base", samples=samples, seed=seed),
        cores=1,
        baseline=baseline,
        system=system,
        **{"baseline_metrics": [], "system_metrics": [], **metrics},
        comparison=folder / "comparison.json",
    )
    return Comparison.read(folder / "comparison.json")


def paired_test(
    metric: BLEU | CHRF | TER, baseline: list[str], system: list[str], references: list[str], kind: str
) -> list[Result]:
    """sacreBLEU's results for both systems. kind: bs, bootstrap; ar, approximate randomisation."""
    named = [("base", baseline), ("new", system)]
    _, results = PairedTest(named, {"metric": metric}, [references], test_type=kind, n_samples=230)()
    (found,) = (result for name, result in results.items() if name != "System")
    return found  # type: ignore[return-value]


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
        found = ours.metrics[name]
        base, new = paired_test(metric, baseline, system, references, "bs")
        assert found.p_values.sacrebleu == new.p_value
        _, swapped = paired_test(metric, baseline, system, references, "ar")
        assert found.p_values.randomization == swapped.p_value
        assert (found.baseline.value, found.system.value) == (base.score, new.score)
        # sacreBLEU sums in single precision (six digits) and we in double, so the scores of samples agree to 1e-4.
        for estimate, result in ((found.baseline, base), (found.system, new)):
            assert estimate.mean == pytest.approx(result.mean, abs=1e-4)
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
    file = compared(tmp_path, paths["base"], paths["new"], samples=60, seed=11)
    found = file.test_sets["test"]
    difference = found.metrics["bleu_tok"].difference
    assert found.metrics["bleu_tok"].p_values.koehn2004 == sum(d <= 0 for d in differences) / 60
    everything = list(range(40))
    assert difference.value == pytest.approx(mean_bleu("new", everything) - mean_bleu("base", everything), abs=1e-9)
    assert difference.mean == pytest.approx(sum(differences) / 60, abs=1e-9)
    assert (difference.low, difference.high) == pytest.approx(
        (sorted(differences)[1], sorted(differences)[-2]), abs=1e-9
    )
    assert (file.baseline_seeds, file.system_seeds, found.sentences) == ([0, 1], [0, 1, 2], 40)


def test_identical_systems_are_not_significant(tmp_path: Path) -> None:
    references = invent(30, seed=1)
    lines = worsen(references, share=0.3, seed=2)
    found = compare(
        tmp_path,
        [score(tmp_path, lines, references, system="base", seed=seed) for seed in (1, 2)],
        [score(tmp_path, lines, references, system="new", seed=1)],
    ).metrics["bleu_tok"]
    assert found.p_values.koehn2004 == found.p_values.two_sided == found.p_values.over_seeds == 1.0
    assert found.over_seeds is not None
    assert found.over_seeds.seeds_needed is None
    assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)


def metric_file(folder: Path, scores: list[float], *, system: str, seed: int, better: str = "higher") -> Path:
    """Scores of a metric of the user."""
    part = {"sentences": len(scores), "score": sum(scores) / len(scores), "by_sentence": scores}
    part["signature"] = f"words|mean:{better}|count --case:lc|smooth:no"
    path = folder / f"{system}-{seed}" / "metric.json"
    place = {"metric": "words", "dataset": "toy", "system": system, "seed": seed}
    path.write_text(json.dumps({"format": 3, **place, "test_sets": {"test": part}}))
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
    return found.metrics["metric_words"]


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
    assert found.difference.mean == pytest.approx(sum(differences) / 230)
    assert found.difference.low == pytest.approx(sorted(differences)[5])  # a fortieth of 230 on each side
    not_better = [d <= 0 if better == "higher" else d >= 0 for d in differences]
    assert found.p_values.koehn2004 == sum(not_better) / 230
    below = sum(d <= 0 for d in differences)
    assert found.p_values.two_sided == min(1, 2 * min(below, 230 - below) / 230)


def test_equal_scores_of_a_metric_of_the_user_have_p_1(tmp_path: Path) -> None:
    runs = [np.random.default_rng(seed).normal(size=30).tolist() for seed in (1, 2)]
    found = with_metrics(tmp_path, runs, runs)
    assert found.p_values.two_sided == found.p_values.over_seeds == found.p_values.randomization == 1
    assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)


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
        ).metrics["bleu_detok"]
        for first, second in (texts, texts[::-1])
    )
    assert there.difference.value == -back.difference.value
    assert (there.difference.low, there.difference.high) == (-back.difference.high, -back.difference.low)
    assert there.p_values.sacrebleu == back.p_values.sacrebleu
    assert there.p_values.koehn2004 + back.p_values.koehn2004 == pytest.approx(1)  # no sample is a tie here
    assert there.p_values.koehn2004 < 0.05
    assert there.p_values.two_sided == back.p_values.two_sided == 2 * there.p_values.koehn2004
    assert there.p_values.randomization == back.p_values.randomization


def test_drawing_in_parts_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    references = invent(25, seed=1)
    paths = [
        [score(tmp_path, worsen(references, share=0.3, seed=seed), references, system=system, seed=1)]
        for seed, system in enumerate(("base", "new"))
    ]
    whole = compare(tmp_path, *paths)
    monkeypatch.setattr(significance, "_SAMPLES_AT_ONCE", 32)
    assert compare(tmp_path, *paths) == whole


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


def test_two_levels_equal_plain_loops(tmp_path: Path) -> None:
    """Seeds, then sentences, are drawn one by one; the mean of drawn seeds is stretched by sqrt(n/(n-1))."""
    file, paths = _over_seeds(tmp_path)
    found = file.test_sets["test"].metrics["bleu_tok"]
    rows = {
        system: [np.array(SystemScores.read(path).test_sets["test"].statistics["bleu_tok"]) for path in of_system]
        for system, of_system in paths.items()
    }
    sentences, seeds = np.random.default_rng(3), np.random.default_rng([3, 1])
    drawn = [sentences.choice(30, size=30) for _ in range(400)]
    scores = {
        system: [[float(corpus_bleu(run[chosen].sum(0), "none")) for chosen in drawn] for run in runs]
        for system, runs in rows.items()
    }
    differences = [0.0] * 400
    for system, sign in (("base", -1), ("new", 1)):
        choices = seeds.integers(3, size=(3, 400))
        for sample in range(400):
            mean = sum(run[sample] for run in scores[system]) / 3
            of_drawn = sum(scores[system][run][sample] for run in choices[:, sample]) / 3
            differences[sample] += sign * (mean + (3 / 2) ** 0.5 * (of_drawn - mean))
    assert found.over_seeds is not None
    assert found.over_seeds.difference.mean == pytest.approx(sum(differences) / 400, abs=1e-9)
    expected = 2 * min(sum(d <= 0 for d in differences), sum(d >= 0 for d in differences)) / 400
    assert found.p_values.over_seeds == min(1, expected)
    assert found.p_values.decisive == found.p_values.over_seeds


def test_an_interval_over_seeds_is_wider_and_covers_the_true_mean() -> None:
    """Runs drawn around 30 with deviation 1: about 95 % of the intervals of 8 runs contain 30, and not the 89 % and
    less of a bootstrap whose seeds vary too little. 400 repetitions: 3 standard errors are 0.033."""
    draw, covered = np.random.default_rng(5), 0
    for _ in range(400):
        samples = np.repeat(draw.normal(30, 1, size=8)[:, None], 400, axis=1)  # no noise of sentences
        low, high = np.quantile(significance._drawn_runs(samples, draw), [0.025, 0.975])
        covered += low <= 30 <= high
    assert 0.88 < covered / 400 < 0.97


def test_a_single_run_beside_several_has_no_randomisation(tmp_path: Path) -> None:
    _, paths = _over_seeds(tmp_path)
    found = compare(tmp_path, paths["base"], paths["new"][:1]).metrics["bleu_tok"]
    assert found.p_values.randomization is None
    assert found.over_seeds is not None
    assert found.over_seeds.system_deviation == 0 < found.over_seeds.baseline_deviation
    assert found.over_seeds.seeds_needed is None, "nobody knows how far trainings of the system differ"


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # 4 * 0.005, 3 * 0.01, 2 * 0.03, and 0.04 not below 0.06
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values) == pytest.approx(corrected)


@pytest.mark.parametrize(("difference", "deviations"), [(0.5, (0.3, 0.3)), (0.3, (0.3, 0.2)), (1.0, (0.3, 0.6))])
def test_seeds_needed_have_the_power_in_a_t_test(difference: float, deviations: tuple[float, float]) -> None:
    """Witness: the noncentral t distribution of SciPy, with the pooled variance of two equal groups."""
    distributions = pytest.importorskip("scipy.stats")

    def power(runs: int) -> float:
        freedom = 2 * runs - 2
        center = difference / (sum(d**2 for d in deviations) / runs) ** 0.5
        limit = distributions.t.ppf(0.975, freedom)
        return 1 - distributions.nct.cdf(limit, freedom, center)

    runs = seeds_needed(difference, *deviations)
    assert runs is not None
    assert power(runs) > 0.78
    assert power(runs - 1) < 0.82
    assert detectable([(deviation, runs) for deviation in deviations]) <= difference


def test_seeds_needed_at_the_edges() -> None:
    assert seeds_needed(0.0, 0.3, 0.3) is None
    assert seeds_needed(-0.5, 0.3, 0.3) == seeds_needed(0.5, 0.3, 0.3)
    assert seeds_needed(9.0, 0.3, 0.3) == seeds_needed(0.1, 0.0, 0.0) == 2


@pytest.mark.parametrize("metric", [CHRF(), CHRF(word_order=2), TER(), BLEU()])
def test_scores_of_summed_statistics_are_those_of_sacrebleu(metric: BLEU | CHRF | TER) -> None:
    """On whole texts, single sentences, empty hypotheses and empty references."""
    references = [*invent(20, seed=2), "a b c d", ""]
    hypotheses = [*worsen(references[:20], share=0.4, seed=3), "", "a"]
    rows = metric._extract_corpus_statistics(hypotheses, [references])
    # the score files have the lengths of BLEU behind its counts
    ours = [[*row[2:], *row[:2]] if isinstance(metric, BLEU) else row for row in rows]
    described = MetricScore(score=0, signature=str(metric.get_signature()))
    for chosen in ([*range(22)], [0], [20], [21], [20, 21], [3, 3, 21]):
        expected = metric._aggregate_and_compute([rows[row] for row in chosen]).score
        found = corpus_scores(described, np.array([ours[row] for row in chosen], dtype=float).sum(0))
        assert float(found) == pytest.approx(expected, abs=1e-9)


counts = st.integers(0, 30)


@given(st.lists(st.tuples(counts, counts), min_size=4, max_size=4), counts, st.sampled_from(["none", "exp"]))
def test_corpus_bleu_equals_sacrebleu(orders: list[tuple[int, int]], reference_length: int, smoothing: str) -> None:
    # Totals fall with the order: whoever has no bigram has no trigram.
    totals = sorted((max(pair) for pair in orders), reverse=True)
    system_length = totals[0]  # its unigrams
    correct = [min(total, min(pair)) for pair, total in zip(orders, totals, strict=True)]
    expected = BLEU.compute_bleu(
        list(correct), list(totals), system_length, reference_length, smooth_method=smoothing
    ).score
    found = corpus_bleu(np.array([*correct, *totals, system_length, reference_length], dtype=float), smoothing)
    assert float(found) == pytest.approx(expected, abs=1e-9)


@pytest.fixture
def texts() -> tuple[list[str], list[str]]:
    references = invent(10, seed=1)
    return worsen(references, share=0.2, seed=2), references


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "other"}, "the scores belong to another system or data set (expected toy new, found other new)"),
        ({"test_sets": ["dev"]}, "the test sets differ from those in "),
        ({"system": "third"}, "the scores belong to another system or data set (expected toy new, found toy third)"),
        (
            {"target_tokenizer": Tokenizer.for_language("en", aggressive_dash=True)},
            "the convention of bleu_tok differs",
        ),
        ({"target_tokenizer": Tokenizer.for_language("de")}, "the set of metrics differs"),
    ],
)
def test_refuses_scores_that_do_not_belong_together(
    tmp_path: Path, texts: tuple[list[str], list[str]], changes: dict[str, str], message: str
) -> None:
    base = score(tmp_path, *texts, system="base", seed=1)
    new = score(tmp_path, *texts, **{"system": "new", "seed": 1, **changes})  # type: ignore[arg-type]
    with pytest.raises(MismatchError) as error:
        compare(tmp_path, [base], [new])
    assert str(error.value).startswith(f"{new}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "comparison.json").exists()


@pytest.mark.parametrize("change", [-1, 1])
def test_refuses_other_sentence_counts(tmp_path: Path, texts: tuple[list[str], list[str]], change: int) -> None:
    base = score(tmp_path, *texts, system="base", seed=1)
    longer = [side[:-1] if change < 0 else [*side, "a b"] for side in texts]
    new = score(tmp_path, *longer, system="new", seed=1)
    with pytest.raises(MismatchError, match=rf"the number of sentences differs \(expected 10, found {10 + change}\)"):
        compare(tmp_path, [base], [new])


def test_refuses_a_seed_given_twice_or_none(tmp_path: Path, texts: tuple[list[str], list[str]]) -> None:
    base, new = (score(tmp_path, *texts, system=system, seed=1) for system in ("base", "new"))
    copy = tmp_path / "copy.json"
    copy.write_bytes(new.read_bytes())
    with pytest.raises(MismatchError, match=r"new needs one score file for each seed \(found seeds \[1, 1\]\)"):
        compare(tmp_path, [base], [new, copy])
    with pytest.raises(MismatchError, match=r"new needs one score file for each seed \(found seeds \[\]\)"):
        compare(tmp_path, [base], [])


def test_subwords_never_reach_a_comparison(tmp_path: Path, texts: tuple[list[str], list[str]]) -> None:
    hypotheses, references = texts
    with pytest.raises(DataError, match="the text is cut into subwords"):
        score(tmp_path, ["Ka@@ tze", *hypotheses[1:]], references, system="base", seed=1)


def _peak_of_tests(samples: int) -> int:
    """Bytes that NumPy and Python have held at most while 1,000 sentences are drawn and swapped."""
    statistics = {"bleu": np.random.default_rng(1).integers(1, 20, size=(2, 1000, 10)).astype(float)}
    metric = MetricScore(score=0, signature="smooth:none")
    metrics = {"bleu": metric}
    tracemalloc.start()
    try:
        significance.bootstrap_scores(metrics, statistics, samples=samples, seed=1)
        significance.randomized_differences(metrics, statistics, samples=samples, seed=1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_samples() -> None:
    assert _peak_of_tests(2000) < 1.2 * _peak_of_tests(200)


def test_score_files_are_read_back_as_written(tmp_path: Path, texts: tuple[list[str], list[str]]) -> None:
    path = score(tmp_path, *texts, system="base", seed=1)
    SystemScores.read(path).write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
