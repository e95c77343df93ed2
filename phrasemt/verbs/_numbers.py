"""Numbers on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def in_range(kind: type[int] | type[float], low: float, high: float = math.inf) -> Callable[[str], float]:
    """Return a function for `add_argument(type=...)`, which reads a finite number from `low` to `high`."""

    def read(text: str) -> float:
        try:
            found = kind(text)
        except ValueError:
            found = math.nan
        if not (math.isfinite(found) and low <= found <= high):
            what = "whole number" if kind is int else "number"
            limit = "" if math.isinf(high) else f" to {high:g}"
            raise argparse.ArgumentTypeError(f"expected a {what} from {low:g}{limit}, found {text!r}")
        return found

    return read
