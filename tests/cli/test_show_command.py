"""`phrasemt show`: the table of a finished study, and where its report is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from golden import study_of

Phrasemt = Callable[..., tuple[int, str, str]]
TABLE, REPORT = Path("results/golden/table.md"), Path("results/golden/report.html")


@pytest.fixture(autouse=True)
def _study(here: Path) -> None:
    Path("config.yaml").write_text(yaml.safe_dump(study_of().model_dump(mode="json", exclude_none=True)))


def test_the_table_and_where_the_report_is(phrasemt: Phrasemt, golden: Path) -> None:
    TABLE.parent.mkdir(parents=True)
    TABLE.write_bytes((golden / TABLE).read_bytes())
    assert phrasemt("show") == (0, TABLE.read_text(), "")
    REPORT.touch()
    Path("config.yaml").rename("mine.yaml")
    code, out, _ = phrasemt("show", "mine.yaml")
    assert (code, out) == (0, f"{TABLE.read_text()}\nReport: {REPORT}\n")
    assert "| Transformer           |" in out


def test_without_results_it_says_what_to_run(phrasemt: Phrasemt) -> None:
    said = f"{TABLE}: there are no results yet (found no such file). Next: phrasemt run config.yaml\n"
    assert phrasemt("show") == (2, "", f"phrasemt show: error: {said}")
