"""Power of tests of differences between trainings: what they can show, and how many trainings that takes.

Only the deviation between trainings counts here; the test set is taken as given.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_LEVEL, _POWER = 0.05, 0.8


def seeds_needed(difference: float, *deviations: float) -> int | None:
    """Trainings of each of two systems that show a difference of their means with p < 0.05 and power 0.8.

    deviations: of the scores between trainings. Normal approximation of the two-sided t-test with the correction of
    Guenther (1981) for small numbers; at least 2. None without a difference.
    """
    if difference == 0:
        return None
    level, power = (NormalDist().inv_cdf(share) for share in (1 - _LEVEL / 2, _POWER))
    variance = sum(deviation**2 for deviation in deviations)
    return max(2, math.ceil((level + power) ** 2 * variance / difference**2 + level**2 / 4))


def detectable(deviation: float, freedom: int) -> float:
    """The difference that a two-sided t-test shows with p < 0.05 and power 0.8.

    deviation: of the difference, estimated with so many degrees of freedom.
    """
    return deviation * (t_quantile(1 - _LEVEL / 2, freedom) + t_quantile(_POWER, freedom))


def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t, for a share above 1/2 (SciPy would be a dependency for this function)."""
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + _within(middle, freedom)) / 2 < share else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability of |t| < sqrt(freedom) tan(angle) (Abramowitz and Stegun 1964, Eqs. 26.7.3 and 26.7.4)."""
    odd = freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * power / (power + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
