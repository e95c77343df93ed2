"""`phrasemt translate`, `export`, `force` and `ratings` on a finished study, against what its stages wrote."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from workplace import Workplace

from phrasemt.cli import main
from phrasemt.files.attention import read_forced

LINES = ["The dog sees the cat.", "", "A woman repairs the plane.", "  "]
TRANSLATE = ("translate", "--study", "study.yaml", "--system")
FOLDER = Path("results/tiny/demo.en-de")
TEXTS = [str(FOLDER / "raw/test.en"), str(FOLDER / "raw/test.de")]
CHOICE = ("--study", "study.yaml", "--system")


@pytest.fixture
def study(undisturbed: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """The finished study, in whose folder the test is."""
    monkeypatch.chdir(undisturbed.folder)
    return undisturbed


def test_an_exported_system_translates_without_the_study(
    finished: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(finished.folder)
    assert main(["export", "--study", "study.yaml", "--system", "max", str(tmp_path / "model")]) == 0
    assert f"Next: `phrasemt translate --model {tmp_path / 'model'}" in capfd.readouterr().out
    expected = (FOLDER / "translations/max/1/test.txt").read_text()
    assert main(["force", *TEXTS, *CHOICE, "max"]) == 0
    forced = capfd.readouterr().out
    assert main(["force", *TEXTS, "--model", str(tmp_path / "model")]) == 0
    assert capfd.readouterr().out == forced
    raw = shutil.copyfile(FOLDER / "raw/test.en", tmp_path / "text")
    shutil.rmtree("results")
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    assert main(["translate", "--model", str(tmp_path / "elsewhere"), str(raw)]) == 0
    assert capfd.readouterr() == (expected, "")
    assert main([*TRANSLATE, "max", str(raw)]) == 2
    assert "not trained yet, or was trained elsewhere" in capfd.readouterr().err


def test_every_form_of_output_has_a_line_for_a_line(study: Workplace, tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "text").write_text("\n".join(LINES))
    command = [*TRANSLATE, "base", str(tmp_path / "text")]

    def printed(*arguments: str) -> list[str]:
        assert main([*command, *arguments]) == 0
        lines: list[str] = capfd.readouterr().out.splitlines()
        return lines

    assert printed("--output", str(tmp_path / "out")) == []
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == len(LINES)
    assert lines[1] == lines[3] == ""
    objects = [json.loads(line) for line in printed("--json", "--n-best", "2")]
    assert [(one["line"], one["source"], one["translation"]) for one in objects] == [
        (number, source, line) for number, (source, line) in enumerate(zip(LINES, lines, strict=True), start=1)
    ]
    assert printed("--n-best", "2") == [
        f"{one['line']} ||| {candidate['text']} ||| {candidate['score']:.6f}"
        for one in objects
        for candidate in one["n_best"]
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lm"], "is a language model, which does not translate"),
        (["base", "--n-best", "3"], "n_best (3) must not exceed beam (2)"),
    ],
)
def test_what_cannot_be_translated_is_one_clear_line(
    study: Workplace, arguments: list[str], message: str, capfd: Any, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("fine\n")
    assert main([*TRANSLATE, *arguments, str(tmp_path / "text")]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert message in said


@pytest.mark.slow
def test_a_full_disk_and_a_closed_pipe(study: Workplace) -> None:
    text = "\n".join(LINES).encode()
    command = [sys.executable, "-m", "phrasemt", *TRANSLATE, "base"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, input=text, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"the disk is full" in done.stderr
    assert done.stderr.count(b"\n") == 1
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        process.stdin.write(text)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


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
    (tmp_path / "short").write_text("Ein Hund.\n")
    assert main(["force", TEXTS[0], str(tmp_path / "short"), *CHOICE, system]) == 2


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
