"""Fixtures that several tiers of tests share. Only the fixtures that need torch import it: the others start quickly."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tiny import TinyAnnotators, TinyData
    from warm_python import WarmPython

REPOSITORY = Path(__file__).parents[1]
os.environ.pop("PHRASEMT_CACHE", None)  # of the person who runs the tests
os.environ["PHRASEMT_COMPILE"] = "off"  # on a GPU it would take minutes; tests that want it turn it on
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of a study's many processes would compile the package again
os.environ["OMP_NUM_THREADS"] = "1"  # the processes of `make test` share the cores, and small tensors gain nothing
hypothesis.settings.register_profile("busy", deadline=None)  # a slow machine is no mistake of the code
hypothesis.settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest first: tests of the finished study, then other workflows.

    Of two processes the first begins with these, and makes the finished study at once; the second begins in the middle
    of the list, needs no study, and then takes over tests from the end of what is left, where tests are short.
    """

    def rank(item: pytest.Item) -> int:
        if "undisturbed" in getattr(item, "fixturenames", ()):
            return 0
        return 1 if item.path.parent.name == "workflow" else 2

    items.sort(key=rank)


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_settings_of_an_earlier_test() -> Iterator[None]:
    """Takes back what studies and stages set for their process: the cache and the number of threads."""
    yield
    os.environ.pop("PHRASEMT_CACHE", None)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real corpora beside the checkout, when they are there."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder shared/data beside the checkout")
    return folder


MadeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """Fills folders that all processes of a test run share: `made_once(name, make)` returns the folder `name`.

    The first process that asks calls make(folder); the others wait for it. Nobody may change what is in the folder.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        folder, finished = shared / f"shared-{name}", shared / f"shared-{name}.finished"
        with (shared / f"shared-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a process that failed at it
                folder.mkdir()
                make(folder)
                finished.touch()
        return folder

    return folder


@pytest.fixture(scope="session")
def tiny_data(made_once: MadeOnce) -> TinyData:
    from tiny import TinyData

    return TinyData(made_once("data", lambda folder: TinyData(folder).make()))


@pytest.fixture(scope="session")
def tiny_annotators(made_once: MadeOnce) -> TinyAnnotators:
    from tiny import TinyAnnotators

    return TinyAnnotators(made_once("annotators", lambda folder: TinyAnnotators(folder).make()))


@pytest.fixture(scope="session")
def golden(made_once: MadeOnce) -> Path:
    """The folder of a finished study, which nobody may change (tests/helpers/golden.py)."""
    from golden import make_golden

    return made_once("golden", make_golden)


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmPython]:
    """For a workplace whose commands find all libraries imported."""
    from warm_python import warm_python

    with tempfile.TemporaryDirectory() as folder, warm_python(Path(folder)) as python:
        yield python


@pytest.fixture(autouse=True)
def _no_logging_of_an_earlier_test() -> Iterator[None]:
    """Takes back what the command line sets up for its process: level and handlers."""
    yield
    root = logging.getLogger()
    for handler in [
        handler for handler in root.handlers if type(handler) in (logging.StreamHandler, logging.FileHandler)
    ]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(logging.WARNING)
    logging.getLogger("phrasemt").setLevel(logging.NOTSET)
