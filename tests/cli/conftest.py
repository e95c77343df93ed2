"""Commands in this process, and what they say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import pytest

from phrasemt.cli import main


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def phrasemt(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`phrasemt("status", "demo")`, as on the command line."""

    def call(*arguments: object) -> Said:
        code = main(list(map(str, arguments)))
        logging.shutdown()
        return Said(code, *capsys.readouterr())

    return call
