"""Counts of contrastive pairs, by hand."""

from __future__ import annotations

from phrasemt.scoring.contrasts import count_preferred


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
