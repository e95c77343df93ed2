"""`pack_examples` against a plain dictionary look-up, line by line; pyarrow reads the files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.artefacts.columns import Examples, Vocabulary
from phrasemt.batching import pack
from phrasemt.batching.pack import pack_examples
from phrasemt.errors import MismatchError
from phrasemt.files.system import digest_file
from phrasemt.stages.subwords import PackExamples

SPECIAL = "<pad>\t0\n<s>\t0\n</s>\t0\n<unk>\t0\n"
IDS = {"source": {"a": 4, "b@@": 5, "c": 6}, "target": {"x": 4, "y": 5}}


class Folder:
    """The inputs of the stage, and the stage on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.examples = path / "examples.arrow"
        for side, ids in IDS.items():
            self.write(f"{side}.tsv", SPECIAL + "".join(f"{subword}\t9\n" for subword in ids))

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8", newline="\n")

    def pack(self, rows: str, source: str, target: str, *, cores: int = 1, examples: Path | None = None) -> Examples:
        for name, text in (("rows", rows), ("source", source), ("target", target)):
            self.write(name, text)
        pack_examples(
            settings=PackExamples(),
            cores=cores,
            rows=self.path / "rows",
            source=self.path / "source",
            target=self.path / "target",
            source_vocabulary=self.path / "source.tsv",
            target_vocabulary=self.path / "target.tsv",
            examples=examples or self.examples,
        )
        return Examples.open(examples or self.examples)

    def pack_lines(self, pairs: list[tuple[list[str], list[str]]], **options: object) -> Examples:
        source, target = ("".join(" ".join(pair[side]) + "\n" for pair in pairs) for side in (0, 1))
        return self.pack("".join(f"{3 * number}\n" for number in range(len(pairs))), source, target, **options)

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        return Vocabulary.read(self.path / "source.tsv"), Vocabulary.read(self.path / "target.tsv")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    make_batches_small(monkeypatch)


def make_batches_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_PAIRS_PER_BLOCK", 3)
    monkeypatch.setattr(pack, "_BLOCKS_PER_RECORD_BATCH", 2)


def content(examples: Examples) -> list[tuple[list[int], list[int]]]:
    pairs = range(len(examples))
    return [(examples.source(pair).tolist(), examples.target(pair).tolist()) for pair in pairs]


SUBWORDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["a", "b@@", "c", "a", "b@@", "c", "?"]), max_size=5),
        st.lists(st.sampled_from(["x", "y", "x", "y", "</s>"]), max_size=5),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(pairs=SUBWORDS)
def test_ids_are_the_ids_of_the_vocabularies(pairs, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_batches_small(monkeypatch)
        monkeypatch.setattr(pack, "_MAX_UNKNOWN_SHARE", 1.0)
        examples = Folder(tmp_path_factory.mktemp("pack")).pack_lines(pairs)
    assert content(examples) == [
        ([IDS["source"].get(subword, 3) for subword in source], [IDS["target"].get(subword, 3) for subword in target])
        for source, target in pairs
    ]
    assert examples.rows.tolist() == list(range(0, 3 * len(pairs), 3))
    assert examples.source_lengths.tolist() == [len(source) for source, _ in pairs]
    assert examples.target_lengths.tolist() == [len(target) for _, target in pairs]
    assert (examples.source_lengths.dtype, examples.rows.dtype) == (np.int32, np.int64)


def test_a_double_space_separates_no_subword(folder):
    assert content(folder.pack("0\n1\n", "a  c\nc \n", "x\n y\n")) == [([4, 6], [4]), ([6], [5])]


@pytest.mark.usefixtures("small_batches")
def test_the_file_is_plain_arrow_in_record_batches(folder):
    folder.pack("2\n5\n7\n8\n9\n10\n12\n", "a c\n\n" + "b@@ c\n" * 5, "x\n" * 7)
    with pa.ipc.open_file(folder.examples) as reader:
        assert [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)] == [6, 1]
        table = reader.read_all()
    assert str(table.schema.remove_metadata()).split("\n")[:3:2] == ["row: int64", "  child 0, item: int32"]
    assert table.column("row").to_pylist() == [2, 5, 7, 8, 9, 10, 12]
    assert table.column("source").to_pylist() == [[4, 6], [], *[[5, 6]] * 5]
    source, target = folder.vocabularies()
    texts = {side: digest_file(folder.path / side) for side in IDS}
    description = {"format": 2, "texts": texts, "source_vocabulary": source.digest, "target_vocabulary": target.digest}
    assert json.loads(table.schema.metadata[b"phrasemt"]) == description


@pytest.mark.usefixtures("small_batches")
def test_same_file_for_every_number_of_cores(folder):
    pairs = [(["a", "c"] * (number % 4), ["x"] * (number % 3)) for number in range(50)]
    folder.pack_lines(pairs, cores=1, examples=folder.path / "one")
    folder.pack_lines(pairs, cores=3, examples=folder.path / "three")
    assert (folder.path / "one").read_bytes() == (folder.path / "three").read_bytes()


def test_other_vocabularies_are_refused(folder):
    with pytest.raises(MismatchError, match=r"source: most subwords .*expected at most 50% unknown .*found 66.7%"):
        folder.pack("0\n1\n", "x y\na\n", "x\ny\n")
    examples = folder.pack_lines([(["a"], ["x"])])
    source, target = folder.vocabularies()
    examples.check_vocabularies(source, target)
    with pytest.raises(MismatchError, match=r"examples.arrow: the examples were packed with another target vocabulary"):
        examples.check_vocabularies(source, source)
