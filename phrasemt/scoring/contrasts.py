"""Contrastive pairs that a model decides right: counts by kind of mistake and by distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from phrasemt.artefacts.translations import ContrastDecisions, DistanceCounts, KindCounts

# Groups of distances in words; Xu et al. (2020), Figure 4, print one limit only (docs/decisions.md, X18).
GROUPS = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 15), (16, None))


def decisions(kinds: Sequence[str], distances: Sequence[int | None], preferred: Sequence[bool]) -> ContrastDecisions:
    """The decisions about pairs, with the arguments of `count_preferred`."""
    places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
    return ContrastDecisions(kinds=[places[kind] for kind in kinds], distances=list(distances), right=list(preferred))


def count_preferred(
    kinds: Sequence[str], distances: Sequence[int | None], preferred: Sequence[bool]
) -> list[KindCounts]:
    """Count pairs by kind, in the order of their first pairs, and by distance. preferred: the right target won."""
    by_kind: dict[str, list[tuple[int, bool]]] = {}
    for kind, distance, wins in zip(kinds, distances, preferred, strict=True):
        by_kind.setdefault(kind, []).append((distance or 0, wins))
    return [
        KindCounts(
            kind=kind or "other",
            pairs=len(pairs),
            right=sum(wins for _, wins in pairs),
            by_distance=[
                DistanceCounts(low=low, high=high, pairs=len(group), right=sum(group))
                for low, high in GROUPS
                if (group := [wins for distance, wins in pairs if low <= distance <= (high or math.inf)])
            ],
        )
        for kind, pairs in by_kind.items()
    ]
