"""Programs that note how they are called, and the stages of Moses called as the command line calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_moses import RecordedMoses


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedMoses:
    moses = RecordedMoses(tmp_path / "moses")
    monkeypatch.setenv("PHRASEMT_MOSES", str(moses.folder))
    return moses
