"""Forms of operations that are faster on a CPU than the plain torch code in `phrasemt/nn/`, and the switch for them.

The form of dropout stands here, that of attention in `attention.py`. `layers.py` and `attention.py` ask `applies` for
the choice. `PHRASEMT_CPU_FORMS=off` in the environment turns all forms off. A form computes the same function as the
plain code; results differ by rounding and by the random numbers of dropout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import numpy as np
import torch
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
    """Return whether the form computes the operation on x: on a CPU, not compiled, and nobody has turned it off."""
    return x.device.type == "cpu" and form in _in_use and not torch.compiler.is_compiling()


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


LEVELS = 2**16  # of the random numbers of dropout


def dropout(x: Tensor, probability: float) -> Tensor:
    """Return x with elements set to 0 with the probability, the others scaled so that the expectation stays the same.

    torch draws each Bernoulli variable separately, which takes longer than the matrix products around it; this form
    draws 16 bits for each element (docs/log/performance.md). Its masks differ from those of torch's dropout, and the
    state of torch's generator determines them, too. The probability is rounded to a multiple of 2^-16.
    """
    return x * scaled_mask(x, probability)


def scaled_mask(like: Tensor, probability: float) -> Tensor:
    """Return 0 with the probability, else the scale, in the shape and the type of `like`."""
    dropped_levels = round(probability * LEVELS)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # Four elements for each draw of 64 bits.
    draws = np.random.SFC64(seed).random_raw((like.numel() + 3) // 4)
    bits = torch.from_numpy(draws.view(np.int16))[: like.numel()].view(like.shape)
    kept = bits.ge_(dropped_levels - LEVELS // 2)  # in place, as 0 and 1
    return kept.to(like.dtype).mul_(LEVELS / (LEVELS - dropped_levels))
