"""torch.compile of a training on packed rows: a graph of encoder and decoder, and one of what the loss does to logits.

Only the number of rows, or of words, varies in each.

`PHRASEMT_COMPILE` in the environment says where: `auto` on GPUs of compute capability 8.0 and newer, `on` also on
others and on a CPU, whose trainings then read packed rows, `off` nowhere. It belongs to the machine and triggers no
rerun. The compiler keeps its code in `TORCHINDUCTOR_CACHE_DIR`. The masks of dropout follow from torch's generator, as
without it, but are others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import calculate_time_spent

from phrasemt.batching.batch import Source, Target
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.losses import Normalised

log = logging.getLogger("phrasemt.train_model")

SWITCH = "PHRASEMT_COMPILE"
_SINCE = (8, 0)


def compiles_on(device: torch.device) -> bool:
    """Return whether trainings on this device are compiled. Raises PhrasemtError for an unknown PHRASEMT_COMPILE."""
    value = os.environ.get(SWITCH, "auto")
    if value not in ("auto", "on", "off"):
        what = "unknown value of an environment variable"
        next_step = f"unset {SWITCH}, or set it to off to compute without a compiler"
        raise PhrasemtError(what, where=SWITCH, expected="auto, on or off", found=value, next_step=next_step)
    if value == "auto":
        return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _SINCE
    return value == "on"


def seconds_of_compiling() -> float:
    """Return the seconds that this process has spent on compiling."""
    return float(calculate_time_spent()["total_wall_time"])


class Compiled:
    """Compiles a model, in a `with` block around each forward pass on packed rows.

    wanted: False for a block without effect. backend: of torch.compile.
    """

    def __init__(self, model: TranslationModel[Any, Any], *, wanted: bool, backend: str = "inductor") -> None:
        self._model, self._states, self._normalise = model, model.states, model.words.normalise
        compiled = partial(torch.compile, fullgraph=True, dynamic=False, backend=backend)
        self._compiled = (compiled(self._states), compiled(self._normalise)) if wanted else None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if self._compiled is None:
            yield
            return
        self._model.states = self._of_rows  # type: ignore[method-assign]
        self._model.words.normalise = self._of_words
        try:
            yield
        finally:
            del self._model.states, self._model.words.normalise

    def gives_up(self, error: Exception) -> bool:
        """Compile no more, after an error that the compiler may have raised. Returns whether it was in use."""
        if self._compiled is None or isinstance(error, PhrasemtError):
            return False
        self._compiled = None
        message = " ".join(f"{error}".split("\n")[:2])  # the second line names the cause
        what = "train_model: warning: the compiler of torch fails, so the training goes on without it (%s=off): %s: %s"
        log.warning(what, SWITCH, type(error).__name__, message)
        return True

    def _of_rows(self, source: Source, target: Target) -> Tensor:
        if len(target.inputs_BT) == 1 or self._compiled is None:  # a compiler takes the number 1 for a constant
            return self._states(source, target)
        for side in (source, target):
            side.map(_rows_vary)
        states_BTD: Tensor = self._compiled[0](source, target)
        return states_BTD

    def _of_words(self, logits_nV: Tensor, references_n: Tensor, smoothing: float) -> Normalised:
        if len(references_n) == 1 or self._compiled is None:
            return self._normalise(logits_nV, references_n, smoothing)
        normalised: Normalised = self._compiled[1](_rows_vary(logits_nV, "B"), _rows_vary(references_n, "B"), smoothing)
        return normalised


def _rows_vary(x: Tensor, axes: str) -> Tensor:
    if axes.startswith("B"):
        torch._dynamo.mark_dynamic(x, 0)  # type: ignore[no-untyped-call]
    return x
