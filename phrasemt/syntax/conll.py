"""Chunks in the column format of CoNLL-2000, and their scores as in the shared task's `conlleval`.

seqeval finds the same chunks (compared on 200,000 random sentences), but needs scikit-learn and cannot add up counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines
from phrasemt.symbols import CHUNK_TYPES
from phrasemt.syntax.trees import measures

TAGS = frozenset(["O", *(f"{position}-{type_}" for position in "BI" for type_ in CHUNK_TYPES)])

Span = tuple[int, int, str]  # first token, token after the last, type


def read_conll(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Tokens and tags (B-NP, I-NP, O) of each sentence. A blank line ends a sentence, which may be empty.

    Columns are token and tag, separated by a tab, or word, part of speech and tag, separated by spaces.
    Raises DataError, with file and line, for another number of columns, an unknown tag, and a last sentence without a
    blank line, which shows that the file was cut off.
    """
    tokens: list[str] = []
    tags: list[str] = []
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(" \t\r"):
            yield tokens, tags
            tokens, tags = [], []
            continue
        columns = line.rstrip("\r").split("\t" if "\t" in line else " ")
        if len(columns) != (2 if "\t" in line else 3) or not columns[0]:
            raise _unreadable(path, number, "token TAB tag, or word, part of speech and tag between spaces", line)
        if columns[-1] not in TAGS:
            raise _unreadable(path, number, f"a tag: O, or B- or I- and one of {' '.join(CHUNK_TYPES)}", columns[-1])
        tokens.append(columns[0])
        tags.append(columns[-1])
    if tokens:
        raise _unreadable(path, number, "a blank line after the last sentence", "the end of the file")


def chunk_spans(tags: Iterable[str]) -> list[Span]:
    """The chunks of a sentence, without O. As in conlleval, a chunk begins at B-, and at I- after O or another type."""
    spans: list[Span] = []
    start, open_type = 0, ""
    position = -1
    for position, tag in enumerate(tags):
        type_ = tag[2:]
        if tag[0] != "I" or type_ != open_type:
            if open_type:
                spans.append((start, position, open_type))
            start, open_type = position, type_
    if open_type:
        spans.append((start, position + 1, open_type))
    return spans


def chunk_scores(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 (from 0 to 1) of chunks of all types together, and their numbers.

    gold, predicted: the tags of each sentence. Raises ValueError if the numbers of sentences or tags differ.
    """
    counts = np.zeros(3, np.int64)  # of gold, of predicted, of both
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"{len(predicted_tags)} predicted tags for {len(gold_tags)} gold tags")
        gold_chunks, predicted_chunks = set(chunk_spans(gold_tags)), set(chunk_spans(predicted_tags))
        counts += np.array([len(gold_chunks), len(predicted_chunks), len(gold_chunks & predicted_chunks)])
    return measures(*counts.tolist())


def _unreadable(path: Path, line: int, expected: str, found: str) -> DataError:
    what, next_step = "not a file in the format of CoNLL-2000", "repair the line"
    return DataError(what, where=f"{path}, line {line}", expected=expected, found=repr(found[:80]), next_step=next_step)
