"""Fixtures that several tiers of tests share. Only the fixtures that need torch import it: the others start quickly."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tiny import TinyAnnotators, TinyData

REPOSITORY = Path(__file__).parents[1]
os.environ.pop("PHRASEMT_CACHE", None)  # of the person who runs the tests


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(autouse=True)
def _no_cache_of_another_test() -> Iterator[None]:
    """Takes back what opening a study sets for its process: no test is to find what another one made."""
    yield
    os.environ.pop("PHRASEMT_CACHE", None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real corpora beside the checkout, when they are there."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder shared/data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """For tensors so small that threads only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> TinyData:
    from tiny import make_tiny_data

    return make_tiny_data(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_annotators(tmp_path_factory: pytest.TempPathFactory) -> TinyAnnotators:
    from tiny import make_tiny_annotators

    return make_tiny_annotators(tmp_path_factory.mktemp("annotators"))


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
