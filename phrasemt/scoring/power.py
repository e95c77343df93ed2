"""Power of tests of differences between trainings: what they can show, and how many trainings that takes.

Only the deviation between trainings counts here; the test set is taken as given.
"""

from __future__ import annotations

import math

from scipy.special import ndtri, stdtrit  # scipy.stats takes a second to import

_LEVEL, _POWER = 0.05, 0.8


def seeds_needed(difference: float, *deviations: float) -> int | None:
    """Trainings of each of two systems that show a difference of their means with p < 0.05 and power 0.8.

    deviations: of the scores between trainings. Normal approximation of the two-sided t-test with the correction of
    Guenther (1981) for small numbers; at least 2. None without a difference.
    """
    if difference == 0:
        return None
    level, power = float(ndtri(1 - _LEVEL / 2)), float(ndtri(_POWER))
    variance = sum(deviation**2 for deviation in deviations)
    return max(2, math.ceil((level + power) ** 2 * variance / difference**2 + level**2 / 4))


def detectable(deviation: float, freedom: int) -> float:
    """The difference that a two-sided t-test shows with p < 0.05 and power 0.8.

    deviation: of the difference, estimated with so many degrees of freedom.
    """
    return deviation * float(stdtrit(freedom, 1 - _LEVEL / 2) + stdtrit(freedom, _POWER))
