"""Subwords and vocabularies. Witness for subwords: the commands of the installed subword-nmt, every byte."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.artefacts.columns import Vocabulary
from phrasemt.errors import DataError
from phrasemt.stages.subwords import ApplySubwords, BuildVocabulary, LearnSubwords
from phrasemt.symbols import SPECIAL_TOKENS, UNK
from phrasemt.text.subwords import apply_subwords, build_vocabulary, join_subwords, learn_subwords, subword_cutter

STEMS = """house garden water light größe straße über schön gehen lauf spiel wasser été 北京 大学 🙂 x y 1 2 , .
    &apos;s""".split()  # noqa: SIM905
ENDINGS = ["", "s", "ing", "er", "en", "keit", "ß", "@-@", "学"]


def sentences(seed: int, lines: int) -> str:
    """Words of frequent and rare parts, drawn by a fixed linear congruence; some lines are empty."""
    state, text = seed, []
    for _ in range(lines):
        words = []
        for _ in range(state % 9):
            state = (state * 1103515245 + 12345) % 2**31
            stem = STEMS[(state >> 8) % len(STEMS) * ((state >> 20) % len(STEMS)) // len(STEMS)]
            words.append(stem + ENDINGS[(state >> 16) % len(ENDINGS)])
        state = (state * 1103515245 + 12345) % 2**31
        text.append(" ".join(words) + "\n")
    return "".join(text)


def subword_nmt(*arguments: object) -> None:
    code = "from subword_nmt.subword_nmt import main; main()"
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, capture_output=True)


class Files:
    """A folder with two sides, and the stages on it."""

    def __init__(self, folder: Path, source: str, target: str) -> None:
        self.folder = folder
        for name, text in (("source", source), ("target", target)):
            self.path(name).write_text(text, encoding="utf-8", newline="\n")

    def path(self, name: str) -> Path:
        return self.folder / name

    def learn(self, merges: int | None = None, cores: int = 1, *, symbols: int | None = None) -> None:
        learn_subwords(
            settings=LearnSubwords(merges=merges, symbols=symbols),
            cores=cores,
            source=self.path("source"),
            target=self.path("target"),
            codes=self.path("codes"),
            source_counts=self.path("source.counts"),
            target_counts=self.path("target.counts"),
        )

    def apply(self, side: str, threshold: int, cores: int = 1) -> bytes:
        apply_subwords(
            settings=ApplySubwords(vocabulary_threshold=threshold),
            cores=cores,
            tokens=self.path(side),
            codes=self.path("codes"),
            counts=self.path(f"{side}.counts"),
            subwords=self.path(f"{side}.subwords"),
        )
        return self.path(f"{side}.subwords").read_bytes()

    def learn_by_command(self, symbols: int, *options: str) -> None:
        vocabularies = [self.path(f"{side}.counts.expected") for side in ("source", "target")]
        subword_nmt(
            *("learn-joint-bpe-and-vocab", "-s", symbols, *options, "-o", self.path("codes.expected")),
            *("-i", self.path("source"), self.path("target"), "--write-vocabulary", *vocabularies),
        )

    def apply_by_command(self, side: str, threshold: int) -> bytes:
        limit = ["--vocabulary", self.path(f"{side}.counts"), "--vocabulary-threshold", threshold] if threshold else []
        output = self.path(f"{side}.subwords.expected")
        subword_nmt("apply-bpe", "-i", self.path(side), "-o", output, "-c", self.path("codes"), *limit)
        return output.read_bytes()

    def same_as_command(self) -> bool:
        names = ("codes", "source.counts", "target.counts")
        return all(self.path(name).read_bytes() == self.path(f"{name}.expected").read_bytes() for name in names)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = Files(tmp_path_factory.mktemp("learned"), sentences(1, 600), sentences(5, 600))
    files.learn(150)
    return files


def test_learning_writes_what_the_command_writes(files):
    files.learn_by_command(150)
    assert files.same_as_command()
    assert len(files.path("codes").read_text(encoding="utf-8").splitlines()) == 151


def test_symbols_are_merges_and_characters_together(tmp_path):
    files = Files(tmp_path, sentences(1, 600), sentences(5, 600))
    files.learn(symbols=150)
    files.learn_by_command(150, "--total-symbols")
    assert files.same_as_command()
    assert 1 < len(files.path("codes").read_text(encoding="utf-8").splitlines()) < 151
    with pytest.raises(DataError, match="no symbols are left for merges"):
        files.learn(symbols=3)


@pytest.mark.parametrize("threshold", [0, 1, 5, 40, 10**6])
def test_applying_writes_what_the_command_writes(threshold, files):
    assert files.apply("source", threshold) == files.apply_by_command("source", threshold)


def test_same_files_for_every_number_of_cores(files, tmp_path):
    one = {name: files.path(name).read_bytes() for name in ("codes", "source.counts", "target.counts")}
    subwords_with_one = files.apply("source", 5)
    other = Files(tmp_path, *(files.path(side).read_text(encoding="utf-8") for side in ("source", "target")))
    other.learn(150, cores=2)
    assert {name: other.path(name).read_bytes() for name in one} == one
    assert other.apply("source", 5, cores=2) == subwords_with_one


def test_learning_that_stops_early_says_so(tmp_path, caplog, capfd):
    files = Files(tmp_path, "ab ab\n", "cd\n")
    with caplog.at_level(logging.INFO, logger="phrasemt"):
        files.learn(10)
    files.learn_by_command(10)
    assert files.same_as_command()
    assert files.path("codes").read_text() == "#version: 0.2\na b</w>\n"
    assert caplog.messages == ["learn_subwords: learned 1 of 10 merges from 2 word types; 3 subword types"]
    assert capfd.readouterr() == ("", "")


def test_no_words_at_all(tmp_path):
    files = Files(tmp_path, "\n\n", "")
    with pytest.raises(DataError) as error:
        files.learn(10)
    assert str(error.value) == (
        f"{tmp_path}/source, {tmp_path}/target: no words to learn subwords from. Next: check the training text"
    )


@settings(max_examples=200)
@given(words=st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1)))
def test_joining_undoes_cutting(words, files):
    line = " ".join(word for word in words if not word.endswith("@"))
    cutter = subword_cutter(files.path("codes"), files.path("target.counts"), 5)
    assert join_subwords(cutter(line)) == line


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
