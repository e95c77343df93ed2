"""The tiny study, really run once for all processes: what the tests of reruns, kills and results look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from warm_python import WarmPython
from workplace import Workplace


@pytest.fixture(scope="session")
def undisturbed(
    repository: Path, made_once: Callable[[str, Callable[[Path], object]], Path], warm: WarmPython
) -> Workplace:
    """The finished study, for tests that only read."""

    def run(folder: Path) -> None:
        done = Workplace.new(repository, folder, warm=warm).snakemake()
        assert done.returncode == 0, done.stderr[-5000:]

    return Workplace(made_once("workplace", run), warm=warm)


@pytest.fixture
def finished(undisturbed: Workplace, tmp_path: Path) -> Workplace:
    """The finished study in a copy of its own (modification times are kept)."""
    shutil.copytree(undisturbed.folder, tmp_path / "copy")
    return replace(undisturbed, folder=tmp_path / "copy")
