"""No sentence of either side in two splits, every pair in one, exact sizes. Witness for components: a plain search."""

from __future__ import annotations

import tempfile
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.corpus.partition import SPLITS, find_components, partition_corpus
from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel, write_lines
from phrasemt.stages.corpus import PartitionCorpus

Pair = tuple[str, ...]


def write_pairs(folder: Path, pairs: list[Pair]) -> dict[str, list[Path]]:
    """Write the pairs as two texts, one after the other."""
    halves = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    paths = {side: [folder / f"{side}.{number}" for number in (1, 2)] for side in ("source", "target")}
    for side, of_side in enumerate(paths.values()):
        for path, half in zip(of_side, halves, strict=True):
            write_lines(path, (pair[side] for pair in half))
    return paths


def cut(folder: Path, inputs: dict[str, list[Path]], *, dev: int, test: int, seed: int = 1) -> dict[str, list[Pair]]:
    outputs = {f"{split}_{side}": folder / f"{split}.{side}" for split in SPLITS for side in ("source", "target")}
    partition_corpus(settings=PartitionCorpus(dev=dev, test=test, seed=seed), cores=1, **inputs, **outputs)
    return {split: list(read_parallel(outputs[f"{split}_source"], outputs[f"{split}_target"])) for split in SPLITS}


def same(line: str) -> str:
    return unicodedata.normalize("NFC", " ".join(line.split())).casefold()


def assert_sound(pairs: list[Pair], splits: dict[str, list[Pair]]) -> None:
    assert Counter(pairs) == sum((Counter(splits[split]) for split in SPLITS), Counter())
    for side in (0, 1):
        sentences = {split: {same(pair[side]) for pair in splits[split]} for split in SPLITS}
        for first, second in (("train", "dev"), ("train", "test"), ("dev", "test")):
            assert not sentences[first] & sentences[second]


def components_by_search(pairs: list[Pair]) -> list[int]:
    """The component of each pair: number of its first pair, found by growing it until nothing is added."""
    component = [-1] * len(pairs)
    for start in range(len(pairs)):
        if component[start] >= 0:
            continue
        members = {start}
        while True:
            sides = [{same(pairs[row][side]) for row in members} for side in (0, 1)]
            grown = {row for row, pair in enumerate(pairs) if same(pair[0]) in sides[0] or same(pair[1]) in sides[1]}
            if grown == members:
                break
            members = grown
        for row in members:
            component[row] = start
    return component


sentences = st.sampled_from(["a", "A", "b", " b", "c", "d", "e\u2028", "e", "f", "g", "h"])
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=25)


@settings(max_examples=50)
@given(corpora)
def test_components(pairs: list[Pair]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        components = find_components(**write_pairs(Path(folder), pairs))
    expected = components_by_search(pairs)
    firsts = list(dict.fromkeys(expected))
    assert list(components.of_row) == [firsts.index(first) for first in expected]
    assert list(components.sizes) == [expected.count(first) for first in firsts]
    assert len(set(components.keys)) == len(components.keys)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(*[st.integers(0, 40).map(str)] * 2), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 5),
)
def test_splits_are_sound_or_refused(pairs: list[Pair], dev: int, test: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inputs = write_pairs(Path(folder), pairs)
        try:
            splits = cut(Path(folder), inputs, dev=dev, test=test, seed=seed)
        except DataError:
            counts = Counter(components_by_search(pairs)).values()
            alone = sum(count == 1 for count in counts)  # for such small splits only single pairs are drawn
            assert alone < dev + test or len(pairs) == dev + test
        else:
            assert_sound(pairs, splits)
            assert (len(splits["dev"]), len(splits["test"])) == (dev, test)
            for split in SPLITS:  # the order of the corpus
                rows = iter(pairs)
                assert all(pair in rows for pair in splits[split])


def test_the_draw_depends_on_seed_and_content_only(tmp_path: Path) -> None:
    pairs = [(f"s{number}", f"t{number}") for number in range(300)]
    first, again, other = (
        cut(tmp_path, write_pairs(tmp_path, pairs), dev=20, test=20, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first["test"] != other["test"]
    reverse = cut(tmp_path, write_pairs(tmp_path, pairs[::-1]), dev=20, test=20, seed=1)
    assert {split: lines[::-1] for split, lines in reverse.items()} == first
    assert len({int(source[1:]) // 30 for source, _ in first["test"]}) > 5  # from all over the corpus


@pytest.mark.parametrize(
    "other", ["scho\u0308n", "\u200eschön\u200e", "sch\u00adön", "\u200b Schön\ufe0f", "schön \u200c"]
)
def test_sentences_that_look_the_same_are_one(tmp_path: Path, other: str) -> None:
    inputs = write_pairs(tmp_path, [("schön", "a"), (other, "b"), ("c", "d")])
    assert list(find_components(inputs["source"], inputs["target"]).of_row) == [0, 0, 1]


def test_large_components_stay_in_train(tmp_path: Path) -> None:
    pairs = [("hub", f"t{number}") for number in range(50)]
    pairs += [(f"pair{number // 2}", f"x{number}") for number in range(1000)]
    pairs += [(f"s{number}", f"y{number}") for number in range(100)]
    splits = cut(tmp_path, write_pairs(tmp_path, pairs), dev=200, test=300)
    assert_sound(pairs, splits)
    assert (len(splits["dev"]), len(splits["test"])) == (200, 300)
    assert not any(source == "hub" for split in ("dev", "test") for source, _ in splits[split])


def test_pairs_with_an_empty_side_stay_in_train(tmp_path: Path) -> None:
    pairs = [("", "a"), ("b", "\t"), ("c", "d"), ("e", "f")]
    splits = cut(tmp_path, write_pairs(tmp_path, pairs), dev=1, test=1)
    assert splits["train"] == pairs[:2]


def test_sizes_that_cannot_be_reached(tmp_path: Path) -> None:
    inputs = write_pairs(tmp_path, [("hub", "a"), ("hub", "b"), ("c", "d"), ("e", "f")])
    with pytest.raises(DataError, match=r"^partition, test: .*\(expected 3 pairs in groups of at most 1 .* found 2"):
        cut(tmp_path, inputs, dev=1, test=3)
    with pytest.raises(DataError, match=r"^partition, dev: too few pairs .* found 1 such pairs among 4"):
        cut(tmp_path, inputs, dev=2, test=1)
    with pytest.raises(
        DataError, match=r"^partition: no pairs are left for train .expected more than 2 pairs, found 2 pai"
    ):
        cut(tmp_path, write_pairs(tmp_path, [("a", "b"), ("c", "d")]), dev=1, test=1)
    with pytest.raises(DataError, match="the text is empty"):
        cut(tmp_path, write_pairs(tmp_path, []), dev=1, test=1)
    assert {path.stem for path in tmp_path.iterdir()} == {"source", "target"}
