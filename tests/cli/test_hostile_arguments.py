"""Arguments that nobody means: each ends with exit code 2, a message that names it, and no traceback."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasemt.cli import _parser, main
from phrasemt.commands import COMMANDS
from phrasemt.stages import STAGES

STUDY = """\
study: small
datasets:
  demo:
    source_language: en
    target_language: de
    generator: {train: 10, dev: 10, test: 10}
systems:
  base:
    model: {family: transformer, width: 16, heads: 2}
  large:
    model: {family: transformer, width: 32, heads: 2}
"""
DIGITS, HUGE = "9" * 5000, f"1{'0' * 400}"
SYSTEM = "--system base"

# A command line, and a piece of what is said.
HOSTILE = {
    # numbers
    "translate text.en --cores 999999": "argument --cores: expected a whole number from 1 to",
    "learn_subwords --cores 0": "argument --cores: expected a whole number from 1 to 4096",
    "train_model --minutes nan": "argument --minutes: expected a number from 0",
    "translate text.en --n-best 0": "argument --n-best: expected a whole number from 1 to 1000",
    f"translate text.en --seed {DIGITS}": "argument --seed: expected a whole number from 0, found '9999",
    f"translate text.en --seed {HUGE} {SYSTEM}": "no such seed",
    f"score text.de --references text.en --language de --samples {HUGE}": "from 1 to 1000000, found '1000",
    "ratings make new --sentences 0": "argument --sentences: expected a whole number from 1",
    # languages
    "score text.de --references text.en --language ''": "--language: found '', allowed: a code",
    "score text.de --references text.en --language jp": "did you mean 'ja'?",
    # settings of the search
    "translate text.en --decoding 'beam=['": "argument --decoding: beam: cannot be read as YAML",
    "translate text.en --decoding 'beam=!!python/object:os.system x'": "argument --decoding: beam: cannot be read",
    f"translate text.en --decoding beam={DIGITS}": "beam: cannot be read as YAML: Exceeds the limit (4300 digits)",
    "translate text.en --decoding baem=4": "found 'baem=4'; did you mean 'beam'?",
    "translate text.en --decoding beam": "expected KEY=VALUE",
    # files
    "score text.de --references link.de --language de": "text.de: the same file twice (found link.de)",
    "score text.de hard.de --references text.en --language de": "text.de: the same file twice (found hard.de)",
    "score folder --references text.en --language de": "folder: cannot be read (found Is a directory). Next: name",
    f"force empty empty2 {SYSTEM}": "empty: no lines",
    f"force text.en folder {SYSTEM}": "folder: cannot be read (found Is a directory). Next: name",
    "make_table --settings {} --table t --markdown t --latex t --csv t --log folder": "folder: is a directory",
    # names
    "chekc config.yaml": "chekc: no such command; did you mean 'check'? Next: `phrasemt --help` lists all",
    "''": "no such command",
    "describe mine.yaml": "--system: which system? (expected one of base, large)",
    "trace mine.yaml": "mine.yaml: not a pair",
    "describe --system bsae": "bsae: no such system (expected one of base, large; did you mean 'base'?)",
    "translate text.en --system nope": "nope: no such system",
    "trace test:17": "test.arrow: test is not prepared yet (found no such file). Next: phrasemt run",
    "trace tset:17": "tset: no such split (expected one of train, dev, test; did you mean 'test'?)",
    f"trace test:{DIGITS}": "not a pair",
    "trace test:²": "not a pair",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("config.yaml", "mine.yaml"):
        Path(name).write_text(STUDY)
    Path("text.en").write_text("a house\n")
    Path("text.de").write_text("ein Haus\n")
    Path("link.de").symlink_to("text.de")
    Path("hard.de").hardlink_to("text.de")
    Path("pairs.tsv").write_text("a\tb\tc\n")
    Path("folder").mkdir()
    for name in ("empty", "empty2"):
        Path(name).write_text("")
    return tmp_path


@pytest.mark.parametrize(("line", "said"), HOSTILE.items(), ids=lambda text: text[:60])
def test_a_hostile_argument_is_your_mistake(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    try:
        code = main(shlex.split(line))
    except SystemExit as left:  # argparse
        code = int(left.code or 0)
    printed = capsys.readouterr().err
    assert code == 2, printed
    assert said in " ".join(printed.split())
    assert "Traceback" not in printed
    assert len(printed) < 5000


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for other in {id(one): one for one in action.choices.values()}.values():
                yield from _actions(other)
        else:
            yield action


@pytest.mark.parametrize("command", [*COMMANDS, *STAGES])
def test_every_number_of_the_command_line_has_a_range(command: str) -> None:
    for action in _actions(_parser(command)):
        assert action.type not in (int, float, complex), action.option_strings


def test_a_stray_number_of_a_launcher(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, said in (("x", "not a number of a launcher"), ("1", "a number of a launcher where none started")):
        monkeypatch.setenv("RANK", number)
        assert main(["check", "mine.yaml"]) == 2
        assert f"environment variable RANK: {said}" in capsys.readouterr().err


# In processes of their own: environment, closed streams and the locale. `''` stands for a closed stream.
@pytest.mark.parametrize(
    ("shell", "environment", "code", "said"),
    [
        ("show --full small", {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}, 0, "Übersetzung ▁"),
        ("check mine.yaml", {"HOME": "/proc/no"}, 2, "Next: set HOME or XDG_CACHE_HOME"),
        ("translate --system base <&-", {}, 2, "standard input is closed"),
        ("check $'no\\xff.yaml'", {}, 2, "no\\udcff.yaml: 1 mistake in the study"),
    ],
)
def test_hostile_surroundings(
    folder: Path, repository: Path, shell: str, environment: dict[str, str], code: int, said: str
) -> None:
    Path("results/small").mkdir(parents=True)
    Path("results/small/table.md").write_text("Übersetzung ▁\n", encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m phrasemt {shell}"],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(repository), **environment},
    )
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode == code, printed
    assert said in printed
    assert "Traceback" not in printed
