"""Tools for trainings with Stanza's training code: work folder, options, progress in the log, model files.

Stanza's command-line programs ask for a network, for Java and for much more time than a study has. The stages therefore
call Stanza's training loops in this process, with small models and with an evaluation of our own, and remove all paths
from the saved models: equal data and settings give equal bytes. A training uses one core and no GPU, whatever `cores`
says: more threads change the sums, and they hardly speed up models of this size.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from phrasemt.syntax.stanza.runtime import Device

# The device of training and scoring, so that the results do not depend on whether the machine has a GPU.
DEVICE: Device = "cpu"
# Number of evaluations in the training of a tagger or chunker.
EVALUATIONS = 8
# Stanza stores this name in its models.
SHORTHAND = "phrasemt_trained"


def flags(folder: Path, vectors: Path, seed: int, **options: object) -> list[str]:
    """Command-line options for Stanza's programs, which train in a work folder; True means a flag without value."""
    shared = {
        "shorthand": SHORTHAND,
        "wordvec_pretrain_file": vectors.absolute(),
        "save_dir": folder,
        "save_name": "model.pt",
        "seed": seed,
        "device": DEVICE,
    }
    return [
        text
        for name, value in (shared | options).items()
        for text in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]


def train_by_updates(
    program: Any, folder: Path, output: Path, log: logging.Logger, measure: str, *, vectors: Path, settings: Any,
    updates: int, **options: object,
) -> None:  # fmt: skip
    """Train a tagger or chunker by Stanza's program, and keep its best evaluation on dev.

    folder: a work folder with the files `train` and `dev`. measure: the name of the score in the log.
    """
    from stanza.models.common.utils import set_random_seed

    interval = max(1, updates // EVALUATIONS)
    sizes = {
        "batch_size": 32,
        "max_steps": interval * EVALUATIONS,
        "eval_interval": interval,
        "hidden_dim": settings.hidden,
        "char_hidden_dim": max(1, settings.hidden // 2),
        "char_emb_dim": 32,
    }
    files = {"train_file": folder / "train", "eval_file": folder / "dev"}
    arguments = program.parse_args(flags(folder, vectors, settings.seed, **files, **sizes, **options))
    progress = ProgressLog(log, "update", interval * EVALUATIONS)
    set_random_seed(arguments["seed"])
    with evaluations_of_stanza(lambda done, score: progress.report(done, score, measure)):
        program.train(arguments)
    publish_model(folder, output)


class ProgressLog:
    """One line in the log for each evaluation: the best score so far and the time left."""

    def __init__(self, log: logging.Logger, unit: str, total: int) -> None:
        """log: `phrasemt.` and the name of the stage; unit: update or epoch."""
        self._log, self._unit, self._total = log, unit, total
        self._start, self._best = time.monotonic(), 0.0

    def report(self, done: int, score: float | None = None, measure: str = "") -> None:
        """done: finished units; score: score on dev, a share from 0 to 1; measure: its name."""
        left = (time.monotonic() - self._start) / done * (self._total - done)
        dev = ""
        if score is not None:
            self._best = max(self._best, score)
            dev = f", dev {measure} {score:.1%}, best {self._best:.1%}"
        self._log.info(
            "%s: %s %d of %d%s, about %s left",
            self._log.name.removeprefix("phrasemt."),
            self._unit,
            done,
            self._total,
            dev,
            f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s",
        )


@contextlib.contextmanager
def evaluations_of_stanza(report: Callable[[int, float], None]) -> Iterator[None]:
    """Call report(update, dev score) for each evaluation in Stanza's log, and hide the rest of that log."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if match := re.search(r"step (\d+): .*dev_score = ([\d.]+)", record.getMessage()):
                report(int(match[1]), float(match[2]))

    stanza = logging.getLogger("stanza")
    before = stanza.handlers, stanza.level, stanza.propagate
    stanza.handlers, stanza.level, stanza.propagate = [Listener()], logging.INFO, False
    try:
        yield
    finally:
        stanza.handlers, stanza.level, stanza.propagate = before


def publish_model(folder: Path, output: Path) -> None:
    """Write the model that a training left in its work folder. Paths and orders, which differ between runs, go."""
    import torch

    content = torch.load(folder / "model.pt", map_location="cpu", weights_only=True)
    parameters = content.get("params", content)
    parameters["config"] = {
        name: Path(value).name.replace(folder.name, "") if isinstance(value, str) and value.startswith("/") else value
        for name, value in parameters["config"].items()
    }
    if "rare_words" in parameters:
        parameters["rare_words"] = sorted(parameters["rare_words"])
    save_model(content, output)


def save_model(content: dict[str, Any], path: Path) -> None:
    """Save the content of a model file so that equal contents give equal bytes."""
    import torch

    with path.open("wb") as stream:  # torch would write the name of a path into the file
        torch.save(content, stream)
