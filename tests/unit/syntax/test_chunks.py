"""Witnesses: chunks by hand; the demo corpus, whose gold chunks must come out as they went in."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from democorpus.pairs import conll, demo_pairs
from phrasemt.errors import DataError
from phrasemt.files.columns import ColumnFile
from phrasemt.files.lines import write_lines
from phrasemt.stages.syntax import ExtractChunks
from phrasemt.symbols import CHUNK_LABELS as LABELS
from phrasemt.syntax import word_offsets
from phrasemt.syntax.annotations import Annotation, parser_tokens, sentence_key, write_annotations
from phrasemt.syntax.chunks import extract_chunks, starts_and_labels
from phrasemt.syntax.conll import TAGS

Gold = Sequence[tuple[Sequence[str], Sequence[str]]]


class Split:
    """A split of few sentences, and the stage on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.statistics: dict[str, Any] = {}

    def extract(
        self,
        sentences: Sequence[str],
        origin: str,
        *,
        subwords: Sequence[str] | None = None,
        rows: Sequence[int] | None = None,
        gold: Gold | None = None,
        tags: Mapping[str, str | Annotation] | None = None,
        cores: int = 1,
    ) -> list[tuple[list[int], list[str]]]:
        rows = range(len(sentences)) if rows is None else rows
        write_lines(self.folder / "tokens", sentences)
        write_lines(self.folder / "subwords", sentences if subwords is None else subwords)
        write_lines(self.folder / "rows", map(str, rows))
        if gold is not None:
            text = "".join(conll(tuple(tokens), tuple(tags)) for tokens, tags in gold)
            (self.folder / "gold").write_text(text, encoding="utf-8", newline="\n")
        extract_chunks(
            settings=ExtractChunks(origin=origin),
            cores=cores,
            rows=self.folder / "rows",
            tokens=self.folder / "tokens",
            subwords=self.folder / "subwords",
            gold=[] if gold is None else [self.folder / "gold"],
            tags=self.annotate("tags", tags),
            chunks=self.folder / "chunks.arrow",
            statistics=self.folder / "statistics.json",
        )
        self.statistics = json.loads((self.folder / "statistics.json").read_text(encoding="utf-8"))
        columns = ColumnFile(self.folder / "chunks.arrow", ["starts", "labels"])
        assert columns.description == {"origin": origin, "labels": list(LABELS)}
        assert columns.rows.tolist() == list(rows)
        return [
            (
                columns.values("starts", position).tolist(),
                [LABELS[label] for label in columns.values("labels", position)],
            )
            for position in range(len(columns))
        ]

    def annotate(self, name: str, texts: Mapping[str, str | Annotation] | None) -> list[Path]:
        if texts is None:
            return []
        keys = [sentence_key(parser_tokens(sentence)) for sentence in texts]
        annotations = [Annotation(text, None) if isinstance(text, str) else text for text in texts.values()]
        write_annotations(self.folder / name, keys, annotations, {"fingerprint": name})
        return [self.folder / name]


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return Split(tmp_path)


DOG = "the lazy dog barks up , not here"
DOG_SUBWORDS = "the la@@ z@@ y dog bar@@ ks up , not he@@ re"
DOG_TAGS = "B-NP I-NP I-NP B-VP B-PRT O O B-ADVP"
DOG_CHUNKS = ([0, 5, 7, 8, 9, 10, 12], ["NP", "VP", "PRT", "O", "O", "ADVP", "eos"])


@pytest.mark.parametrize(
    ("origin", "source"),
    [("gold", {"gold": [(DOG.split(" "), DOG_TAGS.split(" "))]}), ("chunker", {"tags": {DOG: DOG_TAGS}})],
)
def test_chunks_start_at_words_and_eos_is_the_last(split, origin, source):
    assert split.extract([DOG], origin, subwords=[DOG_SUBWORDS], **source) == [DOG_CHUNKS]
    assert split.statistics == {
        "format": 3,
        "origin": origin,
        "sentences": 1,
        "words": 8,
        "chunks": 6,
        "labels": {"NP": 1, "VP": 1, "ADVP": 1, "PRT": 1, "O": 2},
        "fallbacks": {},
    }


def test_sentences_without_tags_are_counted(split, caplog):
    caplog.set_level(logging.INFO, "phrasemt")
    tags = {"a b": "B-NP I-NP", "c d": Annotation(None, "too long"), "e f": Annotation(None, "gave up")}
    found = split.extract(["a b", "", "c d", "e f"], "chunker", tags=tags)
    assert found == [([0, 2], ["NP", "eos"]), ([0], ["eos"]), *[([0, 1, 2], ["O", "O", "eos"])] * 2]
    assert split.statistics["fallbacks"] == {"too long": 1, "gave up": 1}
    assert "1 sentences without chunks: too long" in caplog.text


@settings(max_examples=200)
@given(
    tags=st.lists(st.sampled_from(sorted(TAGS)), max_size=12),
    lengths=st.lists(st.integers(1, 20), min_size=12, max_size=12),
)
def test_columns_say_what_the_tags_say(tags, lengths):
    """Starts at words only, increasing, eos last; and the tags are found again, but for I- that begins a chunk."""
    offsets = [0]
    for length in lengths[: len(tags)]:
        offsets.append(offsets[-1] + length)
    starts, labels = starts_and_labels(tags, offsets)
    assert starts[-1] == offsets[-1]
    assert LABELS[labels[-1]] == "eos"
    assert starts == sorted(set(starts))
    assert set(starts) <= set(offsets)
    assert labels.count(0) == 1
    assert 1 not in labels
    label_at = dict(zip(starts, labels, strict=True))
    again, last = [], ""
    for offset in offsets[:-1]:
        begins = offset in label_at
        last = LABELS[label_at[offset]] if begins else last
        again.append("O" if last == "O" else f"{'B' if begins else 'I'}-{last}")
    expected = [
        f"B-{tag[2:]}" if tag[0] == "I" and tag[2:] != before[2:] else tag
        for before, tag in zip(["O", *tags], tags, strict=False)
    ]
    assert again == expected


def test_the_demo_corpus_comes_out_as_it_went_in(split, monkeypatch):
    """Through Moses, in several chunks of work and with rows dropped, on one core and on two."""
    monkeypatch.setattr(word_offsets, "LINES_PER_BLOCK", 16)
    pairs = list(demo_pairs(split="train", pairs=60, seed=4))
    moses = MosesTokenizer("de")
    rows = [row for row in range(60) if row % 7]
    sentences = [moses.tokenize(pairs[row].target, return_str=True) for row in rows]
    gold = [(pair.target_tokens, pair.target_chunks) for pair in pairs]
    results = [split.extract(sentences, "gold", gold=gold, rows=rows, cores=cores) for cores in (1, 2)]
    assert results[0] == results[1]
    for row, (starts, labels) in zip(rows, results[0], strict=True):
        expected = starts_and_labels(pairs[row].target_chunks, range(len(pairs[row].target_tokens) + 1))
        assert (starts, labels) == (expected[0], [LABELS[label] for label in expected[1]])


def test_gold_of_another_sentence(split):
    gold = [(["x"], ["O"])] * 4 + [(["y", "z"], ["B-NP", "I-NP"])]
    with pytest.raises(DataError) as caught:
        split.extract(["x", "x y z"], "gold", gold=gold, rows=[2, 4])
    assert str(caught.value).startswith(
        f"{split.folder / 'gold'}, sentence 5: the gold chunks have other tokens than the sentence "
        "(expected 'x y z', found 'y z')"
    )
