"""studies/zhou2017-zh-en.yaml reads texts of the LDC and of NIST that the user brings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from nist_texts import write_nist_texts

from phrasemt.cli import main
from phrasemt.study.compared import compared_figures
from phrasemt.workflow.check import read_study

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
