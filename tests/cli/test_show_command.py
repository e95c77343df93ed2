"""`phrasemt show`: the table of a finished study, and where its report is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from golden import study_of
from made_table import block, cell
from made_table import table as made_table

from phrasemt.artefacts.table import Column
from phrasemt.commands.show import main_results

Phrasemt = Callable[..., tuple[int, str, str]]
TABLE, JSON, REPORT = (Path("results/golden") / name for name in ("table.md", "table.json", "report.html"))


@pytest.fixture(autouse=True)
def _study(here: Path) -> None:
    Path("config.yaml").write_text(yaml.safe_dump(study_of().model_dump(mode="json", exclude_none=True)))


def test_the_table_and_where_the_rest_is(phrasemt: Phrasemt, golden: Path) -> None:
    TABLE.parent.mkdir(parents=True)
    for path in (TABLE, JSON):
        path.write_bytes((golden / path).read_bytes())
    code, out, problems = phrasemt("show")
    assert (code, problems) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0] == "Phrases on <golden> data (golden)"
    assert lines[2] == "demo, test (60 sentences)"
    assert lines[4].split() == ["System", "BLEU", "Δ,", "95", "%", "interval", "chrF2", "TER"]
    assert lines[-1] == f"All numbers: phrasemt show --full, {TABLE}"
    REPORT.touch()
    Path("config.yaml").rename("mine.yaml")
    code, out, _ = phrasemt("show", "mine.yaml", "--full")
    assert (code, out) == (0, f"{TABLE.read_text()}\nAll numbers: phrasemt show --full, {TABLE}; page: {REPORT}\n")


def test_a_table_that_is_too_wide_loses_its_last_columns() -> None:
    scores = {name: cell(float(number)) for number, name in enumerate(("bleu_tok", "chrf2", "ter"))}
    wide = {f"metric_{number}": cell(1.0) for number in range(20)}
    columns = [Column(key=key, heading=f"a long heading of {key}") for key in (*scores, *wide)]
    made = block({"a system with a title of many, many, many words": scores | wide}).model_copy(
        update={"columns": columns}
    )
    lines = list(main_results(made_table({"base": "base"}, {}, made)))
    assert max(map(len, lines)) <= 100
    assert "metric_0" in lines[4]
    assert "metric_9" not in lines[4]


def test_without_results_it_says_what_to_run(phrasemt: Phrasemt) -> None:
    said = f"{JSON}: there are no results yet (found no such file). Next: phrasemt run config.yaml\n"
    assert phrasemt("show") == (2, "", f"phrasemt show: error: {said}")
