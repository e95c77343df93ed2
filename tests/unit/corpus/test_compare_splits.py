"""`compare_splits` against counts by hand, and what it refuses."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from phrasemt.corpus.compare_splits import compare_splits
from phrasemt.errors import DataError
from phrasemt.files.lines import write_lines
from phrasemt.stages.corpus import CompareSplits
from phrasemt.symbols import LONGEST_SENTENCE

Pairs = list[tuple[str, str]]
TRAIN = [(f"a {number}", f"b {number}") for number in range(40)]
DEV = [(f"c {number}", f"d {number}") for number in range(20)]
NEW = [(f"e {number}", f"f {number}") for number in range(20)]


def counts(
    folder: Path,
    *,
    overlap: str = "refused",
    train: Pairs = TRAIN,
    further: Sequence[Sequence[str]] = (),
    **splits: Pairs,
) -> dict[str, Any]:
    """The counts of dev and some test sets. Subwords are the words. further: references of the last test set."""
    paths = {}
    for name, pairs in {"train": train, **splits}.items():
        paths[name] = folder / f"{name}.source", folder / f"{name}.target"
        for path, side in zip(paths[name], zip(*pairs, strict=True), strict=True):
            write_lines(path, side)
    train_source, train_target = paths.pop("train")
    sources, targets = ([pair[side] for pair in paths.values()] for side in (0, 1))
    numbers = [0] * (len(splits) - 1) + [len(further)]
    references = [folder / f"further.{number}" for number in range(len(further))]
    for path, lines in zip(references, further, strict=True):
        write_lines(path, lines)
    compare_splits(
        settings=CompareSplits(splits=list(splits), languages=["en", "de"], references=numbers, overlap=overlap),
        cores=1,
        train_source=train_source,
        train_target=train_target,
        sources=sources,
        targets=targets,
        references=references,
        source_subwords=sources,
        target_subwords=targets,
        counts=folder / "counts",
    )
    found: dict[str, Any] = json.loads((folder / "counts").read_text())["splits"]
    return found


def test_pairs_and_sides_are_counted(tmp_path: Path) -> None:
    test = [TRAIN[0], TRAIN[0], ("a 1", "new"), ("new", "b 2"), DEV[0], ("c 1", "new"), *NEW * 3]
    found = counts(tmp_path, dev=[TRAIN[5], *DEV], test=test)
    assert found["dev"]["in_train"] == {"pairs": 1, "sources": 1, "targets": 1}
    assert "in_dev" not in found["dev"]
    assert found["test"]["in_train"] == {"pairs": 2, "sources": 3, "targets": 3}
    assert found["test"]["in_dev"] == {"pairs": 1, "sources": 2, "targets": 1}
    assert found["test"]["pairs"] == 66


def test_unusual_lines_are_counted(tmp_path: Path) -> None:
    long = " ".join(["x"] * (LONGEST_SENTENCE + 1))
    longest = " ".join(["y"] * LONGEST_SENTENCE)
    found = counts(tmp_path, dev=DEV, test=[("", "f"), ("", ""), ("e", ""), ("g", "g"), (long, longest), *NEW])["test"]
    assert (found["blank_sources"], found["blank_targets"], found["equal_sides"]) == (2, 2, 1)
    assert (found["cut_sources"], found["cut_targets"]) == (1, 0)
    assert found["in_train"] == {"pairs": 0, "sources": 0, "targets": 0}, "blank lines are no overlap"


@pytest.mark.parametrize(
    ("dev", "test", "message"),
    [
        (DEV, TRAIN, r"100.0% of the pairs of test also stand in train"),
        (TRAIN, NEW, r"100.0% of the pairs of dev also stand in train"),
        (DEV, DEV, r"100.0% of the pairs of test also stand in dev"),
        (DEV, [*NEW, *((source, "other") for source, _ in TRAIN[:3])], r"13.0% of the sources of test also st"),
        (DEV, [*NEW, *(("other", target) for _, target in TRAIN[:3])], r"13.0% of the targets of test also st"),
    ],
)
def test_a_large_overlap_is_refused_unless_allowed(tmp_path: Path, dev: Pairs, test: Pairs, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        counts(tmp_path, dev=dev, test=test)
    assert "`overlap: allowed` in the data set lets the study run" in str(error.value)
    assert not (tmp_path / "counts").exists()
    assert counts(tmp_path, dev=dev, test=test, overlap="allowed").keys() == {"dev", "test"}


def test_sentences_that_look_the_same_are_shared(tmp_path: Path) -> None:
    train = [(f"{source} schön", f"{target} schön") for source, target in TRAIN]
    decomposed = [(unicodedata.normalize("NFD", source), "new") for source, _ in train[:20]]
    invisible = [(f"\u200e{source}\u200e", "\u200b") for source, _ in train[20:]]
    found = counts(tmp_path, dev=DEV, test=decomposed + invisible, train=train, overlap="allowed")["test"]
    assert found["in_train"]["sources"] == 40
    assert found["blank_targets"] == 20


@pytest.mark.parametrize(
    ("first", "further", "found"),
    [
        (["f", "", "g"], [["x", "", "y"], ["p", "", "q"]], 3),
        (["f", "g"], [["x", ""], ["p", "q"]], "further.0, line 2: a reference is blank"),
        (["", "g"], [["x", "y"]], "test.target, line 1: a reference is blank"),
    ],
)
def test_blank_lines_of_all_references_count(
    tmp_path: Path, first: list[str], further: list[list[str]], found: int | str
) -> None:
    """BLEU with the length of the shortest reference would take one of length 0."""
    test = [(f"new {number}", target) for number, target in enumerate(first)]
    if isinstance(found, int):
        assert counts(tmp_path, dev=DEV, test=test, further=further)["test"]["blank_targets"] == found
        return
    with pytest.raises(DataError, match=found):
        counts(tmp_path, dev=DEV, test=test, further=further)
    assert not (tmp_path / "counts").exists()


PLAIN = [f"It isn't so, says line {number}." for number in range(200)]
ESCAPED = [line.replace("'", " &apos;") for line in PLAIN]
TOKENISED = [line.replace(".", " .").replace(",", " ,") for line in PLAIN]


@pytest.mark.parametrize("prepared", [ESCAPED, TOKENISED], ids=["escaped", "tokenised"])
@pytest.mark.parametrize(
    ("other", "side"), [("train", 0), ("train", 1), ("dev", 0), ("dev", 1), ("test", 0), ("test", 1), ("further", 1)]
)
def test_texts_of_a_side_must_be_prepared_alike(tmp_path: Path, prepared: list[str], other: str, side: int) -> None:
    """A perfect translation of an escaped reference would score 27 BLEU, and a model learns no escapes of test."""
    texts = {name: [*zip(PLAIN, PLAIN, strict=True)] for name in ("train", "dev", "test")}
    texts[other] = [*zip(*((prepared, PLAIN) if side == 0 else (PLAIN, prepared)), strict=True)]
    further = [target for _, target in texts.pop("further", zip(PLAIN, PLAIN, strict=True))]
    with pytest.raises(DataError, match=r"preprocessed in different ways .*lines with"):
        counts(tmp_path, **texts, further=[further], overlap="allowed")
    alike = [*zip(prepared, prepared, strict=True)]
    assert counts(tmp_path, train=alike, dev=alike, test=alike, further=[prepared], overlap="allowed")


def test_texts_that_do_not_belong_together_are_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = [(f"The house {number} is old.", f"Das Haus {number} ist alt.") for number in range(200)]
    dev = [(f"The car {number} is old.", f"Das Auto {number} ist alt.") for number in range(100)]
    test = [(f"the dog {number} is old.", f"der Hund {number} ist alt.") for number in range(100)]
    exchanged = [(target, source) for source, target in train]
    found = counts(tmp_path, dev=dev, test=[(one.lower(), other.lower()) for one, other in test], train=exchanged)
    assert "train: in 100% of its pairs the sides look exchanged, compared with dev" in found["dev"]["doubts"]
    assert "source: 100.0% lines without a capital, 0.0% in dev" in found["test"]["doubts"]
    assert "compare_splits: warning: test: target: 100.0% lines without a capital, 0.0% in dev" in caplog.text
    assert "doubts" not in counts(tmp_path, dev=dev, test=dev, train=train, overlap="allowed")["dev"]
