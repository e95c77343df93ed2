"""The tiny study, really run once for all processes: what the tests of reruns, kills and results look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from workplace import Workplace


@pytest.fixture(scope="session")
def _finished(
    repository: Path, made_once: Callable[[str, Callable[[Path], object]], Path], request: pytest.FixtureRequest
) -> Workplace:
    def run(folder: Path) -> None:
        workplace = replace(Workplace.new(repository, folder), variables=request.getfixturevalue("warm"))
        done = workplace.snakemake()
        assert done.returncode == 0, done.stderr[-5000:]

    return Workplace(made_once("workplace", run))


@pytest.fixture
def finished(_finished: Workplace, tmp_path: Path) -> Workplace:
    """The finished study in a copy of its own (modification times are kept)."""
    shutil.copytree(_finished.folder, tmp_path / "copy")
    return Workplace(tmp_path / "copy")
