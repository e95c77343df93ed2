"""A folder for the files that the making of an output needs."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from phrasemt.files.lines import final_name


@contextlib.contextmanager
def work_folder(output: Path) -> Iterator[Path]:
    """A folder beside an output, absolute, for files that go when the block ends; what a killed run left goes first.

    The workflow never runs two jobs for one output.
    """
    final = final_name(output).absolute()
    folder = final.with_name(f"{final.name}.work")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
