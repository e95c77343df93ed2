"""Witness: the rule of Xu et al. (2020), footnote 2, worked out by hand for every length up to 60."""

from __future__ import annotations

import pytest

from phrasemt.config import PhraseSegmentation
from phrasemt.syntax.phrases import ngram_ends, phrase_tokens

# Lengths (positions with </s>) and n_tok = max(min(8, ceil(L/6)), 3).
BY_HAND = {
    3: range(1, 19),  # up to 18 / 6 = 3
    4: range(19, 25),
    5: range(25, 31),
    6: range(31, 37),
    7: range(37, 43),
    8: range(43, 61),
}


def test_table_covers_every_length_once():
    assert sorted(length for lengths in BY_HAND.values() for length in lengths) == list(range(1, 61))


@pytest.mark.parametrize(("tokens", "lengths"), BY_HAND.items())
def test_phrase_tokens(tokens, lengths):
    for length in lengths:
        assert phrase_tokens(length, PhraseSegmentation()) == tokens


def test_floor_differs_on_25_lengths():
    """The paper does not say how to round; the two readings differ on 25 of the lengths 1..60."""
    ceil, floor = PhraseSegmentation(), PhraseSegmentation(ntok_round="floor")
    assert sum(phrase_tokens(length, ceil) != phrase_tokens(length, floor) for length in range(1, 61)) == 25
    assert phrase_tokens(47, floor) == 7
    assert phrase_tokens(48, floor) == 8


@pytest.mark.parametrize(
    ("length", "ends"),
    [
        (1, [1]),
        (2, [2]),
        (3, [3]),
        (4, [3, 4]),
        (10, [3, 6, 9, 10]),
        (18, [3, 6, 9, 12, 15, 18]),
        (19, [4, 8, 12, 16, 19]),
        (48, [8, 16, 24, 32, 40, 48]),
        (60, [8, 16, 24, 32, 40, 48, 56, 60]),
    ],
)
def test_ends(length, ends):
    assert ngram_ends(length, PhraseSegmentation()).tolist() == ends


def test_ends_cover_every_sentence_with_phrases_of_the_right_size():
    settings = PhraseSegmentation()
    for length in range(1, 200):
        ends = ngram_ends(length, settings).tolist()
        sizes = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        size = phrase_tokens(length, settings)
        assert sum(sizes) == length
        assert all(s == size for s in sizes[:-1])
        assert 1 <= sizes[-1] <= size
        assert length > 48 or len(sizes) <= 6
