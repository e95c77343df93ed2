"""What the path of an artefact says about it."""

from __future__ import annotations

from pathlib import Path


def dataset_of(path: Path, folder: str) -> str:
    """Return the data set of an artefact at .../<data set>.<source>-<target>/<folder>/..."""
    inner = next(parent for parent in path.absolute().parents if parent.name == folder)
    return inner.parent.name.split(".")[0]
