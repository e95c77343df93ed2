"""Texts that verbs read as a whole."""

from __future__ import annotations

from pathlib import Path

from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel


def read_columns(*paths: Path) -> list[list[str]]:
    """Return the lines of each of some parallel texts.

    Raises DataError for texts without a line, and the errors of `read_parallel`.
    """
    rows = list(read_parallel(*paths))
    if not rows:
        raise DataError("no lines", where=paths[0], next_step="give a file with at least one sentence")
    return [list(side) for side in zip(*rows, strict=True)]
