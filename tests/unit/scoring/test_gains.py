"""Gains by the length of the source: against sums by hand, a known slope, and systems that do not differ."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import comb

import numpy as np
import pytest
from made_table import accuracy
from sacrebleu.metrics import BLEU

from phrasemt.artefacts.scores import BLEU_COLUMNS, MetricScore, Scores
from phrasemt.decoding.contrasts import count_preferred
from phrasemt.errors import MismatchError
from phrasemt.scoring.gains import (
    ALL,
    DISTANCES,
    MORE_THAN_10,
    GainByLength,
    Gains,
    PairedTest,
    gains_of_pairs,
    groups_up_to,
    quarters,
)

WORDS = np.array([2, 3, 4, 4, 8, 8, 16, 20])
TOKENIZED = "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0"


def scores(statistics: list[list[float]]) -> Scores:
    """BLEU, or nats per token."""
    bleu = len(statistics[0]) == BLEU_COLUMNS
    about = {"metric": "BLEU", "better": "higher"} if bleu else {"metric": "mean", "better": "lower"}
    metric = MetricScore(score=0, signature=TOKENIZED if bleu else "nats", **about)
    return Scores(sentences=len(statistics), references={}, metrics={"m": metric}, statistics={"m": statistics})


def nats(per_token: np.ndarray) -> Scores:
    """Sentences of two tokens for each word of the source."""
    return scores([[float(value * 2 * words), float(2 * words)] for value, words in zip(per_token, WORDS, strict=True)])


def gain(
    baseline: list[Scores],
    system: list[Scores],
    words: np.ndarray,
    groups: list[tuple[int, int | None]],
    joint: tuple[tuple[int, int | None], ...] = (),
    samples: int = 50,
) -> GainByLength:
    test = PairedTest(samples=samples, seed=1)
    sides = {"baseline": baseline, "system": system}
    return Gains(name="", of_systems=sides, words=words, metric="m", test=test).of(
        "baseline", "system", groups=groups, joint=joint
    )


def test_ranges() -> None:
    assert groups_up_to([9, 12]) == [(0, 9), (10, 12), (13, None)]
    assert quarters(WORDS) == [(0, 3), (4, 6), (7, 10), (11, None)]
    assert quarters(np.array([5, 5, 5])) == [(0, None)]


def test_a_known_slope_in_nats() -> None:
    """Each doubling of the source saves 0.25 nats a token, in each sentence and with each seed."""
    baseline = [nats(np.full(8, 3.0)), nats(np.full(8, 3.0))]
    system = [nats(3.0 - 0.25 * np.log2(WORDS)), nats(3.0 - 0.25 * np.log2(WORDS))]
    groups = [(2, 2), (4, 4), (8, 8), (16, 16)]
    found = gain(baseline, system, WORDS, groups)
    slope = found.slope.difference
    assert (slope.value, slope.low, slope.high) == pytest.approx((0.25, 0.25, 0.25))
    assert found.slope.p_value == pytest.approx(0, abs=0.05)
    assert [group.sentences for group in found.groups] == [1, 2, 2, 1]
    assert [comparison.difference.value for comparison in found.groups.values()] == pytest.approx(
        [-0.25, -0.5, -0.75, -1.0]
    )


def test_bleu_of_a_joint_range_is_sacrebleus_of_its_sentences() -> None:
    generator = np.random.default_rng(5)
    references = [" ".join(generator.choice(list("abcdef"), size=words + 4)) for words in WORDS]
    sides = [[" ".join(generator.permutation(line.split())) for line in references] for _ in range(2)]
    metric = BLEU(tokenize="none")

    def statistics(lines: list[str]) -> list[list[float]]:
        rows = metric._extract_corpus_statistics(lines, [references])
        return [[*row[2:], *row[:2]] for row in rows]

    made = [scores(statistics(side)) for side in sides]
    found = gain([made[0]], [made[1]], WORDS, groups_up_to([3]), joint=((5, None), (90, None)))
    ((above, comparison),) = found.joint.items()  # no sentence has 90 words
    chosen = [row for row, words in enumerate(WORDS) if words >= 5]
    expected = [
        metric.corpus_score([side[row] for row in chosen], [[references[row] for row in chosen]]).score
        for side in sides
    ]
    assert (above.name, above.sentences) == (">4", 4)
    assert comparison.difference.value == pytest.approx(expected[1] - expected[0])


def test_slopes_of_equal_systems_are_rarely_significant() -> None:
    """Simulated null data: sentences and trainings vary, the systems do not differ. 6 % and two deviations of 60."""
    generator = np.random.default_rng(11)
    words = generator.integers(2, 33, size=120)

    def side(trainings: int) -> list[Scores]:
        made = []
        for tilt in generator.normal(0, 0.02, size=trainings):  # how a training treats long sentences
            per_token = 3 + hard + tilt * np.log2(words) + generator.normal(0, 0.3, size=120)
            made.append(scores([[float(v * w), float(w)] for v, w in zip(per_token, words, strict=True)]))
        return made

    found = []
    for _ in range(60):
        hard = generator.normal(0, 1, size=120)
        slope = gain(side(3), side(3), words, quarters(words), samples=200).slope
        p_value = slope.p_value
        found.append(p_value < 0.05)
    assert np.mean(found) <= 0.06 + 2 * np.sqrt(0.06 * 0.94 / 60)


def test_difference_in_accuracy_by_distance() -> None:
    """At distance 9 one system alone decides 12 of 20 pairs right, and the other one alone 2: the exact sign test."""
    distances: list[int | None] = [1] * 10 + [9] * 20 + [14] * 10
    first = [True] * 10 + [False] * 12 + [True] * 8 + [False] * 10
    second = [True] * 10 + [True] * 18 + [False] * 2 + [False] * 10
    sides = {"a": [accuracy("a", first, distances)], "b": [accuracy("b", second, distances)]}
    (gains,) = gains_of_pairs(itertools.chain(*sides.values()), PairedTest(samples=2000, seed=1))
    found = gains.of("a", "b", groups=DISTANCES, joint=(MORE_THAN_10, ALL))
    groups = {group.name: comparison for group, comparison in found.groups.items()}
    assert {group.name: group.sentences for group in found.groups} == {"1-2": 10, "9-12": 20, ">12": 10}
    far = groups["9-12"]
    assert (far.baseline.value, far.system.value, far.difference.value) == pytest.approx((40, 90, 50))
    exact = 2 * sum(comb(14, wins) for wins in range(3)) / 2**14
    assert far.p_of_sentences == pytest.approx(exact, abs=0.012)
    assert groups["1-2"].p_of_sentences == 1
    more, every = found.joint
    assert (more.name, more.sentences, every.sentences) == (">10", 10, 40)
    assert found.joint[every].difference.value == pytest.approx(25)


def test_a_set_with_several_kinds_is_compared_as_a_whole_and_by_kind() -> None:
    """Of 30 pairs of each kind, `b` decides 3 and 12 more right than `a`: 10 and 40 %, and 25 % of all."""
    kinds = ["idiomatic", "literal"] * 30
    sides = {
        system: [accuracy(system, [place // 2 < more[place % 2] for place in range(60)], [None] * 60, kinds)]
        for system, more in {"a": (10, 10), "b": (13, 22)}.items()
    }
    found = {
        gains.name: gains.of("a", "b", joint=[ALL])
        for gains in gains_of_pairs(itertools.chain(*sides.values()), PairedTest(samples=200, seed=1))
    }
    shown = {name: round(next(iter(one.joint.values())).difference.value, 6) for name, one in found.items()}
    assert shown == {"d, c": 25, "d, c, idiomatic": 10, "d, c, literal": 40}


def test_copies_of_pairs_in_one_cluster_prove_no_more_than_the_pairs() -> None:
    """Ten copies of each pair: the interval is that of the pairs, and far narrower if each copy is drawn alone."""
    generator = np.random.default_rng(3)
    decisions = {system: (generator.random(40) < share).tolist() for system, share in {"a": 0.5, "b": 0.8}.items()}

    def width(copies: int, clusters: Sequence[int] = ()) -> float:
        about = {"distances": [1] * 40 * copies, "clusters": clusters}
        files = [accuracy(system, right * copies, **about) for system, right in decisions.items()]
        (gains,) = gains_of_pairs(files, PairedTest(samples=500, seed=1))
        (found,) = gains.of("a", "b", groups=DISTANCES).groups.values()
        return found.difference.high - found.difference.low

    assert width(10, [*range(40)] * 10) == pytest.approx(width(1))
    assert width(10) < width(1) / 2


def test_the_slope_draws_a_cluster_in_all_groups_at_once() -> None:
    """Each unit is decided alike near and far, so the gain of no sample grows with the distance."""
    generator = np.random.default_rng(3)
    files = [
        accuracy(system, (generator.random(40) < share).tolist() * 2, [1] * 40 + [9] * 40, clusters=[*range(40)] * 2)
        for system, share in {"a": 0.5, "b": 0.8}.items()
    ]
    (gains,) = gains_of_pairs(files, PairedTest(samples=500, seed=1))
    slope = gains.of("a", "b", groups=DISTANCES).slope
    assert slope is not None
    assert (slope.difference.low, slope.difference.high) == pytest.approx((0, 0), abs=1e-9)


def test_systems_are_compared_on_the_same_pairs() -> None:
    sides = {"a": [accuracy("a", [True], [1])], "b": [accuracy("b", [True], [2])]}
    with pytest.raises(MismatchError, match="b, seed 1: the decisions are about other pairs"):
        list(gains_of_pairs(itertools.chain(*sides.values()), PairedTest(samples=2, seed=1)))


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
    verb, negation, other = count_preferred(*zip(*pairs, strict=True))
    assert (verb.kind, verb.pairs, verb.right) == ("verb", 9, 6)
    groups = {group.name: (group.pairs, group.right) for group in verb.by_distance}
    assert groups == {"1-2": (2, 1), "3-4": (1, 1), "9-10": (1, 1), "11-15": (2, 1), "16+": (2, 1)}
    assert (negation.kind, negation.pairs, negation.right, negation.by_distance) == ("negation", 1, 1, [])
    assert (other.kind, [group.name for group in other.by_distance]) == ("other", ["1-2"])
