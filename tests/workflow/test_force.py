"""`phrasemt force` and `ratings` on a finished study, against what its stages wrote."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from workplace import Workplace

from phrasemt.cli import main
from phrasemt.files.attention import read_forced

FOLDER = Path("results/tiny/demo.en-de")
TEXTS = [str(FOLDER / "raw/test.en"), str(FOLDER / "raw/test.de")]
CHOICE = ("--study", "study.yaml", "--system")


@pytest.fixture
def study(undisturbed: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """The finished study, in whose folder the test is."""
    monkeypatch.chdir(undisturbed.folder)
    return undisturbed


def test_raw_text_is_forced_as_in_the_study(study: Workplace, tmp_path: Path, capfd: Any) -> None:
    system, maps = "max", tmp_path / "maps.arrow"
    assert main(["force", *TEXTS, *CHOICE, system, "--json", "--attention", str(maps)]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    analysis = json.loads((FOLDER / "attention" / system / "1" / "test.json").read_text())
    tokens = sum(len(one["log_probs"]) for one in found)
    assert (len(found), tokens) == (analysis["sentences"], analysis["tokens"])
    perplexity = math.exp(-sum(one["log_prob"] for one in found) / tokens)
    assert perplexity == pytest.approx(analysis["perplexity"], rel=1e-6)
    kept = {one.row: one for one in read_forced(FOLDER / "attention" / system / "1" / "test.arrow")}
    written = read_forced(maps)
    assert len(kept) == 3
    for row, sentence in kept.items():
        assert written[row].target == sentence.target
        assert written[row].phrase_ends == sentence.phrase_ends
        assert written[row].log_probs == pytest.approx(sentence.log_probs, abs=1e-5)
        assert len(written[row].attentions) == len(sentence.attentions)


def test_an_exported_model_forces_as_in_the_study(study: Workplace, tmp_path: Path, capfd: Any) -> None:
    assert main(["export", *CHOICE, "base", str(tmp_path / "base")]) == 0
    capfd.readouterr()
    assert main(["force", *TEXTS, *CHOICE, "base"]) == 0
    expected = capfd.readouterr().out
    assert main(["force", *TEXTS, "--model", str(tmp_path / "base")]) == 0
    assert capfd.readouterr().out == expected


def test_texts_of_different_length_and_unknown_systems_are_refused(
    study: Workplace, tmp_path: Path, capfd: Any
) -> None:
    (tmp_path / "short").write_text("Ein Hund.\n")
    assert main(["force", TEXTS[0], str(tmp_path / "short"), *CHOICE, "base"]) == 2
    assert main(["force", *TEXTS, *CHOICE, "nobody"]) == 2
    assert "no such system" in capfd.readouterr().err


def test_sheets_are_made_filled_in_and_scored(study: Workplace, tmp_path: Path, capfd: Any) -> None:
    folder = tmp_path / "sheets"
    assert main(["ratings", "make", str(folder), "--study", "study.yaml", "--sentences", "4"]) == 0
    assert "2 sheets of" in capfd.readouterr().out
    assert main(["ratings", "score", str(folder)]) == 2
    assert "no rating of adequacy" in capfd.readouterr().err
    for sheet in folder.glob("rater-*.tsv"):
        header, *rows = sheet.read_text().splitlines()
        sheet.write_text("\n".join([header, *(row.rstrip("\t") + "\t4\t5\t0\t1" for row in rows)]) + "\n")
    assert main(["ratings", "score", str(folder)]) == 0
    printed = capfd.readouterr().out
    assert "4.00" in printed
    assert "100 %" in printed
