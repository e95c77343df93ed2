"""Witnesses: sacremoses for the escapes, a set for the distinct sentences."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from phrasemt.files.lines import read_lines, write_lines
from phrasemt.syntax.annotate import distinct_sentences
from phrasemt.syntax.annotations import buckets_of, key_bytes, parser_tokens, sentence_key

MOSES = MosesTokenizer()
TOKENS = st.lists(
    st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=8
)


def test_escapes_are_undone_once():
    assert parser_tokens("&apos;s &amp;apos; &#91; &#93; &quot; &lt;&gt; a&#124;b &amp;amp; &nbsp; & &#64; &AMP;") == [
        *("'s", "&apos;", "[", "]", '"', "<>", "a|b", "&amp;", "&nbsp;", "&", "&#64;", "&AMP;")
    ]
    assert parser_tokens("") == parser_tokens(" ") == []
    assert parser_tokens(" a  b ") == ["a", "b"]
    assert parser_tokens("a\u00a0b c\u2028 \x85 d\re") == ["a\u00a0b", "c\u2028", "\x85", "d\re"]


@settings(max_examples=40)
@given(text=st.lists(TOKENS, max_size=36))
def test_distinct_sentences_by_key(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("sentences") / "tokens"
    write_lines(path, [" ".join(map(MOSES.escape_xml, tokens)) for tokens in text + text[:5]])
    keys, places = distinct_sentences(path, 1)
    assert key_bytes(keys) == sorted({sentence_key(tokens) for tokens in text if tokens})
    lines = list(read_lines(path))
    assert [sentence_key(parser_tokens(lines[place])) for place in places.tolist()] == key_bytes(keys)
    assert buckets_of(keys).tolist() == [key[0] >> 2 for key in key_bytes(keys)]


def test_cores_do_not_matter(tmp_path):
    write_lines(tmp_path / "tokens", [f"word{number % 3000} of {number % 7} &amp; more" for number in range(40_000)])
    for one, other in zip(*(distinct_sentences(tmp_path / "tokens", cores) for cores in (1, 2)), strict=True):
        assert one.tolist() == other.tolist()
    assert len(one) == 21_000
