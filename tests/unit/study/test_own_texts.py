"""Files that the user brings: texts of the LDC and of NIST, and translations of systems of other programs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from nist_texts import write_nist_texts

from phrasemt.cli import main
from phrasemt.study.compared import compared_figures
from phrasemt.study.reading import load_study
from phrasemt.workflow.check import read_study
from phrasemt.workflow.flow import Flow

Problems = Callable[..., list[str]]
NAME = "zhou2017-zh-en.yaml"


@pytest.fixture
def study(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the study in a folder that has the texts."""
    monkeypatch.chdir(tmp_path)
    write_nist_texts(tmp_path / "data")
    (tmp_path / NAME).write_text((repository / "studies" / NAME).read_text())
    return tmp_path / NAME


def test_the_texts_are_those_of_the_paper(study: Path) -> None:
    read = read_study(study)
    assert {
        name: len(read.datasets["nist"].references(name)) for name in read.datasets["nist"].test_sets
    } == dict.fromkeys(("MT02", "MT03", "MT04", "MT05"), 4)
    # Tables 1 to 3 and the text: 3 rows of 5 scores, 2 of 5, 8 accuracies, a gain; each on the test sets named there.
    figures = [figure for figure in compared_figures(read) if figure.same_data and figure.test_sets]
    assert len(figures) == 3 * 5 + 2 * 5 + 8 + 1


def test_a_missing_folder_is_one_mistake(study: Path, problems_of: Problems) -> None:
    shutil.rmtree(study.parent / "data" / "nist")
    (problem,) = problems_of(study, read_study)
    assert problem.startswith("no such folder: data/nist; the study reads MT02.zh, MT02.en.0,")


def test_check_says_what_to_order_and_where_it_belongs(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PHRASEMT_MIRROR", raising=False)
    assert main(["check", str(study)]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "not here" in line]
    assert len(warnings) == 4
    assert warnings[2].startswith(
        f"phrasemt check: warning: {study}: not here: ldc2004t08/train.zh, ldc2004t08/train.en: order LDC2004T08, and "
        "write its pairs of the Hansards into train.zh and train.en"
    )
    assert warnings[2].endswith("name the folder of ldc2004t08/train.zh in PHRASEMT_MIRROR")
    for corpus in ("ldc2002e18", "ldc2003e14", "ldc2004t08", "ldc2005t06"):
        for language in ("zh", "en"):
            path = Path("mirror", corpus, f"train.{language}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    monkeypatch.setenv("PHRASEMT_MIRROR", "mirror")
    assert main(["check", str(study)]) == 0
    assert "not here" not in capsys.readouterr().err


def test_a_missing_file_is_named_where_it_is_read(study: Path, problems_of: Problems) -> None:
    (study.parent / "data" / "nist" / "MT04.en.2").unlink()
    assert problems_of(study, read_study) == [
        "datasets.nist.splits.test.MT04.0.references.1: no such file: data/nist/MT04.en.2"
    ]


def test_a_test_set_with_three_references_is_not_that_of_the_paper(study: Path, problems_of: Problems) -> None:
    study.write_text(study.read_text().replace(", data/nist/MT03.en.3]", "]"))
    assert problems_of(study, read_study) == [
        "datasets.nist: stands_for is 'zhou2017/zh-en', whose MT03 has 4 references (the target and 3 under "
        "`references`), but MT03 has 3"
    ]


TEXTS = [{"corpus": "multi30k", "part": "train"}]


def study_file(folder: Path, other: dict[str, object], *datasets: str, test_sets: tuple[str, ...] = ("t",)) -> Path:
    splits = {"train": TEXTS, "dev": TEXTS, "test": dict.fromkeys(test_sets, TEXTS)}
    content = {
        "study": "rows",
        "seeds": [3, 1],
        "datasets": {
            name: {"source_language": "en", "target_language": "de", "splits": splits} for name in datasets or ("a",)
        },
        "systems": {"base": {"model": {"family": "transformer"}}, "other": other},
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_a_row_of_another_program_translates_and_is_not_trained(tmp_path: Path) -> None:
    study = load_study(study_file(tmp_path, {"translations": "other.de", "form": "tokens"}))
    flow = Flow(study)
    assert (list(study.models), study.translating) == (["base"], ["base", "other"])
    assert flow.every(flow.paths.training_record, systems=flow.study.models) == [
        f"results/rows/a.en-de/models/base/{seed}/training.json" for seed in (3, 1)
    ]
    assert flow.every(flow.paths.system_scores, systems=["other"]) == ["results/rows/a.en-de/scores/other/3.json"]
    assert study.outside["other"].files(study.datasets) == {("a", "t"): Path("other.de")}


def test_each_test_set_has_its_file(tmp_path: Path) -> None:
    files = {"a.t": "1", "a.u": "2", "b.t": "3", "b.u": "4"}
    study = load_study(study_file(tmp_path, {"translations": files}, "a", "b", test_sets=("t", "u")))
    assert study.outside["other"].files(study.datasets) == {
        ("a", "t"): Path("1"),
        ("a", "u"): Path("2"),
        ("b", "t"): Path("3"),
        ("b", "u"): Path("4"),
    }


@pytest.mark.parametrize(
    ("other", "test_sets", "message"),
    [
        ({"translations": "x"}, ("t", "u"), "other.translations is one file, but there are 2 test sets: give {t: FILE"),
        ({"translations": {"t": "x"}}, ("t", "u"), "other.translations has no file for the test set u"),
        ({"translations": {"t": "x", "v": "y"}}, ("t",), "other.translations.v: no such test set; allowed: t"),
        ({"translations": "x" * 256}, ("t",), "other.translations: no file can have so long a name"),
        ({"translations": "x", "form": "raw"}, ("t",), 'other.form: found "raw", allowed: text, tokens'),
        ({"translations": "x", "beam": 4}, ("t",), "other.beam: unknown key; allowed: title, stands_for, translations"),
        ({"translations": "x", "model": {}}, ("t",), "other.model: unknown key"),
        ({"translations": "x", "title": "base"}, ("t",), "systems.other and systems.base have the same title"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, problems_of: Problems, other: dict[str, object], test_sets: tuple[str, ...], message: str
) -> None:
    assert any(message in problem for problem in problems_of(study_file(tmp_path, other, test_sets=test_sets)))


def test_a_file_that_is_not_there_is_named_before_the_run(tmp_path: Path, problems_of: Problems) -> None:
    problems = problems_of(study_file(tmp_path, {"translations": str(tmp_path / "none.de")}), read_study)
    assert f"systems.other.translations: no such file: {tmp_path}/none.de" in problems
