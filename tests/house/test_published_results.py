"""The files of docs/results/ agree with themselves, and tables and figures of the documents say what they say.

`make check` runs them.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import ledger
import numpy as np
import pytest
import run_values
import runs
import tables
import torch
from golden import GoldenStudy, study_of
from run_values import COMPARED, DRAWS, deviation, distance_of_levels
from run_values import runs as runs_of
from sacrebleu.metrics import BLEU, CHRF, TER

from phrasemt.commands.plan import PUBLISHED
from phrasemt.models.phrase_representation import TransparentAttention
from phrasemt.printed.results import LEDGER
from phrasemt.scoring.significance import mark_of
from phrasemt.study.architectures import PhraseRepresentationModel

FILES = sorted(path for path in runs.FOLDER.iterdir() if path.is_file())
STUDIES = [path.name.removesuffix(".json.xz") for path in FILES if path.name.endswith(".json.xz")]
PRINTED = {path: path.read_text() for path in tables.DOCUMENTS}
# Of a figure: the names of clip paths, which are digests of coordinates, and numbers with a fraction.
_FRACTION = re.compile(r"(-?\d+\.\d+)")
pytestmark = pytest.mark.slow


def test_tables_say_what_the_files_say() -> None:
    """One test, because the documents share comparisons."""
    for document, text in PRINTED.items():
        assert tables.with_tables(text) == text, f"{document.name}. Next: make tables"


def test_every_table_is_printed_once() -> None:
    names = re.findall(r"<!-- table: (\S+) -->\n\|", "".join(PRINTED.values()))
    assert sorted(names) == sorted(tables.names())


@pytest.mark.parametrize("document", PRINTED, ids=lambda path: path.stem)
def test_a_table_is_computed_or_named_as_one_without_a_file(document: Path) -> None:
    """Tables with a decimal point, which may be measurements."""
    found = re.findall(r"([^\n]*)\n((?:\|[^\n]*\n)+)", PRINTED[document])
    measured = {rows.split("\n")[0]: before for before, rows in found if re.search(r"\d\.\d", rows)}
    assert measured
    marker = r"<!-- (?:table: \S+|no file) -->"
    assert not [heading for heading, before in measured.items() if not re.fullmatch(marker, before)]


def test_figures_bear_each_verdict() -> None:
    """A verdict without a figure decides nothing, or counts."""
    results = [
        (claim["claim"], one) for of in ledger.CLAIMS.values() for claim in of for one in claim.get("results", [])
    ]
    assert not [
        f"{claim}: {ledger.borne(one)}" for claim, one in results if "by" in one and ledger.borne(one) != one["verdict"]
    ]
    of_equations = {one["verdict"] for _, one in results if "by" not in one}
    assert of_equations <= {"one training, not tested", "shown, by counting"}


@pytest.mark.parametrize(
    ("low", "high", "p", "expected", "verdict"),
    [
        (0.1, 2.0, 0.03, "gain", "shown, also by size"),
        (-2.0, -0.1, 0.03, "gain", "opposite shown"),
        (-0.1, 2.0, 0.07, "gain", "undecided"),
        (0.1, 2.0, 0.07, "gain", "undecided"),  # the interval is not corrected, p is
        (0.1, 2.0, None, "gain", "one training, not tested"),
        (-0.6, 2.0, 0.4, "no loss", "loss no larger than"),
        (-0.7, 2.0, 0.4, "no loss", "undecided"),
        (-0.6, -0.1, 0.03, "no loss", "opposite shown"),
        (0.1, 0.6, 0.03, "no difference", "opposite shown"),
        (-0.3, 0.6, 0.4, "no difference", "loss no larger than"),
        (-0.3, 0.7, 0.4, "no difference", "undecided"),
    ],
)
def test_a_planted_figure_bears_one_verdict(low, high, p, expected, verdict, monkeypatch) -> None:
    """A control gains 1 to 2 BLEU, a second one nothing."""
    planted = {
        "deciding": ledger.Figure(text="", unit="BLEU", gain=(low, high), p=p),
        "size": ledger.Figure(text="", unit="BLEU", gain=(1, 2), p=0.001),
        "network": ledger.Figure(text="", unit="BLEU", gain=(-1, 2), p=0.3),
    }
    monkeypatch.setattr(ledger, "figure_of", planted.__getitem__)
    controls = {"without phrases": "network", "by size": "size"}
    assert ledger.borne({"by": "deciding", "expect": expected, "controls": controls}) == verdict


def test_initial_levels_are_those_of_models() -> None:
    """Of 2,000 mixtures the median has a standard error below 0.002."""
    torch.manual_seed(1)
    record = runs_of("demo-claims/dense")[0].record["model"]
    of_model = PhraseRepresentationModel(
        **{name: record[name] for name in ("family", "encoder_layers", "decoder_layers")}
    )
    distances = [distance_of_levels(TransparentAttention(of_model).mixture_IJ().detach().numpy()) for _ in range(2_000)]
    assert np.median(distances) == pytest.approx(run_values.initial_levels("demo-claims/dense"), abs=0.01)


def test_the_package_has_the_ledger() -> None:
    assert LEDGER.read_text() == (tables.DOCS / "claims.md").read_text()


def test_plan_takes_the_published_deviation() -> None:
    assert deviation("multi30k-systems/base") == f"{PUBLISHED:.2f}"


@pytest.mark.parametrize("name", tables.WRITTEN)
def test_a_figure_is_drawn_from_the_files(name: str) -> None:
    """Up to the last bits of coordinates, which differ between processors."""
    svgs = (runs.FOLDER / name).read_text(), tables.WRITTEN[name]()
    published, drawn = map(_FRACTION.split, svgs)
    assert drawn[::2] == published[::2], "Next: make tables"
    assert list(map(float, drawn[1::2])) == pytest.approx(list(map(float, published[1::2])), abs=0.01)


@pytest.mark.parametrize("study", STUDIES)
def test_scores_are_those_of_sacrebleu(study: str) -> None:
    for part in _translated(study):
        for name, score in part.scores.metrics.items():
            sums = np.sum(part.statistics[name], axis=1)
            if score.metric == "BLEU":
                smoothing = dict(item.split(":", 1) for item in score.signature.split("|"))["smooth"]
                metric: BLEU | CHRF | TER = BLEU(smooth_method=smoothing)
                sums = np.roll(sums, 2)  # sacreBLEU has the lengths first
            elif score.metric == "chrF":
                metric = CHRF(word_order=score.columns // 3 - CHRF.CHAR_ORDER)
            else:
                metric = TER()
            assert metric._aggregate_and_compute([sums.tolist()]).score == pytest.approx(score.score, abs=1e-9)


@pytest.mark.parametrize("study", STUDIES)
def test_statistics_are_those_of_the_translations(study: str) -> None:
    """References are not published. The first statistic of chrF is the number of characters of the translation."""
    for part in _translated(study):
        assert [len("".join(line.split())) for line in part.translations] == part.statistics["chrf2"][0]


def _translated(study: str) -> list[runs.TestSet]:
    return [part for run in runs.read_runs(study) for part in run.test_sets.values() if part.translations]


def test_a_finished_study_is_added(golden, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(golden)
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    study = GoldenStudy(study_of("base", "max", "bi", "lm", datasets=("demo",)))
    for _ in range(2):
        runs.add(study.results)
    found = {(run.dataset, run.system, run.seed): run for run in runs.read_runs("golden")}
    for system, seed in itertools.product(study.study.systems, study.study.seeds):
        run = found["demo", system, seed]
        record = json.loads(study.path("training_record", system=system, seed=seed).read_text())
        assert run.record["parameters"] == record["parameters"]
        assert run.evaluations["dev_perplexity"] == [one["dev_perplexity"] for one in record["evaluations"]]
        assert run.average["dev_perplexity"]
    scores = json.loads(study.path("system_scores", system="max", seed=2).read_text())["test_sets"]["test"]
    part = found["demo", "max", 2].test_sets["test"]
    assert part.scores.statistics == scores["statistics"]
    assert part.scores.metrics["ter"].score == pytest.approx(scores["metrics"]["ter"]["score"])
    text = study.path("translated_text", system="max", seed=2, split="test").read_text()
    assert part.translations == text.split("\n")[:-1]
    contrasts = json.loads(study.path("contrast_accuracy", system="max", seed=2, split="test").read_text())
    assert (part.contrasts, part.decisions) == (contrasts["kinds"], contrasts["decisions"])
    assert found["demo", "bi", 1].test_sets["test"].chunks["boundary_acc"]
    assert found["demo", "lm", 1].test_sets["test"].perplexity["nll"]


def test_a_second_bootstrap_seed_changes_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = run_values.comparison, run_values._variations, run_values._resampled, run_values._corrected
    published = DRAWS["seed"]

    def marks(seed: int) -> dict[str, str]:
        monkeypatch.setitem(DRAWS, "seed", seed)
        for function in cached:
            function.cache_clear()
        corrected = (run_values._corrected(tuple(compared.items()), "bleu_tok") for compared in COMPARED.values())
        return {system: mark_of(p_value) for family in corrected for system, p_value in family.items()}

    assert marks(54321) == marks(published)
