"""Contrastive pairs that a model decides right: counts by kind of mistake and by distance, and tests of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phrasemt.artefacts.scores import GainByLength, MetricScore, Scores
from phrasemt.artefacts.signatures import mean_signature
from phrasemt.artefacts.translations import ContrastAccuracy, ContrastDecisions, DistanceCounts, KindCounts
from phrasemt.errors import check_equal
from phrasemt.scoring.gains import Range, gain_by_length

# Groups of distances in words; Xu et al. (2020), Figure 4, print one limit only (docs/decisions.md, X18).
GROUPS = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 15), (16, None))
# Groups in which differences are tested: with fewer, larger groups a test has more power.
TESTED: tuple[Range, ...] = ((1, 2), (3, 4), (5, 8), (9, 12), (13, None))
MORE_THAN_10: Range = (11, None)  # Xu et al. (2020), Figure 4
_METRIC = "contrastive accuracy"


def decisions(kinds: Sequence[str], distances: Sequence[int | None], preferred: Sequence[bool]) -> ContrastDecisions:
    """The decisions about pairs, with the arguments of `count_preferred`."""
    places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
    return ContrastDecisions(kinds=[places[kind] for kind in kinds], distances=list(distances), right=list(preferred))


def gain_by_distance(
    baseline: Sequence[ContrastAccuracy],
    system: Sequence[ContrastAccuracy],
    *,
    kind: int = 0,
    ranges: Sequence[Range] = TESTED,
    joint: Sequence[Range] = (MORE_THAN_10, (1, None)),
    repeated: Sequence[Sequence[ContrastAccuracy]] | None = None,
    samples: int,
    seed: int,
) -> GainByLength:
    """Test the difference of two systems in accuracy, in percent, by the distance between words that must agree.

    baseline, system: files of their trainings about one set. kind: the place of a kind of mistake. Pairs without a
    distance are left out. The slope is that for twice the distance. repeated: files of the systems that tell how much
    trainings differ; None: of both. Raises MismatchError for files about other pairs.
    """
    first = baseline[0].decisions
    for file in (*baseline, *system):
        what, next_step = "the decisions are about other pairs", "score all systems on the same pairs"
        of_file = (file.decisions.kinds, file.decisions.distances)
        where = f"{file.system}, seed {file.seed}"
        check_equal(True, of_file == (first.kinds, first.distances), what, where=where, next_step=next_step)
    pairs = zip(first.kinds, first.distances, strict=True)
    chosen = [place for place, (of, distance) in enumerate(pairs) if of == kind and distance is not None]
    of_baseline, of_system, *of_repeated = (
        [_scores([file.decisions.right[place] for place in chosen]) for file in side]
        for side in (baseline, system, *(repeated or ()))
    )
    return gain_by_length(
        of_baseline,
        of_system,
        np.array([first.distances[place] for place in chosen], dtype=np.int64),
        metric=_METRIC,
        ranges=ranges,
        joint=joint,
        repeated=of_repeated if repeated else None,
        samples=samples,
        seed=seed,
    )


def _scores(right: Sequence[bool]) -> Scores:
    """Decisions as scores of sentences, whose mean is the accuracy in percent."""
    metric = MetricScore(score=0, signature=mean_signature(_METRIC, "higher", "forced decoding"))
    rows: list[list[int | float]] = [[100 * wins, 1] for wins in right]
    return Scores(sentences=len(rows), references={}, metrics={_METRIC: metric}, statistics={_METRIC: rows})


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
