"""Witness: a dictionary."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.errors import DamagedFileError
from phrasemt.syntax.annotations import Annotation, Annotations, key_array, write_annotations, write_sorted_annotations

CARD = {"format": 1, "kind": "chunks", "fingerprint": "f" * 32, "scores": {"f1": 93.0}}
# Few different bytes, so that keys share beginnings, and zero bytes at both ends.
KEYS = st.binary(min_size=1, max_size=1).flatmap(
    lambda first: st.lists(st.sampled_from([0, 1, 255]), min_size=15, max_size=15).map(lambda rest: first + bytes(rest))
)
TEXTS = st.builds(Annotation, st.text(max_size=20), st.none()) | st.builds(Annotation, st.none(), st.text(max_size=5))


@settings(max_examples=60)
@given(files=st.lists(st.dictionaries(KEYS, TEXTS, max_size=20), min_size=1, max_size=3), others=st.lists(KEYS))
def test_find(files, others, tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotations")
    paths = [folder / str(number) for number in range(len(files))]
    for path, known in zip(paths, files, strict=True):
        write_annotations(path, list(known), list(known.values()), CARD)
    expected = {}
    for known in files:
        expected.update(known)
    annotations = Annotations(paths)
    asked = [*others, *expected, *others]
    assert annotations.find(asked) == [expected.get(key) for key in asked]


def numbered(count: int) -> dict[bytes, Annotation]:
    keys = [random.Random(number).randbytes(16) for number in range(count)]
    return {key: Annotation(f"O B-NP {key.hex()}", None) for key in keys}


def test_the_same_bytes_in_any_order_and_in_parts(tmp_path):
    known = numbered(300)
    write_annotations(tmp_path / "a", list(known), list(known.values()), CARD)
    keys = sorted(known)
    write_annotations(tmp_path / "b", keys, [known[key] for key in keys], dict(reversed(CARD.items())))
    split = next(number for number in range(100, 300) if keys[number][0] >> 2 != keys[number - 1][0] >> 2)
    parts = [(key_array(part), [known[key] for key in part]) for part in (keys[:split], keys[split:])]
    write_sorted_annotations(tmp_path / "c", parts, CARD)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    with pa.ipc.open_file(tmp_path / "a") as reader:
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    assert [key for batch in batches for key in batch.column("key").to_pylist()] == keys
    assert all(len({key[0] >> 2 for key in batch.column("key").to_pylist()}) == 1 for batch in batches)


def test_damaged_files(tmp_path):
    path = tmp_path / "a"
    known = numbered(200)
    write_annotations(path, list(known), list(known.values()), CARD)
    whole = path.read_bytes()
    for data in (
        b"",
        whole[:-1000],
        whole[:5000],
        whole.replace(b'"format": 1}', b'"format": 7}').replace(b'"format": 1, ', b'"format": 7, '),
        whole.replace(b"failure", b"feilure"),
    ):
        assert data != whole
        path.write_bytes(data)
        with pytest.raises(
            DamagedFileError, match=r"not a complete file of annotations .*Next: delete it and run again"
        ):
            Annotations([path])
