"""Kappas against examples of textbooks, and cases that one can see."""

from __future__ import annotations

import numpy as np
import pytest

from phrasemt.scoring.agreement import cohen_kappa, counts_of, fleiss_kappa

# Fleiss (1971), as worked out in the English Wikipedia, "Fleiss' kappa": 10 subjects, 14 raters, 5 categories.
FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def test_fleiss_example() -> None:
    assert fleiss_kappa(np.array(FLEISS)) == pytest.approx(0.210, abs=5e-4)


def test_cohen_example() -> None:
    """50 proposals: both yes 20, both no 15, first yes alone 5, second yes alone 10. (0.7 - 0.5) / (1 - 0.5) = 0.4."""
    first = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    # With two categories both weights count disagreements alike.
    assert cohen_kappa(first, second, weights="quadratic") == pytest.approx(0.4)


def test_quadratic_weights_by_hand() -> None:
    """Disagreement 1 + 4 = 5 of 4 items. By chance: all pairs of (1, 2, 3, 3) and (1, 1, 3, 1), squares 24 of 16."""
    first, second = [1, 2, 3, 3], [1, 1, 3, 1]
    chance = sum((a - b) ** 2 for a in first for b in second) / 16
    assert cohen_kappa(first, second, weights="quadratic") == pytest.approx(1 - (5 / 4) / chance)


def test_full_agreement_is_one_and_chance_is_zero() -> None:
    assert cohen_kappa([1, 2, 3], [1, 2, 3]) == pytest.approx(1)
    assert cohen_kappa([1, 1, 2, 2], [1, 2, 1, 2]) == pytest.approx(0)
    assert fleiss_kappa(counts_of([(1, 1, 1), (4, 4, 4)])) == pytest.approx(1)


def test_where_chance_explains_all_there_is_no_kappa() -> None:
    assert cohen_kappa([2, 2], [2, 2]) is None
    assert cohen_kappa([], []) is None
    assert fleiss_kappa(counts_of([(5, 5), (5, 5)])) is None
    assert fleiss_kappa(np.zeros((0, 2), dtype=np.int64)) is None
