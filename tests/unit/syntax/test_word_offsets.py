"""Witness: subword-nmt, whose subwords are put together again; words cut by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.errors import DataError
from phrasemt.files.lines import LineBlock
from phrasemt.syntax.word_offsets import offsets_of_block, word_offsets

# Also words that end in the mark of a subword, or are it, and Unicode spaces.
WORDS = st.lists(
    st.one_of(
        st.sampled_from(["@@", "@", "a@@", "@@a", "a", "ab", "\u00a0", "&quot;", "🙂", "x" * 20]),
        st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), min_size=1, max_size=20),
    ),
    max_size=8,
)


@settings(max_examples=200)
@given(words=WORDS, data=st.data())
def test_words_cut_anywhere(words, data):
    parts, offsets = [], [0]
    for word in words:
        cuts = sorted(data.draw(st.sets(st.integers(1, max(len(word) - 1, 1)), max_size=len(word) - 1)))
        pieces = [word[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
        pieces = [piece for piece in pieces if piece]
        parts += [piece + "@@" for piece in pieces[:-1]] + [pieces[-1]]
        offsets.append(offsets[-1] + len(pieces))
    # "a@@" may be a whole word or its first half: subwords alone do not tell, and the words decide.
    assert word_offsets(" ".join(words), " ".join(parts)) == offsets


@pytest.mark.parametrize(
    ("tokens", "subwords", "offsets"),
    [
        ("", "", [0]),
        ("ab c", "a@@ b c", [0, 2, 3]),
        ("a  b", "a b", [0, 1, 2]),  # apply_subwords drops the second space
        ("a@@  b", "a@@  b", [0, 1, 2]),
        ("a@@ b", "a@@@ @ b", [0, 2, 3]),
        ("a b@@", "a b@@", [0, 1, 2]),
        ("a b", "a", None),
        ("ab", "a@@", None),
        ("", "a", None),
        ("ab c", "a b c", None),
    ],
)
def test_lines(tokens, subwords, offsets):
    assert word_offsets(tokens, subwords) == offsets


def test_a_line_that_does_not_agree_is_named():
    tokens, subwords = (LineBlock(name, 8, text) for name, text in (("tokens.en", b"a\nbc\n"), ("bpe.en", b"a\nb c\n")))
    with pytest.raises(DataError) as caught:
        offsets_of_block(tokens, subwords)
    assert str(caught.value) == (
        "tokens.en and bpe.en, line 9: words and subwords belong to different sentences "
        "(expected 'bc', found 'b c'). Next: run apply_subwords again"
    )
