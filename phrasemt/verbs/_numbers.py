"""Numbers on the command line."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable

_LONGEST = 40  # characters of a wrong argument in a message


def in_range(
    kind: type[int] | type[float], low: float, high: float = math.inf, *, because: str = ""
) -> Callable[[str], float]:
    """Return a function for `add_argument(type=...)`, which reads a finite number from `low` to `high`.

    because: the reason for the highest number, for the message.
    """

    def read(text: str) -> float:
        try:
            found = kind(text)
        except ValueError:
            found = math.nan
        if not low <= found <= high or found == math.inf:
            what = "whole number" if kind is int else "number"
            limit = "" if math.isinf(high) else f" to {high:.10g}"
            reason = f", {because}" if because else ""
            given = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
            raise argparse.ArgumentTypeError(f"expected a {what} from {low:.10g}{limit}{reason}, found {given!r}")
        return found

    return read


def cores() -> Callable[[str], float]:
    """Return the function for `--cores`: each core is a process or a thread, so more than there are help nobody."""
    return in_range(int, 1, len(os.sched_getaffinity(0)), because="the cores that this process may use")
