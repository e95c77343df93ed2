"""`phrasemt papers`: the tables of a paper with the figures of several studies beside the reported ones."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import made_table
import pytest
import yaml
from made_table import cell

from phrasemt.cli import main
from phrasemt.report.scores import make_scorecard
from phrasemt.scoring.ratings import RatedText, write_sheets
from phrasemt.study.compared import compared_figures
from phrasemt.study.schema import Study

EN_DE = ["europarl-v7", "commoncrawl", "news-commentary-v9"]
CORPORA = {"de": EN_DE, "fr": [*EN_DE, "un-2000", "giga-fren"]}


def _table_of(target: str, scores: Mapping[str, float], *, same_data: bool = True) -> None:
    """Write the table of a study on the data of Xu et al. or on others. scores: BLEU of the systems."""
    part = f"{target}-en"
    train: list[dict[str, Any]] = [{"corpus": name, "part": part} for name in CORPORA[target]]
    dataset = {
        "source_language": "en",
        "target_language": target,
        "splits": {"train": train, "dev": train[:1], "test": {"news": [{"corpus": "wmt14-test-full", "part": part}]}},
        **({"stands_for": f"xu2020/en-{target}"} if same_data else {}),
    }
    rows = {"base": ["xu2020/table-1/base"], "pr": ["xu2020/table-1/base-pr"]}
    families = {"base": "transformer", "pr": "phrase_representation"}
    systems = {name: {"model": {"family": families[name]}, "stands_for": rows[name]} for name in scores}
    values = {"study": f"en-{target}", "datasets": {"wmt": dataset}, "systems": systems}
    Path(f"en-{target}.yaml").write_text(yaml.safe_dump(values))
    study = Study.model_validate(values)

    cells = {name: {"bleu_tok": cell(score)} for name, score in scores.items()}
    if "pr" in scores:
        cells["pr"]["bleu_tok_difference"] = cell(scores["pr"] - scores["base"], mark="‡")
    titles, scored = {name: name for name in scores}, made_table.block(cells)
    card = make_scorecard(list(compared_figures(study)), [scored], titles)
    path = Path(f"results/en-{target}/table.json")
    path.parent.mkdir(parents=True)
    made_table.table(titles, study.baselines, scored, scorecard=card, study=study.study).write(path)


@pytest.fixture(autouse=True)
def _studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _table_of("de", {"base": 27.5, "pr": 28.6})
    _table_of("fr", {"base": 39.0})


def test_two_studies_fill_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "xu2020", "--study", "en-de", "en-fr", "--format", "csv"]) == 0
    rows = [row[1:] for row in csv.reader(io.StringIO(capsys.readouterr().out)) if row[0] == "Xu et al. 2020, Table 1"]
    assert rows == [
        ["", "En-De, reported", "ours", "En-Fr, reported", "ours"],
        ["Transformer Base", "27.38", "27.50", "39.34", "39.00"],
        ["Transformer Base + PR", "28.67‡", "28.60", "40.71‡", ""],
        ["Transformer Big", "28.49", "", "41.36", ""],
        ["Transformer Big + PR", "29.60‡", "", "42.45‡", ""],
    ]


def test_on_other_data_the_difference_stands_beside_the_figure(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results/en-de/table.json").unlink()
    Path("results/en-de").rmdir()
    _table_of("de", {"base": 37.5, "pr": 38.0}, same_data=False)
    assert main(["papers", "xu2020", "--study", "en-de", "--format", "csv"]) == 0
    heading, base, gain, *_ = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith('"Xu et al. 2020, Table 1"')
    ]
    assert heading.endswith(',,"En-De, reported","ours, other data","Δ, other data","En-Fr, reported"')
    assert base.endswith(",Transformer Base,27.38,37.50,,39.34")
    assert gain.endswith(",Transformer Base + PR,28.67‡,,0.50‡,40.71‡")
    assert main(["papers", "xu2020", "--study", "en-de"]) == 0
    heading, base, gain = [
        line for line in capsys.readouterr().out.splitlines() if re.match(r"row,|.*/table-1/base(-pr)? +En-De", line)
    ]
    scores, differences = heading.index(" ours") + 5, heading.index("Δ ours") + 6
    assert (base[:scores].split()[-1], gain[:differences].split()[-1]) == ("37.50", "0.50‡"), (
        "one kind of number a column"
    )
    assert gain[:scores].split()[-1] == "28.67‡"


def test_a_study_without_a_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "xu2020", "--study", "en-de", "nothing"]) == 2
    assert "results/nothing/table.json: the study has no table yet" in capsys.readouterr().err


def test_sheets_of_raters_fill_table_4(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, rated by one rater: adequacy 3, fluency 4, no under-translation, over-translation."""
    values = yaml.safe_load(Path("en-de.yaml").read_text())
    values["systems"]["pr"]["stands_for"] = ["zhou2017/table-4/biscale"]
    Path("en-de.yaml").write_text(yaml.safe_dump(values))
    write_sheets(Path("sheets"), [RatedText("news", ["a"], ["b"], {"pr": ["c"]})], sentences=1, raters=1, seed=1)
    sheet = Path("sheets/rater-1.tsv")
    sheet.write_text(sheet.read_text().replace("c\t\t\t\t", "c\t3\t4\t0\t1"))
    assert main(["papers", "zhou2017", "--study", "en-de.yaml", "--ratings", "sheets", "--format", "csv"]) == 0
    assert "bi-scale,3.35,3.00,3.71,4.00,47,0,26,100" in (capsys.readouterr().out)


def test_the_ledger_of_a_paper_needs_no_clone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "nguyen2020", "--claims"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("- Static scores are worse (After Eq. (6))")
    assert lines[place + 1].startswith("    undecided (")
    assert not any("Big gains" in line or "|" in line for line in lines)
