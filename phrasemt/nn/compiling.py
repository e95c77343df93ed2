"""torch.compile of two functions in trainings on packed rows: encoder and decoder, and what the loss does to logits.

Only the number of rows, or of logits, varies in each, so each has one graph.

`PHRASEMT_COMPILE` in the environment says where: `auto` on GPUs of compute capability 8.0 and newer, `on` also on
others and on a CPU, whose trainings then read packed rows, `off` nowhere. It belongs to the machine and triggers no
rerun. The compiler keeps its code in `TORCHINDUCTOR_CACHE_DIR`. The masks of dropout follow from torch's generator, as
without it, but are others.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from phrasemt.batching.batch import Tensors
from phrasemt.errors import PhrasemtError

P = ParamSpec("P")
Result = TypeVar("Result")

SWITCH = "PHRASEMT_COMPILE"
_SINCE = (8, 0)
# The backend of torch.compile within a block of `compiling`.
_backend: ContextVar[str | None] = ContextVar("backend", default=None)


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
    from torch._dynamo.utils import calculate_time_spent  # two seconds, which only a training spends

    return float(calculate_time_spent()["total_wall_time"])


@contextmanager
def compiling(backend: str | None) -> Iterator[None]:
    """Within the block, calls of `compilable` functions are compiled by a backend of torch.compile; None: by none."""
    before = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(before)


def compilable(function: Callable[P, Result]) -> Callable[P, Result]:
    """Make a function of a module one that `compiling` compiles, once for any number of rows.

    Rows are the first axis of its tensors, and the axis B of its `Tensors`. A call on a single row stays as it is,
    because a compiler takes the number 1 for a constant.
    """
    compiled = functools.cache(functools.partial(torch.compile, function, fullgraph=True, dynamic=False))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        if (backend := _backend.get()) is None:
            return function(*args, **kwargs)
        parts = [argument.tensors() for argument in args if isinstance(argument, Tensors)]
        in_rows = [x for x in args if isinstance(x, Tensor)]
        in_rows += [x for x, axes in itertools.chain(*parts) if axes.startswith("B")]
        if len(in_rows[0]) == 1:
            return function(*args, **kwargs)
        for x in in_rows:
            torch._dynamo.mark_dynamic(x, 0)  # type: ignore[no-untyped-call]
        result: Result = compiled(backend=backend)(*args, **kwargs)
        return result

    return call
