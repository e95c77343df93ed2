"""The tiny study, really run once for all processes: what the tests of reruns, kills and results look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from workplace import Workplace


def _run_study(repository: Path, folder: Path) -> None:
    done = Workplace.new(repository, folder).snakemake()
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture(scope="session")
def _finished(repository: Path, made_once: Callable[[str, Callable[[Path], object]], Path]) -> Workplace:
    return Workplace(made_once("workplace", lambda folder: _run_study(repository, folder)))


@pytest.fixture
def finished(_finished: Workplace, tmp_path: Path) -> Workplace:
    """The finished study in a copy of its own (modification times are kept)."""
    shutil.copytree(_finished.folder, tmp_path / "copy")
    return Workplace(tmp_path / "copy")
