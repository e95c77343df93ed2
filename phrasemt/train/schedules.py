"""Learning rates."""

from __future__ import annotations

from phrasemt.config import Adam


def noam(update: int, *, width: int, settings: Adam) -> float:
    """factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5) for update t = 1, 2, ... (Vaswani et al. 2017, Eq. 3)."""
    return float(settings.factor * width**-0.5 * min(update**-0.5, update * settings.warmup**-1.5))
