"""An invented study of two data sets with its table and its report, made once for all processes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import invented_study
import pytest
from invented_study import InventedStudy, study_of


@pytest.fixture(scope="session")
def finished(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """The folder of the study. Nobody may change it."""

    def make(folder: Path) -> None:
        study = invented_study.build(folder)
        with contextlib.chdir(folder):
            study.make_table()
            study.write_report()

    return made_once("invented", make)


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Iterator[InventedStudy]:
    """The study in a copy that is the current folder, which a test may damage."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    with contextlib.chdir(tmp_path):
        yield InventedStudy(study_of())
