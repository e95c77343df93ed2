"""The studies of papers, and of two papers together, at the size micro, and the results that each must end with."""

from __future__ import annotations

import json
from pathlib import Path

from phrasemt.cli import main
from phrasemt.study.compared import compared_figures
from phrasemt.study.reading import load_study

# Those of Moses run where it is built, in tests/unit/moses.
_FOLDER = Path(__file__).parents[2] / "studies"
OF_MOSES = sorted(_FOLDER.glob("*20[0-9][0-9]-*-moses.yaml"))
STUDIES = [
    *(path for path in sorted(_FOLDER.glob("*20[0-9][0-9]-*.yaml")) if path not in OF_MOSES),
    _FOLDER / "multi30k-together.yaml",
]


def micro(study: Path, folder: Path) -> str:
    """The text of a study at the size micro."""
    output = folder / "micro.yaml"
    assert main(["scale", str(study), "micro", "--output", str(output)]) == 0
    return output.read_text(encoding="utf-8")


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
