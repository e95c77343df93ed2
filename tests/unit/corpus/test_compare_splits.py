"""`compare_splits` against counts by hand, and what it refuses."""

from __future__ import annotations

import json
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


def counts(folder: Path, *, overlap: str = "refused", **splits: Pairs) -> dict[str, Any]:
    """The counts of dev and some test sets beside TRAIN. Subwords are the words."""
    paths = {}
    for name, pairs in {"train": TRAIN, **splits}.items():
        paths[name] = folder / f"{name}.source", folder / f"{name}.target"
        for path, side in zip(paths[name], zip(*pairs, strict=True), strict=True):
            write_lines(path, side)
    train_source, train_target = paths.pop("train")
    sources, targets = ([pair[side] for pair in paths.values()] for side in (0, 1))
    compare_splits(
        settings=CompareSplits.model_validate({"splits": list(splits), "overlap": overlap}),
        cores=1,
        train_source=train_source,
        train_target=train_target,
        sources=sources,
        targets=targets,
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


def test_a_small_overlap_is_no_error(tmp_path: Path) -> None:
    """As in real corpora, which share a few short sentences."""
    found = counts(tmp_path, dev=DEV, test=[*NEW, *TRAIN[:2]])
    assert found["test"]["in_train"]["pairs"] == 2
