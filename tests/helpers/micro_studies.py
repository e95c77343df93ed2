"""The studies of papers, and of two papers together, at the size micro, and the results that each must end with."""

from __future__ import annotations

import json
from pathlib import Path

from tatoeba import is_chinese_english, with_tatoeba

from phrasemt.cli import main
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.study.compared import compared_figures
from phrasemt.study.reading import load_study

# Those of Moses run where it is built, in tests/unit/moses.
_FOLDER = Path(__file__).parents[2] / "studies"
OF_MOSES = sorted(_FOLDER.glob("*20[0-9][0-9]-*-moses.yaml"))
STUDIES = [
    *(path for path in sorted(_FOLDER.glob("*20[0-9][0-9]-*.yaml")) if path not in OF_MOSES),
    _FOLDER / "multi30k-together.yaml",
]


def micro(path: Path, folder: Path, corpora: Path | None = None) -> str:
    """The text of a study at the size micro. corpora: of real sentences, which studies of Chinese then read."""
    output = folder / "micro.yaml"
    assert main(["scale", str(path), "micro", "--output", str(output)]) == 0
    text, study = output.read_text(encoding="utf-8"), load_study(path)
    if corpora is None or not is_chinese_english(study):
        return text
    return format_yaml(with_tatoeba(parse_yaml(text), study, corpora, folder))


def assert_finished(folder: Path) -> None:
    """All rows of the table, a line beside ours for each printed figure that the study stands for, and a report."""
    study = load_study(folder / "study.yaml")
    results = folder / "results" / study.study
    rows = [line for line in (results / "table.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert {system.title for system in study.systems.values()} <= {row.split("|")[1].strip() for row in rows}
    entries = json.loads((results / "table.json").read_text(encoding="utf-8"))["scorecard"]["entries"]
    expected = [(figure.system, figure.place) for figure in compared_figures(study)]
    assert sorted((entry["system"], entry["place"]) for entry in entries) == sorted(expected)
    assert "</html>" in (results / "report.html").read_text(encoding="utf-8")
