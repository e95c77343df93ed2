"""Systems of other programs: rows whose translations are files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from phrasemt.study.reading import load_study
from phrasemt.workflow.check import read_study
from phrasemt.workflow.flow import Flow

Problems = Callable[..., list[str]]
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
    study = load_study(study_file(tmp_path, {"translations": "other.de"}))
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
