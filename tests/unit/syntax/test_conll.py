"""Witness: a case scored by hand by conlleval's definition, and a plain restatement of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemt.errors import DataError
from phrasemt.syntax.conll import chunk_scores, chunk_spans, read_conll

TAGS = st.lists(st.sampled_from(["O", "B-NP", "I-NP", "B-VP", "I-VP", "B-PP"]), max_size=12)


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str) -> list[tuple[list[str], list[str]]]:
        (tmp_path / "chunks").write_text(text, encoding="utf-8", newline="\n")
        return list(read_conll(tmp_path / "chunks"))

    return read


def test_two_columns_with_tabs(read):
    text = "a b\tB-NP\n\u00a0\tI-NP\n.\tO\n\n\n🙂\tB-INTJ\n\n"
    assert read(text) == [(["a b", "\u00a0", "."], ["B-NP", "I-NP", "O"]), ([], []), (["🙂"], ["B-INTJ"])]
    assert read("") == []


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        ("a\tB-NP\nb\tB-XP\n\n", 2, "a tag: O, or B- or I- and one of NP VP", "'B-XP'"),
        ("a\tB-NP\n\nb\t\n\n", 3, "a tag", "''"),
        ("a\tB-NP\nb\n\n", 2, "token TAB tag", "'b'"),
        ("a B-NP\n\n", 1, "word, part of speech and tag", "'a B-NP'"),
        ("\tB-NP\n\n", 1, "token TAB tag", "'\\tB-NP'"),
        ("a\tB-NP\n\nb\tB-NP\nc\tI-NP\n", 4, "a blank line after the last sentence", "the end of the file"),
    ],
)
def test_bad_files(read, tmp_path, text, line, expected, found):
    with pytest.raises(DataError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'chunks'}, line {line}: not a file in the format of CoNLL-2000 (expected ")
    assert expected in message
    assert found in message


def plain_spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """conlleval's startOfChunk and endOfChunk for the tags B, I and O."""
    spans, start = set(), None
    for position, (before, tag) in enumerate(zip(["O", *tags], [*tags, "O"], strict=True)):
        ends = before != "O" and (tag[0] in "BO" or tag[2:] != before[2:])
        starts = tag != "O" and (tag[0] == "B" or before == "O" or tag[2:] != before[2:])
        if ends:
            spans.add((start, position, before[2:]))
        if starts:
            start = position
    return spans


@given(tags=TAGS)
def test_spans(tags):
    assert set(chunk_spans(tags)) == plain_spans(tags)
    assert chunk_spans(tags) == sorted(chunk_spans(tags))


def test_scores_of_a_case_worked_out_by_hand():
    gold = [
        ["B-NP", "I-NP", "B-VP", "B-NP", "O"],  # NP 0-2, VP 2-3, NP 3-4
        ["B-PP", "B-NP", "I-NP", "B-NP", "O"],  # PP 0-1, NP 1-3, NP 3-4
        [],
    ]
    predicted = [
        [
            "I-NP",
            "I-NP",
            "I-VP",
            "O",
            "B-NP",
        ],  # NP 0-2 and VP 2-3 are right, since I- after another type begins; NP 4-5
        ["B-PP", "I-NP", "I-NP", "I-NP", "O"],  # PP is right; NP 1-4
        [],
    ]
    scores = chunk_scores(gold, predicted)
    # Of 6 chunks 3 are found, with 5 said.
    assert (scores["gold"], scores["predicted"], scores["correct"]) == (6, 5, 3)
    assert scores["precision"] == pytest.approx(3 / 5)
    assert scores["recall"] == pytest.approx(3 / 6)
    assert scores["f1"] == pytest.approx(2 * 0.6 * 0.5 / (0.6 + 0.5))


def test_the_shared_tasks_own_files(shared_data, tmp_path):
    """Counts of chunks as the shared task's paper gives them (Tjong Kim Sang and Buchholz 2000, section 3)."""
    import zipfile

    counts = []
    with zipfile.ZipFile(shared_data / "conll2000" / "conll2000.zip") as archive:
        for name in ("train", "test"):
            (tmp_path / name).write_bytes(archive.read(f"conll2000/{name}.txt"))
            sentences = list(read_conll(tmp_path / name))
            spans = [span for _, tags in sentences for span in chunk_spans(tags)]
            counts.append((len(sentences), sum(len(tokens) for tokens, _ in sentences), len(spans)))
    assert counts == [(8936, 211_727, 106_978), (2012, 47_377, 23_852)]
