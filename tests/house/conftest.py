"""What the tests of the house ask of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s#]+)", re.MULTILINE)


@pytest.fixture(scope="session")
def pins(repository: Path) -> dict[str, str]:
    """The versions of constraints.txt."""
    found = _PIN.findall((repository / "constraints.txt").read_text())
    assert len({name for name, _ in found}) == len(found), "a package stands twice in constraints.txt"
    return dict(found)
