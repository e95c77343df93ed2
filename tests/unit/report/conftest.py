"""A copy of the golden study, which a test may damage."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden import GoldenStudy, study_of


@pytest.fixture
def study(golden: Path, tmp_path: Path) -> Iterator[GoldenStudy]:
    """The study of the first three systems, with table and report, in the current folder."""
    shutil.copytree(golden, tmp_path, dirs_exist_ok=True)
    with contextlib.chdir(tmp_path):
        yield GoldenStudy(study_of())
