"""Where the programs of this folder compute, and where they leave their figures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from phrasemt.nn.precision import choose_device

DEVICE = choose_device(cores=1)  # as each stage does; the sizes on a CPU are tiny
ON_GPU = DEVICE.type == "cuda"


class Figures:
    """The figures of a program. Each row is printed, and written to the file $RESULTS, as soon as it is known."""

    def __init__(self) -> None:
        if not ON_GPU and os.environ.get("DEV") != "cpu":
            raise SystemExit("no GPU was found. DEV=cpu runs all of it small on a CPU")
        self._rows: dict[str, dict[str, Any]] = {}
        name = torch.cuda.get_device_name() if ON_GPU else "CPU"
        self.add(name, torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())

    def add(self, row: str, **figures: Any) -> None:
        self._rows[row] = figures
        words = (
            f"{key} {figure:.3g}" if isinstance(figure, float) else f"{key} {figure}" for key, figure in figures.items()
        )
        print(f"{row:32}", *words, flush=True)
        if path := os.environ.get("RESULTS"):
            Path(path).write_text(json.dumps(self._rows, indent=1) + "\n")


def finish() -> None:
    """Wait until the GPU has done all that it was asked for."""
    if ON_GPU:
        torch.cuda.synchronize()
