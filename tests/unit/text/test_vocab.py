"""Vocabularies: order, ids, special symbols, damaged files."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.artefacts.columns import Vocabulary
from phrasemt.errors import DataError
from phrasemt.stages.subwords import BuildVocabulary
from phrasemt.symbols import SPECIAL_TOKENS, UNK
from phrasemt.text.subwords import build_vocabulary

SPECIAL = "<pad>\t0\n<s>\t0\n</s>\t0\n<unk>\t0\n"


def build(
    folder: Path, source: str, target: str, *, shared: bool, words: int | None = None, cores: int = 1
) -> tuple[str, str]:
    for name, text in (("source", source), ("target", target)):
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    build_vocabulary(
        settings=BuildVocabulary(shared=shared, words=words),
        cores=cores,
        source=folder / "source",
        target=folder / "target",
        source_vocabulary=folder / "source.tsv",
        target_vocabulary=folder / "target.tsv",
    )
    return (folder / "source.tsv").read_text(encoding="utf-8"), (folder / "target.tsv").read_text(encoding="utf-8")


def test_order_is_count_then_code_point(tmp_path):
    source, target = build(tmp_path, "b a b\n\nz@@ ä Z z@@\n", "c\n", shared=False)
    assert source == SPECIAL + "b\t2\nz@@\t2\nZ\t1\na\t1\nä\t1\n"
    assert target == SPECIAL + "c\t1\n"


def test_shared_vocabulary_adds_the_counts(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="phrasemt"):
        source, target = build(tmp_path, "a b a\n", "b c b\n", shared=True)
    assert source == target == SPECIAL + "b\t3\na\t2\nc\t1\n"
    assert caplog.messages == ["build_vocabulary: 7 and 7 symbols, one vocabulary for both"]


def test_of_whole_words_the_most_frequent_have_ids(tmp_path):
    """Words that look like a special symbol or like a cut word have none, and leave their place to the next."""
    text = "b b b </s> </s> </s> d@@ d@@ d@@ c a ä c a e\n"
    source, target = build(tmp_path, text, "x y\n", shared=False, words=3)
    assert source == SPECIAL + "b\t3\na\t2\nc\t2\n"
    assert target == SPECIAL + "x\t1\ny\t1\n"
    vocabulary = Vocabulary.read(tmp_path / "source.tsv")
    assert vocabulary.ids(["c", "e", "d@@", "</s>"]).tolist() == [6, UNK, UNK, UNK]
    shared = build(tmp_path, "b a\n", "b c c c\n", shared=True, words=2)
    assert set(shared) == {SPECIAL + "c\t3\nb\t2\n"}


def test_words_like_special_symbols_are_unknown_words(tmp_path):
    build(tmp_path, "</s> a <pad> <unk> <s>\n", "b\n", shared=False)
    vocabulary = Vocabulary.read(tmp_path / "source.tsv")
    assert len(vocabulary) == 5
    assert vocabulary.ids(["</s>", "a", "<pad>", "<unk>", "<s>", "b"]).tolist() == [UNK, 4, UNK, UNK, UNK, UNK]
    assert vocabulary.tokens([0, 1, 2, 3, 4]) == [*SPECIAL_TOKENS, "a"]


def test_no_subwords(tmp_path):
    with pytest.raises(DataError) as error:
        build(tmp_path, "a\n", "\n\n", shared=True)
    assert str(error.value) == f"{tmp_path}/target: the text has no subwords. Next: check the training text"


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(exclude_characters=" \n", codec="utf-8"), min_size=1), min_size=1))
def test_known_subwords_come_back(tmp_path_factory, subwords):
    folder = tmp_path_factory.mktemp("vocabulary")
    build(folder, " ".join(subwords) + "\n", "b\n", shared=True)
    vocabulary = Vocabulary.read(folder / "source.tsv")
    ids = vocabulary.ids(subwords)
    assert ids.dtype == np.int32
    expected = ["<unk>" if subword in SPECIAL_TOKENS else subword for subword in subwords]
    assert vocabulary.tokens(ids) == vocabulary.tokens(ids.tolist()) == expected
