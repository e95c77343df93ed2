"""The tiny study, really run once: what the tests of reruns, kills and results look at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from workplace import Workplace


@pytest.fixture(scope="session")
def _finished(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace.new(repository, tmp_path_factory.mktemp("workplace"))
    done = workplace.snakemake()
    assert done.returncode == 0, done.stderr[-5000:]
    return workplace


@pytest.fixture
def finished(_finished: Workplace, tmp_path: Path) -> Workplace:
    """The finished study in a copy of its own (modification times are kept)."""
    shutil.copytree(_finished.folder, tmp_path / "copy")
    return Workplace(tmp_path / "copy")
