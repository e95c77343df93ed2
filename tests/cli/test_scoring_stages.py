"""The stages from translations to the report, and `phrasemt show`, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import invented_study
import pytest
import yaml
from invented_study import InventedStudy

from phrasemt.cli import main
from phrasemt.stages.report import MakeTable
from phrasemt.study.tokenization import Tokenizer


def stage(name: str, settings: dict[str, object], **paths: Path | list[Path]) -> list[str]:
    flags: list[str] = []
    for flag, value in paths.items():
        flags += [f"--{flag.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    return [name, *flags, "--settings", json.dumps(settings)]


SCORE = {
    "dataset": "toy",
    "test_sets": ["test"],
    "references": [1],
    "reference_length": "closest",
    "system": "base",
    "seed": 1,
    "target_tokenizer": Tokenizer.for_language("de").model_dump(),
}


def _english(**options: bool) -> dict[str, object]:
    return {"target_tokenizer": Tokenizer.for_language("en", **options).model_dump()}


NO_METRICS: dict[str, list[Path]] = {
    name: [] for name in ("repeated", "baseline_metrics", "system_metrics", "repeated_metrics")
}
COMPARE = {"dataset": "toy", "system": "new", "baseline": "base", "unseeded": [], "samples": 50, "seed": 1}
REFERENCE = ["Der Hund sieht die Katze an .", "Ja , die alte Katze sieht den Hund ."]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Translations of two systems and their reference, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, lines in {
        "reference": REFERENCE,
        "base": ["Der Hund sieht die Katze .", "Ja , der alte Kater sieht den Hund ."],
        "new": ["Der Hund sieht die Katze an .", "Ja , die alte Katze sieht dem Hund ."],
    }.items():
        Path(f"{name}.tok").write_text("".join(f"{line}\n" for line in lines))
        Path(f"{name}.txt").write_text("".join(f"{line}\n".replace(" .", ".").replace(" ,", ",") for line in lines))
    return tmp_path


def score(system: str, **changes: Path) -> list[str]:
    paths = {
        "tokens": Path(f"{system}.tok"),
        "text": Path(f"{system}.txt"),
        "reference_tokens": Path("reference.tok"),
        "reference": Path("reference.txt"),
        "scores": Path(f"{system}.json"),
    }
    return stage("score_system", {**SCORE, "system": system}, **{**paths, **changes})


def names() -> set[str]:
    return {path.name for path in Path().iterdir()}


def test_score_and_compare(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(score("base")) == main(score("new")) == 0
    compare = stage("compare_systems", COMPARE, baseline=[Path("base.json")], system=[Path("new.json")], **NO_METRICS)
    assert main([*compare, "--comparison", "comparison.json"]) == 0
    scores, comparison = (json.loads(Path(name).read_text()) for name in ("base.json", "comparison.json"))
    assert list(scores) == [*("format", "dataset", "system", "seed", "test_sets")]
    assert list(scores["test_sets"]["test"]) == ["sentences", "references", "metrics", "statistics"]
    of_metrics = [list(file["test_sets"]["test"]["metrics"]) for file in (scores, comparison)]
    assert of_metrics[0] == of_metrics[1]
    lines = capsys.readouterr().err.splitlines()
    by_hand = 100 * math.exp(1 - 16 / 15) * (13 / 15 * 8 / 13 * 5 / 11 * 3 / 9) ** 0.25
    assert lines[0].startswith(f"score_system: test, 2 sentences: bleu_tok {by_hand:.2f}, ")
    assert lines[2].startswith("compare_systems: test, bleu_tok: +")
    assert lines[2].endswith(" to base, p not tested (50 samples)")
    assert {"base.json.meta.json", "comparison.json.meta.json"} <= names()
    versions = json.loads(Path("comparison.json.meta.json").read_text())["versions"]
    assert set(versions) == {"phrasemt", "python", "numpy", "scipy"}
    assert not [name for name in names() if name.endswith(".part")]


def test_same_bytes_again_and_for_every_number_of_cores(toy: Path) -> None:
    assert main(score("base")) == 0
    before = Path("base.json").read_bytes(), Path("base.json.meta.json").read_bytes()
    assert main([*score("base"), "--cores", "2"]) == 0
    assert (Path("base.json").read_bytes(), Path("base.json.meta.json").read_bytes()) == before


def test_unjoined_subwords_leave_nothing(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("base.tok").write_text("Der Hu@@ nd sieht .\nJa .\n")
    before = names()
    assert main(score("base")) == 2
    assert capsys.readouterr().err == (
        "phrasemt score_system: error: base.tok, line 1: the text is cut into subwords "
        "(expected whole words, found 'Der Hu@@ nd sieht .', and such marks in 1 of 2 lines). Next: join the subwords "
        "(remove '@@ ')\n"
    )
    assert names() == before


def test_another_convention_leaves_nothing(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*score("base")[:-1], json.dumps({**SCORE, **_english()})]) == 0
    new = {**SCORE, "system": "new", **_english(aggressive_dash=True)}
    assert main([*score("new")[:-1], json.dumps(new)]) == 0
    before = names()
    capsys.readouterr()
    compare = stage("compare_systems", COMPARE, baseline=[Path("base.json")], system=[Path("new.json")], **NO_METRICS)
    assert main([*compare, "--comparison", "comparison.json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "phrasemt compare_systems: error: new.json: test cannot be compared with base.json: "
        "the convention of bleu_tok differs "
    )
    assert line.endswith("Next: score both systems on the same test set with the same convention")
    assert names() == before


def test_a_score_file_cut_off_is_named(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(score("base")) == main(score("new")) == 0
    Path("new.json").write_text(Path("new.json").read_text()[:500])
    Path("new.json.meta.json").unlink()
    capsys.readouterr()
    compare = stage("compare_systems", COMPARE, baseline=[Path("base.json")], system=[Path("new.json")], **NO_METRICS)
    assert main([*compare, "--comparison", "comparison.json"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("phrasemt compare_systems: error: new.json: not JSON: ")
    assert error.endswith("Next: delete it and run again\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, InventedStudy]:
    folder = tmp_path_factory.mktemp("finished")
    study = invented_study.build(folder, seeds=(1,), systems=("base", "max"))
    with contextlib.chdir(folder):
        content = study.study.model_dump(mode="json", exclude_none=True)
        Path("config.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder, study


@pytest.fixture
def study(finished: tuple[Path, InventedStudy], tmp_path: Path) -> Iterator[InventedStudy]:
    folder, invented = finished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with contextlib.chdir(tmp_path):
        yield invented


def test_show_prints_the_table_and_where_the_report_is(
    study: InventedStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    study.make_table()
    assert main(["show"]) == 0
    assert capsys.readouterr().out == Path("results/invented/table.md").read_text()
    study.write_report()
    Path("config.yaml").rename("mine.yaml")
    assert main(["show", "mine.yaml"]) == 0
    out = capsys.readouterr().out
    assert out == Path("results/invented/table.md").read_text() + "\nReport: results/invented/report.html\n"
    assert "| Transformer           |" in out


def test_show_without_results_says_what_to_run(study: InventedStudy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "phrasemt show: error: results/invented/table.md: there are no results yet. "
        "Next: snakemake --profile profiles/local --configfile config.yaml\n"
    )


def test_show_of_a_study_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path / "nothing.yaml")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_show_imports_nothing_heavy(repository: Path) -> None:
    code = (
        "import sys; from phrasemt.cli import main\ntry: main(['show', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'matplotlib', 'sacrebleu', 'jinja2', 'phrasemt.report.tables'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repository, capture_output=True)


def test_a_hole_in_the_table_leaves_nothing(study: InventedStudy, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = study.table_inputs
    outputs = {name: study.results / name for name in ("table", "markdown", "latex", "csv")}
    settings = MakeTable.from_study(study.study, {}).model_dump(mode="json") | {"seeds": [1]}
    before = set(study.results.iterdir())
    files = [path for paths in inputs.values() for path in paths]
    assert main(stage("make_table", settings, files=files[1:], **outputs)) == 2
    assert capsys.readouterr().err == (
        "phrasemt make_table: error: the table would be incomplete: no scores for demo test base 1 "
        "(expected 6, found 5). Next: run the workflow again, which makes the missing files\n"
    )
    assert set(study.results.iterdir()) == before
    assert main(stage("make_table", settings, files=files, **outputs)) == 0
    assert {path.name for path in set(study.results.iterdir()) - before} == {
        *("table", "markdown", "latex", "csv"),
        *("table.meta.json", "markdown.meta.json", "latex.meta.json", "csv.meta.json"),
    }
    assert capsys.readouterr().err == "make_table: 2 systems, 6 blocks, 14 files\n"
