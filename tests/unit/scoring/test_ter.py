"""Witness: sacreBLEU's TER."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import TER
from sacrebleu.metrics.lib_ter import BeamEditDistance, translation_edit_rate

from phrasemt.scoring.ter import FastTER, _Distance, edits

FEW_WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=12)
MANY_WORDS = st.lists(st.integers(0, 300).map(str), max_size=70)  # few of them twice: sacreBLEU tries few shifts


@settings(max_examples=100, deadline=None)
@given(st.one_of(FEW_WORDS, MANY_WORDS), st.one_of(FEW_WORDS, MANY_WORDS))
@example([], ["a"])
@example(["a"], [])
@example([], [])
def test_distances_traces_and_edits_are_those_of_sacrebleu(words: list[str], reference: list[str]) -> None:
    if reference:
        distance = _Distance(reference)
        distance.with_trace = words
        assert distance(words) == BeamEditDistance(reference)(words)
        shifted = [*words[3:], *words[:3]]
        assert distance(shifted)[0] == BeamEditDistance(reference)(shifted)[0]
    assert edits(words, reference) == translation_edit_rate(words, reference)[0]


def test_statistics_of_long_and_distant_sentences() -> None:
    """The band of sacreBLEU's table cuts paths between texts of very different lengths."""
    drawn = random.Random(3)
    words = [str(number) for number in range(200)]
    lines = [drawn.choices(words, k=drawn.randint(0, 90)) for _ in range(8)]
    moved = [[*line[20:30], *line[:20], *drawn.choices(words, k=3), *line[33:]] for line in lines]
    hypotheses, far, near = ([" ".join(line) for line in side] for side in (lines, reversed(lines), moved))
    for references in ([far], [near], [far, near]):
        exact = TER()._extract_corpus_statistics(hypotheses, references)
        assert FastTER()._extract_corpus_statistics(hypotheses, references) == exact
