"""Witnesses: sacreBLEU's own paired bootstrap on the same sentences, and a bootstrap as plain Python loops."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import write_lines
from phrasemt.scoring import significance
from phrasemt.scoring.bleu import score_system
from phrasemt.scoring.scores import ScoreFile, read_artefact
from phrasemt.scoring.significance import ComparisonFile, ComparisonOnTestSet, compare_systems, corpus_bleu
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
    settings = {"dataset": "toy", "test_sets": ["test"], "target_tokenizer": Tokenizer.for_language("en"), **changes}
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
    folder: Path, baseline: list[Path], system: list[Path], *, samples: int = 200, seed: int = 12345
) -> ComparisonOnTestSet:
    return compared(folder, baseline, system, samples=samples, seed=seed).test_sets["test"]


def compared(folder: Path, baseline: list[Path], system: list[Path], *, samples: int, seed: int) -> ComparisonFile:
    compare_systems(
        settings=CompareSystems(dataset="toy", system="new", baseline="base", samples=samples, seed=seed),
        cores=1,
        baseline=baseline,
        system=system,
        comparison=folder / "comparison.json",
    )
    return read_artefact(folder / "comparison.json", ComparisonFile)


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
    }
    for name, metric in theirs.items():
        _, results = PairedTest(
            [("base", baseline), ("new", system)], {"BLEU": metric}, [references], test_type="bs", n_samples=230
        )()
        base, new = results["BLEU"]
        found = ours.metrics[name]
        assert found.p_values.sacrebleu == new.p_value
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
    assert found.p_values.koehn2004 == 1.0
    assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)


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


def test_drawing_in_parts_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    references = invent(25, seed=1)
    paths = [
        [score(tmp_path, worsen(references, share=0.3, seed=seed), references, system=system, seed=1)]
        for seed, system in enumerate(("base", "new"))
    ]
    whole = compare(tmp_path, *paths)
    monkeypatch.setattr(significance, "_SAMPLES_AT_ONCE", 7)
    assert compare(tmp_path, *paths) == whole


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


# ------------------------------------------------------------------------------------------------------------ refusals


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
    with pytest.raises(DataError, match="the translations contain subwords"):
        score(tmp_path, ["Ka@@ tze", *hypotheses[1:]], references, system="base", seed=1)


def _peak_of_bootstrap(samples: int) -> int:
    """Bytes that NumPy and Python have held at most while 1,000 sentences are resampled."""
    statistics = np.random.default_rng(1).integers(1, 20, size=(2, 1000, 10)).astype(float)
    tracemalloc.start()
    try:
        significance.bootstrap_scores(statistics, "none", samples=samples, seed=1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_samples() -> None:
    assert _peak_of_bootstrap(2000) < 1.2 * _peak_of_bootstrap(200)


def test_score_files_are_read_back_as_written(tmp_path: Path, texts: tuple[list[str], list[str]]) -> None:
    path = score(tmp_path, *texts, system="base", seed=1)
    assert read_artefact(path, ScoreFile).model_dump_json() + "\n" == path.read_text()
