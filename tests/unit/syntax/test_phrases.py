"""Witnesses: the rule of Xu et al. (2020), footnote 2, worked out by hand for every length up to 60; phrases of small
sentences by hand; algorithm 1 itself is tested in test_algorithm_1.py.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from phrasemt.errors import DataError, MismatchError
from phrasemt.files.columns import ColumnFile
from phrasemt.files.lines import write_lines
from phrasemt.phrase_modes import PHRASE_MODES
from phrasemt.stages.syntax import ExtractPhrases
from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax import segmenters, word_offsets
from phrasemt.syntax.annotations import Annotation, parser_tokens, sentence_key, write_annotations
from phrasemt.syntax.ngrams import ngram_ends, phrase_tokens
from phrasemt.syntax.phrases import extract_phrases
from phrasemt.syntax.segmenters import random_tree, right_tree

# Lengths (positions with </s>) and n_tok = max(min(8, ceil(L/6)), 3).
BY_HAND = {
    3: range(1, 19),  # up to 18 / 6 = 3
    4: range(19, 25),
    5: range(25, 31),
    6: range(31, 37),
    7: range(37, 43),
    8: range(43, 61),
}


@pytest.mark.parametrize(("tokens", "lengths"), BY_HAND.items())
def test_phrase_tokens(tokens, lengths):
    for length in lengths:
        assert phrase_tokens(length, PhraseSegmentation()) == tokens


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


def test_random_trees_cut_everywhere_alike():
    """Of four words the first cut is after 1, 2 or 3 of them, and then three words have two trees."""
    numbers = random.Random(5)
    counts = Counter(random_tree(4, numbers) for _ in range(6000))
    assert len(counts) == 5
    assert counts["(X (X (W 0) (W 1)) (X (W 2) (W 3)))"] == pytest.approx(2000, abs=150)
    assert counts[right_tree(4)] == pytest.approx(1000, abs=120)


SENTENCE = "The quick brown fox jumped over the lazy dog ."
TREE = "(S (NP (DT 0) (JJ 1) (JJ 2) (NN 3)) (VP (VBD 4) (PP (IN 5) (NP (DT 6) (JJ 7) (NN 8)))) (. 9))"
SUBWORDS = "The qu@@ ick brown fox jumped over the la@@ zy dog ."


class Split:
    """A split of few sentences, and the stage on it. Sentences are lines of Moses tokens, not cut unless said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def extract(
        self,
        sentences: Sequence[str],
        *,
        subwords: Sequence[str] | None = None,
        trees: dict[str, Annotation | str] | None = None,
        rows: Sequence[int] | None = None,
        given: Sequence[str] | None = None,
        raw_pairs: int | None = None,
        cores: int = 1,
        name: str = "phrases.arrow",
        **settings: object,
    ) -> list[list[int]]:
        write_lines(self.folder / "tokens", sentences)
        write_lines(self.folder / "subwords", sentences if subwords is None else subwords)
        write_lines(self.folder / "rows", map(str, range(len(sentences)) if rows is None else rows))
        annotations = {
            sentence_key(parser_tokens(sentence)): Annotation(tree, None) if isinstance(tree, str) else tree
            for sentence, tree in (trees or {}).items()
        }
        card = {"fingerprint": "f" * 32}
        write_annotations(self.folder / "parses", list(annotations), list(annotations.values()), card)
        if raw_pairs is not None:
            head = f"# read {raw_pairs} kept {raw_pairs} dropped 0"
            write_lines(self.folder / "dropped.tsv", [head, "row\tfilter\tvalue"])
        if given is not None:
            write_lines(self.folder / "given.txt", given)
            settings["given"] = self.folder
        segmentation = PhraseSegmentation.model_validate(settings)
        extract_phrases(
            settings=ExtractPhrases(segmentation=segmentation, needs_parses=segmentation.reads_parses),
            cores=cores,
            rows=self.folder / "rows",
            tokens=self.folder / "tokens",
            subwords=self.folder / "subwords",
            parses=[] if trees is None else [self.folder / "parses"],
            given=[] if given is None else [self.folder / "given.txt"],
            dropped=[] if raw_pairs is None else [self.folder / "dropped.tsv"],
            phrases=self.folder / name,
        )
        columns = ColumnFile(self.folder / name, ["ends"])
        assert columns.description == {"segmentation": segmentation.model_dump(mode="json")}
        assert columns.rows.tolist() == list(range(len(sentences)) if rows is None else rows)
        return [columns.values("ends", position).tolist() for position in range(len(columns))]


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return Split(tmp_path)


def test_there_is_a_segmenter_for_each_mode():
    assert PHRASE_MODES.keys() == set(PhraseSegmentation.model_fields["mode"].annotation.__args__)
    assert [name for name, mode in PHRASE_MODES.items() if not hasattr(segmenters, str(mode.segmenter))] == ["none"]
    keys = frozenset().union(*(mode.keys for mode in PHRASE_MODES.values()))
    assert keys == PhraseSegmentation.model_fields.keys() - {"mode"}


def test_ngrams(split):
    assert split.extract([SENTENCE, "a"], subwords=[SUBWORDS, "a"]) == [[3, 6, 9, 12, 13], [2]]


def test_parse(split):
    """By hand, n = 3: The qu@@ ick | brown fox | jumped over the | la@@ zy dog | . </s>

    `</s>` and the full stop at level 1. dog and lazy, a node of two subwords, at level 4, since the noun phrase has 4.
    What remains of the verb phrase fits as a whole. fox and brown at level 2, and quick would be one too many. The rest
    of the sentence.
    """
    assert split.extract([SENTENCE], subwords=[SUBWORDS], trees={SENTENCE: TREE}, mode="parse") == [[3, 5, 8, 11, 13]]


def test_right_branching(split):
    """By hand, n = 3: a | b c d | </s>. At the level of `</s>` stands the tree over b c d, too large to join it."""
    assert split.extract(["a b c d"], mode="right") == [[1, 4, 5]]


def test_shuffled_phrases_have_the_lengths_of_parsed_ones(split):
    sentences = [f"{SENTENCE} {number}" for number in range(30)]
    tree = TREE[:-1] + " (CD 10))"
    trees = dict.fromkeys(sentences, tree)
    parsed = split.extract(sentences, trees=trees, mode="parse")
    shuffled = split.extract(sentences, trees=trees, mode="shuffled")
    lengths = [[end - start for start, end in itertools.pairwise([0, *ends])] for ends in (*parsed, *shuffled)]
    assert len({tuple(sorted(each)) for each in lengths}) == 1
    assert len({tuple(each) for each in lengths}) > 10


@pytest.mark.parametrize("mode", ["ngram", "parse", "random", "right", "shuffled"])
def test_an_empty_sentence_is_one_phrase(split, mode, caplog):
    caplog.set_level(logging.INFO, "phrasemt")
    trees = {"a b": "(S (A 0) (B 1))"}
    assert split.extract(["", "a b", ""], trees=trees, mode=mode) == [[1], [3], [1]]
    assert "divided into n-grams" not in caplog.text


def test_sentences_without_a_parse_fall_back_and_are_counted(split, caplog):
    caplog.set_level(logging.INFO, "phrasemt")
    trees = {SENTENCE: TREE, "x y z w": Annotation(None, "too long"), "x y z v": Annotation(None, "too long")}
    trees["q r s"] = Annotation(None, "the parser gave up")
    expected = [[1, 4, 6, 9, 11], [3, 5], [3, 5], [3, 4]]
    assert split.extract([SENTENCE, "x y z w", "x y z v", "q r s"], trees=trees, mode="parse") == expected
    assert [record.getMessage() for record in caplog.records if "extract_phrases" in record.getMessage()] == [
        "extract_phrases: parse: 4 sentences, 11 phrases",
        "extract_phrases: 2 sentences divided into n-grams: too long",
        "extract_phrases: 1 sentences divided into n-grams: the parser gave up",
    ]


def test_parses_of_other_sentences_are_refused(split):
    with pytest.raises(MismatchError, match=r"tokens, line 2: this sentence has no annotation. Next: "):
        split.extract(["a b", "q r s"], trees={"a b": "(S (A 0) (B 1))"}, mode="parse")


@pytest.mark.parametrize("mode", ["random", "shuffled"])
def test_phrases_depend_on_the_sentence_alone(split, mode, monkeypatch):
    """Not on its row, its companions, the cores, or where chunks of work end."""
    sentences = [" ".join(["w"] * (number % 23) + [str(number)]) for number in range(60)]
    trees = {sentence: right_tree(sentence.count(" ") + 1) for sentence in sentences}
    all_at_once = split.extract(sentences, trees=trees, mode=mode)
    monkeypatch.setattr(word_offsets, "LINES_PER_BLOCK", 7)
    in_parts = split.extract(sentences, trees=trees, mode=mode, cores=2, name="other.arrow")
    backwards = split.extract(sentences[::-1], trees=trees, mode=mode, rows=range(100, 160))
    assert all_at_once == in_parts == backwards[::-1]
    assert len({tuple(ends) for ends in all_at_once}) > 20


def test_given(split, monkeypatch):
    """Lines of the user are those of the raw pairs; rows 1, 3 and 4 were dropped."""
    monkeypatch.setattr(word_offsets, "LINES_PER_BLOCK", 2)
    sentences = ["a bcd e", "", "x y"]
    subwords = ["a b@@ c@@ d e", "", "x y"]
    lines = ["1 2 3", "9", "", "who cares", "5 4", "2", "not read"]
    assert split.extract(sentences, subwords=subwords, rows=[0, 2, 5], given=lines, mode="given") == [
        [1, 4, 6],
        [1],
        [3],
    ]


@pytest.mark.parametrize(
    ("line", "sentence", "expected"),
    [
        ("1 2", "a b c", "increasing ends, the last of them 3"),
        ("2 1 3", "a b c", "increasing ends"),
        ("0 3", "a b c", "increasing ends"),
        ("1,3", "a b c", "increasing ends"),
        ("", "a b c", "increasing ends"),
        ("1", "", "an empty line"),
    ],
)
def test_wrong_user_lines_are_named(split, line, sentence, expected):
    with pytest.raises(DataError) as caught:
        split.extract(["a", sentence], rows=[1, 3], given=["1", "1", "1", line], mode="given")
    message = str(caught.value)
    assert message.startswith(f"{split.folder / 'given.txt'}, line 4: the phrase ends do not fit the sentence")
    assert expected in message
    assert f"found {line!r}" in message


@pytest.mark.parametrize("lines", [5, 7])
def test_given_phrases_of_other_sentences(split: Split, lines: int) -> None:
    given = ["1"] * 6
    assert split.extract(["a", "b"], rows=[1, 3], given=given, raw_pairs=6, mode="given") == [[2], [2]]
    with pytest.raises(MismatchError, match=rf"given.txt: .* a line for each raw pair .expected 6, found {lines}"):
        split.extract(["a", "b"], rows=[1, 3], given=["1"] * lines, raw_pairs=6, mode="given")
