"""The commands of README and documents run as they are printed, in a fresh copy of the checkout.

A block of `bash` in a document is a part of one session of its page, whose environment is activated. Studies are those
of the checkout at the size micro, under their own names. A block below `<!-- needs: WHAT -->` needs something that not
every machine has, and is left out here; `NEEDS` counts them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from workplace import copy_tracked

REPOSITORY = Path(__file__).parents[2]
FOLDERS = (".", "config", "docs", "docs/howto", "docs/papers", "docs/tutorials", "profiles")
PAGES = [page for folder in FOLDERS for page in sorted((REPOSITORY / folder).glob("*.md")) if "```" in page.read_text()]
BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>\w+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
STUDY = re.compile(r"Save this as `(\S+\.yaml)`:\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Values that make the studies of the pages small.
SMALL = {
    "seeds": "[1]",
    "sample": "20",
    "merges": "300",
    "width": "32",
    "ffn_width": "32",
    "max_updates": "20",
    "evaluate_every": "10",
    "checkpoint_every": "10",
}
# Blocks of commands that are left out, by what they need.
NEEDS = {"cluster": 5, "docker": 1, "files": 2, "network": 3, "root": 1}
FOLLOWED = "docs/adding-a-system.md"  # test_adding_a_system.py runs it, with the files that it shows
# Pages whose commands speak of results.
OF_RESULTS = ("studies/multi30k.yaml", "config.yaml")


def _blocks(page: Path, *languages: str) -> list[re.Match[str]]:
    return [block for block in BLOCK.finditer(page.read_text()) if block["language"] in languages]


def _name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def test_commands_stand_in_blocks_of_bash_and_blocks_that_are_left_out_are_counted() -> None:
    assert not [_name(page) for page in PAGES if _blocks(page, "sh", "shell", "console", "")]
    assert Counter(block["needs"] for page in PAGES for block in _blocks(page, "bash") if block["needs"]) == NEEDS


def test_commands_are_called_in_one_way() -> None:
    """In an activated environment, so without its path, and through the targets that the Makefile has."""
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE)
    for page in PAGES:
        commands = "".join(block["text"] for block in _blocks(page, "bash")).replace(". .venv/bin/activate", "")
        assert ".venv/bin" not in commands, _name(page)
        assert set(re.findall(r"^make ([a-z-]+)", commands, flags=re.MULTILINE)) <= set(targets), _name(page)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files with studies at the size micro, and the results of two of them."""
    folder = tmp_path_factory.mktemp("clone") / "phrasemt"
    copy_tracked(REPOSITORY, folder)
    environment = folder / ".venv"
    environment.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.name != "installed":
            (environment / entry.name).symlink_to(entry)
    (environment / "installed").touch()
    for study in OF_RESULTS:
        small_study = folder.parent / Path(study).name
        _run(f"phrasemt scale {study} micro --output {small_study}", folder)
        named = yaml.safe_load((folder / study).read_text())["study"]
        small = small_study.read_text()
        (folder / study).write_text(re.sub(r"^study: .*$", f"study: {named}", small, count=1, flags=re.MULTILINE))
        _run(f"make study STUDY={study}", folder)
    texts = folder / "results" / "demo" / "demo.en-de" / "raw"
    (folder / "data").mkdir()
    for split, language in (("train", "en"), ("train", "de"), ("test", "en"), ("test", "de")):
        shutil.copy(texts / f"{split}.{language}", folder / "data")
    for name, origin in (("text.en", "test.en"), ("text.de", "test.de"), ("ref.txt", "test.de")):
        shutil.copy(texts / origin, folder / name)
    for name in ("mine.txt", "other.txt"):
        shutil.copy(texts / "test.de", folder / name)
    return folder


def _run(commands: str, folder: Path) -> None:
    paths = {"PYTHONPATH": str(folder), "PHRASEMT_CACHE": str(folder / "cache")}
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**os.environ, **paths, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout[-3000:]}"


def _commands(page: Path) -> list[str]:
    return [_small(block["text"]) for block in _blocks(page, "bash") if not block["needs"]]


def _small(commands: str) -> str:
    """Commands whose studies of `phrasemt init` train a minute."""
    return re.sub(r"^phrasemt init .*", r"\g<0> --minutes 1", commands, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if _commands(page) and _name(page) != FOLLOWED], ids=_name)
def test_the_commands_of_a_page_run(clone: Path, page: Path) -> None:
    shutil.rmtree(clone / "exported", ignore_errors=True)  # of another page
    for study in ("mine.yaml", "micro.yaml"):
        (clone / study).unlink(missing_ok=True)
    for path, study in STUDY.findall(page.read_text()):
        for key, value in SMALL.items():
            study = re.sub(rf"\b{key}: (\d+|\[1, 2, 3\])", f"{key}: {value}", study)
        (clone / path).write_text(study)
    _run("\n".join(_commands(page)), clone)
