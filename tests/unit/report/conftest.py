"""The golden study: as it is, to be read, and a copy, which a test may damage."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden import GoldenStudy, study_of


@pytest.fixture
def finished(golden: Path) -> Iterator[GoldenStudy]:
    """The study of the first three systems, with table and report, in the current folder. Nobody may change it."""
    with contextlib.chdir(golden):
        yield GoldenStudy(study_of())


@pytest.fixture
def study(golden: Path, tmp_path: Path) -> Iterator[GoldenStudy]:
    """A copy of it."""
    shutil.copytree(golden, tmp_path, dirs_exist_ok=True)
    with contextlib.chdir(tmp_path):
        yield GoldenStudy(study_of())
