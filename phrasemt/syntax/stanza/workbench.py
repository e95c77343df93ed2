"""What all trainings of parsers and chunkers share: a folder to work in, progress in the log, model files as bytes."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasemt.files.lines import final_name


@contextlib.contextmanager
def work_folder(output: Path) -> Iterator[Path]:
    """A folder beside an output, gone afterwards; what a killed run of the same output has left goes too."""
    prefix = f".{final_name(output).name}.work-"
    for leftover in output.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=output.parent) as folder:
        yield Path(folder).absolute()


class ProgressLog:
    """One line in the log for each evaluation, with the best score so far and the time that is left."""

    def __init__(self, log: logging.Logger, stage: str, unit: str, total: int) -> None:
        self._log, self._stage, self._unit, self._total = log, stage, unit, total
        self._start, self._best = time.monotonic(), 0.0

    def report(self, done: int, score: float | None = None, measure: str = "") -> None:
        """`done` of the units are done; score: of the development set, a share from 0 to 1."""
        left = (time.monotonic() - self._start) / done * (self._total - done)
        dev = ""
        if score is not None:
            self._best = max(self._best, score)
            dev = f", dev {measure} {score:.1%}, best {self._best:.1%}"
        self._log.info(
            "%s: %s %d of %d%s, about %s left",
            self._stage,
            self._unit,
            done,
            self._total,
            dev,
            f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s",
        )


def save_model(content: dict[str, Any], path: Path) -> None:
    """Save what Stanza keeps in a model file. Equal contents give equal bytes; Stanza's own format holds addresses."""
    import torch

    with path.open("wb") as stream:  # a path would give its name to the archive inside
        torch.save(content, stream)
