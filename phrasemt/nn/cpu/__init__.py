"""Forms of operations that are faster on a CPU than the plain torch code in `phrasemt/nn/`, and the switch for them.

Each file here holds one form and says what it gains. The plain code stands in the file of the same name one folder up,
which asks `applies` for the choice. `PHRASEMT_CPU_FORMS=off` in the environment turns all forms off; tests and
benchmarks turn single forms off with `without`.

The switch is an environment variable and no setting of a study, because the choice belongs to the machine: a form
computes the same function as the plain code. Results differ by rounding and by the random numbers of dropout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from torch import Tensor

from phrasemt.errors import PhrasemtError

Form = Literal["attention", "dropout"]
FORMS: tuple[Form, ...] = get_args(Form)
SWITCH = "PHRASEMT_CPU_FORMS"


def _chosen() -> frozenset[Form]:
    """Return the forms that the environment asks for."""
    value = os.environ.get(SWITCH, "on")
    if value not in ("on", "off"):
        what = "unknown value of an environment variable"
        next_step = f"unset {SWITCH}, or set it to off for the plain torch code"
        raise PhrasemtError(what, where=SWITCH, expected="on or off", found=value, next_step=next_step)
    return frozenset(FORMS) if value == "on" else frozenset()


_in_use = _chosen()


def applies(form: Form, x: Tensor) -> bool:
    """Return whether the form computes the operation on x: x is on a CPU and nobody has turned the form off."""
    return x.device.type == "cpu" and form in _in_use


@contextmanager
def without(*forms: Form) -> Iterator[None]:
    """Turn forms off within a block."""
    global _in_use
    before = _in_use
    _in_use = _in_use - set(forms)
    try:
        yield
    finally:
        _in_use = before
