"""Counts of contrastive pairs by hand, and tests of differences in accuracy against exact ones."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from phrasemt.artefacts.translations import ContrastAccuracy
from phrasemt.decoding.contrasts import count_preferred, decisions
from phrasemt.errors import MismatchError
from phrasemt.scoring.gains import ALL, DISTANCES, MORE_THAN_10, DecidedPairs, PairedTest


def accuracy(system: str, right: list[bool], distances: list[int | None]) -> ContrastAccuracy:
    columns = ["verb"] * len(right), distances, right
    return ContrastAccuracy(
        dataset="d",
        contrast_set="c",
        system=system,
        seed=1,
        kinds=count_preferred(*columns),
        decisions=decisions(*columns),
    )


def test_difference_in_accuracy_by_distance() -> None:
    """At distance 9 one system alone decides 12 of 20 pairs right, and the other one alone 2: the exact sign test."""
    distances: list[int | None] = [1] * 10 + [9] * 20 + [14] * 10
    first = [True] * 10 + [False] * 12 + [True] * 8 + [False] * 10
    second = [True] * 10 + [True] * 18 + [False] * 2 + [False] * 10
    sides = {"a": [accuracy("a", first, distances)], "b": [accuracy("b", second, distances)]}
    pairs = DecidedPairs(name="d", of_systems=sides, test=PairedTest(samples=2000, seed=1))
    found = pairs.gains(None).of("a", "b", groups=DISTANCES, joint=(MORE_THAN_10, ALL))
    groups = {group.name: group for group in found.groups}
    assert {name: group.sentences for name, group in groups.items()} == {"1-2": 10, "9-12": 20, ">12": 10}
    far = groups["9-12"].comparison
    assert (far.baseline.value, far.system.value, far.difference.value) == pytest.approx((40, 90, 50))
    exact = 2 * sum(comb(14, wins) for wins in range(3)) / 2**14
    assert far.p_values.two_sided == pytest.approx(exact, abs=0.012)
    assert groups["1-2"].comparison.p_values.two_sided == 1
    more, every = found.joint
    assert (more.name, more.sentences, every.sentences) == (">10", 10, 40)
    assert every.comparison.difference.value == pytest.approx(25)


def test_equal_systems_rarely_differ_on_pairs() -> None:
    """Simulated null data: pairs and trainings vary, the systems do not differ. 6 % and two deviations of 100."""
    generator = np.random.default_rng(7)
    distances: list[int | None] = [9] * 150
    significant = []
    for _ in range(100):
        hard = generator.normal(0.5, 1, size=150)
        sides = {
            system: [
                accuracy(system, list(hard + skill + generator.normal(0, 0.5, size=150) > 0), distances)
                for skill in generator.normal(0, 0.1, size=3)
            ]
            for system in "ab"
        }
        pairs = DecidedPairs(name="d", of_systems=sides, test=PairedTest(samples=200, seed=1))
        found = pairs.gains(None).of("a", "b", groups=[(9, 12)])
        p_value = found.groups[0].comparison.p_values.over_seeds
        assert p_value is not None
        significant.append(p_value < 0.05)
    assert np.mean(significant) <= 0.06 + 2 * np.sqrt(0.06 * 0.94 / 100)


def test_systems_are_compared_on_the_same_pairs() -> None:
    sides = {"a": [accuracy("a", [True], [1])], "b": [accuracy("b", [True], [2])]}
    with pytest.raises(MismatchError, match="b, seed 1: the decisions are about other pairs"):
        DecidedPairs(name="d", of_systems=sides, test=PairedTest(samples=2, seed=1)).gains(None)


def test_counts_by_kind_and_at_the_limits_of_the_groups_of_distances() -> None:
    pairs = [
        ("verb", 1, True),
        ("verb", 2, False),
        ("negation", None, True),
        ("verb", 3, True),
        ("verb", 10, True),
        ("verb", 11, False),
        ("verb", 15, True),
        ("verb", 16, False),
        ("verb", 400, True),
        ("verb", None, True),
        ("", 2, False),
    ]
    verb, negation, other = count_preferred(*zip(*pairs, strict=True))  # type: ignore[arg-type]
    assert (verb.kind, verb.pairs, verb.right) == ("verb", 9, 6)
    groups = {group.name: (group.pairs, group.right) for group in verb.by_distance}
    assert groups == {"1-2": (2, 1), "3-4": (1, 1), "9-10": (1, 1), "11-15": (2, 1), "16+": (2, 1)}
    assert (negation.kind, negation.pairs, negation.right, negation.by_distance) == ("negation", 1, 1, [])
    assert (other.kind, [group.name for group in other.by_distance]) == ("other", ["1-2"])
