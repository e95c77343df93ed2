"""docs/adding-a-system.md as it is: its blocks become files, and its commands run in a copy of the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from workplace import Workplace

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-system.md"


@pytest.fixture
def commands(repository: Path, tmp_path: Path) -> list[str]:
    """The commands of the page, to be run in `tmp_path`, which has the files of the page."""
    Workplace.new(repository, tmp_path)
    (tmp_path / "studies").mkdir()
    (tmp_path / ".venv").symlink_to(sys.prefix)
    page = PAGE.read_text()
    for path, block in re.findall(r"^## The \w+: (\S+)$.*?^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(block)
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def run(command: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in the activated .venv; it must end with this exit code."""
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PYTHONPATH": str(folder), "PATH": path}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}\n{done.stderr[-3000:]}"
    return done


def test_the_system_of_the_page_is_described_and_its_keys_are_checked(commands: list[str], tmp_path: Path) -> None:
    check, describe, *_ = commands
    # The window takes no parameters: 1.00 times the multiply-adds of the baseline.
    assert re.search(r"^base, the baseline .* x 1\.00$", run(describe, tmp_path).stdout, re.MULTILINE)
    study = tmp_path / "studies" / "window-attention.yaml"
    study.write_text(study.read_text().replace("window: 4", "window: 0, windows: 3"))
    refused = run(check, tmp_path, code=2).stderr
    assert "systems.window.model.window: found 0, expected greater than 0" in refused
    assert "systems.window.model.windows: unknown key; did you mean 'window'?; allowed: family, width, " in refused


@pytest.mark.slow
def test_the_page_leads_to_a_table(commands: list[str], tmp_path: Path) -> None:
    printed = [run(command, tmp_path).stdout for command in commands]
    assert "systems: base, window" in printed[0]
    assert "window: 4" in (tmp_path / "micro.yaml").read_text()
    assert "| Window of 4 tokens " in printed[-1]


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("def near(mask", "def near((mask", r"line \d+: SyntaxError: "),
        ("window: Positions = Field", "window: Position = Field", "name 'Position' is not defined"),
        ("def build(", "def built(", "no function build, which makes the model"),
        ("distances_TT == 0)", "distances_TT[1:] == 0)", r"line \d+, in near: RuntimeError: "),
        ("    return Transformer(", "    return dict(", "AttributeError: "),
    ],
)
def test_a_mistake_in_the_family_is_told_by_file_and_line(
    commands: list[str], tmp_path: Path, right: str, wrong: str, told: str
) -> None:
    family = tmp_path / "phrasemt" / "models" / "window_attention.py"
    text = family.read_text()
    assert right in text
    family.write_text(text.replace(right, wrong))
    said = run(commands[0], tmp_path, code=2).stderr
    assert re.search(rf"models/window_attention\.py(: |, )({told})", said), said
    assert "Traceback" not in said
    assert "report it" not in said
