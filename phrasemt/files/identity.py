"""Which names lead to one file: links, and paths that are written in different ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

Place = TypeVar("Place")


def one_file(files: Iterable[tuple[Place, Path]]) -> Iterator[tuple[Place, Place]]:
    """Yield the first and each later place that name the same file. Files that do not exist are left out."""
    first: dict[tuple[int, int], Place] = {}
    for place, path in files:
        if path.exists():
            state = path.stat()
            known = first.setdefault((state.st_dev, state.st_ino), place)
            if known is not place:
                yield known, place
