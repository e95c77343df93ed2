"""Witnesses: sacremoses for the escapes, coreutils' b2sum for the key, a set of strings for the distinct sentences."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from phrasemt.errors import DamagedFileError
from phrasemt.files.lines import write_lines
from phrasemt.stages.syntax import CollectSentences
from phrasemt.syntax.sentences import (
    BUCKETS,
    Sentences,
    buckets_of,
    collect_sentences,
    key_bytes,
    parser_tokens,
    sentence_key,
)

MOSES = MosesTokenizer()
TOKENS = st.lists(
    st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=8
)


def collect(folder: Path, lines: list[str], cores: int = 1) -> Path:
    write_lines(folder / "tokens", lines)
    collect_sentences(
        settings=CollectSentences(), cores=cores, tokens=folder / "tokens", sentences=folder / "sentences"
    )
    return folder / "sentences"


def content(path: Path) -> list[tuple[bytes, list[str]]]:
    """Keys and tokens in the order of the file."""
    opened = Sentences.open(path)
    pairs = []
    for number in range(BUCKETS):
        bucket = opened.bucket(number)
        tokens = bucket.sentences(np.arange(len(bucket.keys)))
        pairs += list(zip(key_bytes(bucket.keys), tokens, strict=True))
        assert (buckets_of(bucket.keys) == number).all()
    assert len(opened) == len(pairs)
    return pairs


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
    lines = [" ".join(map(MOSES.escape_xml, tokens)) for tokens in text]
    pairs = content(collect(tmp_path_factory.mktemp("sentences"), lines + lines[:5]))
    expected = {tuple(tokens) for tokens in text if tokens}
    assert sorted(tuple(tokens) for _, tokens in pairs) == sorted(expected)
    assert [key for key, _ in pairs] == sorted(map(sentence_key, expected))
    assert all(key == sentence_key(tokens) for key, tokens in pairs)


def test_order_and_cores_do_not_matter(tmp_path):
    lines = [f"word{number % 3000} of {number % 7} &amp; more" for number in range(40_000)]
    first = collect(tmp_path, lines).read_bytes()
    random.Random(1).shuffle(lines)
    assert collect(tmp_path, ["", *lines], cores=2).read_bytes() == first
    assert {path.name for path in tmp_path.iterdir()} == {"sentences", "tokens"}


def test_empty_corpus_and_one_sentence(tmp_path, caplog):
    caplog.set_level("INFO")
    assert content(collect(tmp_path, [])) == content(collect(tmp_path, ["", ""])) == []
    assert content(collect(tmp_path, ["One &apos;s ."])) == [(sentence_key(["One", "'s", "."]), ["One", "'s", "."])]
    assert [record.message for record in caplog.records] == [
        "collect_sentences: 0 lines, 0 empty, 0 distinct sentences",
        "collect_sentences: 2 lines, 2 empty, 0 distinct sentences",
        "collect_sentences: 1 lines, 0 empty, 1 distinct sentences",
    ]


def test_damaged_files(tmp_path):
    path = collect(tmp_path, [f"word {number}" for number in range(500)])
    whole = path.read_bytes()
    for data in (b"", whole[:-200], whole[: len(whole) // 2], whole.replace(b'"format": 1', b'"format": 2')):
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match=r"not a complete file of sentences.*run collect_sentences again"):
            Sentences.open(path)
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, pa.schema([("a", pa.int8())])):
        pass
    with pytest.raises(DamagedFileError, match=r"found format None, columns a int8, instead of format 1, columns key"):
        Sentences.open(path)
