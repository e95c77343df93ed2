"""The argument STUDY is the same for all commands; what the command line says about itself."""

from __future__ import annotations

import argparse
import errno
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from phrasemt import commands
from phrasemt.cli import main, whole_parser
from phrasemt.commands import check, describe, plan, show, status
from phrasemt.commands._arguments import Output


@pytest.mark.parametrize("command", [describe, plan, show, status], ids=lambda module: module.__name__)
@pytest.mark.parametrize("study", [["mine.yaml"], ["--study", "mine.yaml"], []], ids=" ".join)
def test_the_study_is_the_first_argument_or_an_option_or_config_yaml(command: ModuleType, study: list[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert parser.parse_args(study).study == Path(study[-1] if study else "config.yaml")


def test_each_command_is_listed_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    assert {name for name in modules if not name.startswith("_")} == commands.COMMANDS.keys()
    assert commands.EXAMPLES.keys() == commands.COMMANDS.keys()


@pytest.mark.parametrize("command", commands.COMMANDS)
def test_the_help_of_a_command_has_a_sentence_and_two_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    usage, _, text = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith(f"usage: phrasemt {command} ")
    assert re.match(r"[A-Z][^.]*\.", text)
    assert re.search(rf"\n\nexamples:\n  phrasemt {command}.*\n  phrasemt {command}.*\n$", text)
    for example in commands.EXAMPLES[command]:
        whole_parser().parse_args([command, *shlex.split(re.sub(r"(>|&&).*", "", example))])


def test_help_fits_on_a_screen_and_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= commands.COMMANDS.keys()


def _raise(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    "runs_out",
    [
        lambda: bytearray(1 << 60),
        lambda: np.empty(1 << 58),
        lambda: torch.empty(1 << 58),
        lambda: _raise(torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 MiB.")),
        lambda: _raise(OSError(errno.ENOMEM, "Cannot allocate memory")),
    ],
    ids=["Python", "numpy", "torch on a CPU", "torch on a GPU", "the system"],
)
def test_missing_memory_is_no_mistake_of_phrasemt(
    runs_out: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "run", lambda options: runs_out())
    assert main(["check"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("phrasemt check: error: memory ran out")
    assert line.endswith(". Next: run again with fewer cores or more memory")


STAGE = "build_vocabulary --source in.en --target new.de --settings {}"
OUTPUTS = [
    "translate in.en --model model --output in.en",
    "translate in.en --model model --output model/../in.en",
    "translate in.en --model model --output link.en",
    "translate link.en --model model --output in.en",
    "translate hard.en --model model --output in.en",
    "translate in.en --model model --output model/weights.safetensors",
    "translate in.en --model model --output results/table.json",
    "translate in.en --study study.yaml --output data/train.en",
    "force in.en new.de --attention in.en",
    "scale study.yaml micro --output study.yaml",
    "capsule study.yaml --output study.yaml",
    "capsule study.yaml --output data/train.en",
    f"{STAGE} --source-vocabulary in.en --target-vocabulary new.tsv",
    f"{STAGE} --source-vocabulary new.tsv --target-vocabulary new.tsv --log in.en",
]


@pytest.fixture
def texts(here: Path) -> dict[str, str]:
    """Files that commands read; their contents are their names."""
    study = _STUDY.replace("TEXT", "{source: data/train.en, target: data/train.de}")
    files = ["in.en", "model/weights.safetensors", "data/train.en", "results/table.json"]
    contents = {name: name for name in (*files, "results/table.json.meta.json")} | {"study.yaml": study}
    for name, content in contents.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content)
    Path("link.en").symlink_to("in.en")
    Path("hard.en").hardlink_to("in.en")
    return contents | {"link.en": "in.en", "hard.en": "in.en"}


_STUDY = """\
study: mine
datasets:
  mine:
    source_language: en
    target_language: de
    splits: {train: [TEXT], dev: [TEXT], test: {test: [TEXT]}}
    subwords: {merges: 12}
systems: {base: {model: {family: transformer}}}
"""


def _all_files() -> dict[str, str]:
    return {str(path): path.read_text() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", OUTPUTS)
def test_no_output_replaces_what_is_read(
    command: str, texts: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    message = capsys.readouterr().err
    assert "the output would replace" in message
    assert "Next: name another output" in message
    assert _all_files() == texts


def test_no_output_replaces_standard_input(texts: dict[str, str]) -> None:
    command = [sys.executable, "-m", "phrasemt", "translate", "--model", "model", "--output", "in.en"]
    with Path("link.en").open() as text:
        done = subprocess.run(command, stdin=text, capture_output=True, text=True, check=False)
    assert (done.returncode, "in.en: the output would replace what is read" in done.stderr) == (2, True), done.stderr
    assert _all_files() == texts


def test_a_path_of_a_command_is_an_input_or_says_that_it_is_an_output() -> None:
    named = {"output", "figures", "attention", "log"}
    for command in commands.COMMANDS:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"phrasemt.commands.{command}").add_arguments(parser)
        for action in parser._actions:
            assert action.dest not in named or action.type is Output, f"{command} {action.dest}"
