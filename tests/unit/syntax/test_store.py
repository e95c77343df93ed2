"""Witness: a dictionary; for files, what is really in the folder."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.errors import DamagedFileError
from phrasemt.syntax.annotations import BUCKETS, Annotation, key_array
from phrasemt.syntax.store import _SMALL_FILES, AnnotationStore

CARD = {"format": 1, "kind": "constituency", "fingerprint": "ab" * 16}
OTHER = {**CARD, "fingerprint": "cd" * 16}
Known = dict[bytes, Annotation]


def numbered(*numbers: int) -> Known:
    """Sentences by number: a tree or, for every tenth, a failure."""
    return {
        random.Random(number).randbytes(16): Annotation(None, "too long")
        if number % 10 == 9
        else Annotation(f"(S (X {number}))", None)
        for number in numbers
    }


def add(store: AnnotationStore, known: Known) -> None:
    store.add(key_array(list(known)), list(known.values()))


def found(store: AnnotationStore, known: Known) -> Known:
    """What the store has of these sentences."""
    result: Known = {}
    for bucket in range(BUCKETS):
        keys = sorted(key for key in known if key[0] >> 2 == bucket)
        annotations = store.find(bucket, key_array(keys))
        missing = store.missing(bucket, key_array(keys)).tolist()
        assert missing == [number for number, annotation in enumerate(annotations) if annotation is None]
        result.update(
            {key: annotation for key, annotation in zip(keys, annotations, strict=True) if annotation is not None}
        )
    return result


def files(store: AnnotationStore) -> list[Path]:
    return sorted(store.folder.glob("*/*.arrow"))


def merge(store: AnnotationStore) -> None:
    """Merge the files of each bucket into one."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr("phrasemt.syntax.store._SMALL_FILES", 1)
        for bucket in range(BUCKETS):
            store.merge_small_files(bucket)


def unusual(store: AnnotationStore) -> list[str]:
    """Files that are neither whole nor the card."""
    return [path.name for path in store.folder.rglob("*") if path.is_file() and path.suffix not in (".arrow", ".json")]


@settings(max_examples=30)
@given(added=st.lists(st.sets(st.integers(0, 60), max_size=20), max_size=4), merged=st.booleans())
def test_what_was_added_is_found(added, merged, tmp_path_factory):
    store = AnnotationStore(tmp_path_factory.mktemp("cache"), CARD)
    for numbers in added:
        add(store, numbered(*numbers))
    if merged:
        merge(store)
        assert len(files(store)) == len({path.parent for path in files(store)})
    everything = numbered(*range(60))
    assert found(store, everything) == numbered(*set().union(*added) - {60})
    assert found(AnnotationStore(store.folder.parents[1], CARD), everything) == found(store, everything)
    assert not unusual(store)


def test_other_annotators_share_nothing(tmp_path):
    add(AnnotationStore(tmp_path, CARD), numbered(1, 2))
    other = AnnotationStore(tmp_path, OTHER)
    assert found(other, numbered(1, 2)) == {}


def test_a_text_is_believed_before_any_failure(tmp_path):
    known = {bytes([0, number, *bytes(14)]): Annotation(f"text {number}", None) for number in range(20)}
    store = AnnotationStore(tmp_path, CARD)
    for key, annotation in known.items():  # of the files, some with failures come first and some last
        for tried in (Annotation(None, "failed"), annotation, Annotation(None, "failed again")):
            add(store, {key: tried})
    assert found(store, known) == known
    merge(store)
    assert found(store, known) == known
    key = bytes([4] * 16)
    store.add(key_array([key, key]), [Annotation(None, "failed"), Annotation("text", None)])
    assert found(store, {key: Annotation("", None)}) == {key: Annotation("text", None)}


def test_the_same_again_writes_nothing_new(tmp_path):
    store = AnnotationStore(tmp_path, CARD)
    add(store, numbered(1, 2, 3))
    before = [(path, path.stat().st_ino) for path in files(store)]
    add(store, dict(reversed(numbered(1, 2, 3).items())))
    assert [(path, path.stat().st_ino) for path in files(store)] == before
    keys = list(numbered(1, 1, 2))
    store.add(key_array([*keys, *keys]), [Annotation("a", None), Annotation("b", None)] * 2)  # the same keys twice
    assert len(found(store, numbered(1, 2, 3))) == 3


def write_many(cache: Path, writer: int, additions: int) -> None:
    """Sentences of one's own and sentences that the other writer adds too, in small files."""
    store = AnnotationStore(cache, CARD)
    for number in range(additions):
        known = numbered(number % 250, 1000 * (writer + 1) + number)
        add(store, known)
        for key in known:
            store.merge_small_files(key[0] >> 2)


def test_many_small_files_are_merged(tmp_path, monkeypatch):
    store = AnnotationStore(tmp_path, CARD)
    known = {bytes([0, number, *bytes(14)]): Annotation(str(number), None) for number in range(40)}
    for key, annotation in known.items():
        add(store, {key: annotation})
        store.merge_small_files(0)
        assert len(files(store)) <= _SMALL_FILES
    assert (found(store, known), unusual(store)) == (known, [])
    monkeypatch.setattr("phrasemt.syntax.store._SMALL_FILES", 1)
    with monkeypatch.context() as context:
        context.setattr(os, "geteuid", lambda: os.getuid() + 1)  # of another user
        before = files(store)
        store.merge_small_files(0)
        assert files(store) == before != []
    largest = max(before, key=lambda path: path.stat().st_size)
    monkeypatch.setattr("phrasemt.syntax.store._LARGE_BYTES", largest.stat().st_size)
    store.merge_small_files(0)
    assert len(files(store)) == 2
    assert largest in files(store)
    assert found(store, known) == known


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.35])
def test_killed_while_it_merges(tmp_path, delay):
    code = (
        f"import sys\nsys.path[:] = {sys.path!r}\nimport test_store as t, phrasemt.syntax.store as module\n"
        "from pathlib import Path\nmodule._SMALL_FILES = 1\n"
        f"store = t.AnnotationStore(Path({str(tmp_path)!r}), t.CARD)\n"
        "for number in range(100_000):\n"
        "    key = bytes([number % 2, number // 2 % 256, number // 512, *bytes(13)])\n"
        "    t.add(store, {key: t.Annotation('text', None)})\n    print(key.hex(), flush=True)\n"
        "    store.merge_small_files(0)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    lines = [writer.stdout.readline()]
    time.sleep(delay)
    writer.kill()
    lines += writer.stdout.read().splitlines()
    writer.wait()
    known = {bytes.fromhex(line): Annotation("text", None) for line in lines if len(line.strip()) == 32}
    store = AnnotationStore(tmp_path, CARD)
    assert (found(store, known), store.blobs.damaged) == (known, [])


@pytest.mark.slow
def test_two_writers_add_hundreds_of_times(tmp_path):
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_many, args=(tmp_path, writer, 300)) for writer in range(2)]
    for process in writers:
        process.start()
    store = AnnotationStore(tmp_path, CARD)
    while any(process.is_alive() for process in writers):  # a third one merges beside them
        merge(store)
    for process in writers:
        process.join()
        assert process.exitcode == 0
    everything = numbered(*range(250), *range(1000, 1300), *range(2000, 2300))
    assert found(store, everything) == everything
    assert store.blobs.damaged == []
    merge(store)
    assert len(files(store)) == len({key[0] >> 2 for key in everything})
    assert (found(store, everything), unusual(store)) == (everything, [])


def test_a_file_merged_away_while_it_is_looked_for(tmp_path, monkeypatch):
    store = AnnotationStore(tmp_path, CARD)
    known = {bytes([0, number, *bytes(14)]): Annotation(str(number), None) for number in range(5)}
    for key, annotation in known.items():
        add(store, {key: annotation})
    original = Path.read_bytes

    def read_later(path: Path) -> bytes:
        if len(files(store)) > 1:
            monkeypatch.undo()
            merge(AnnotationStore(tmp_path, CARD))
        return original(path)

    monkeypatch.setattr(Path, "read_bytes", read_later)
    assert found(store, known) == known
    assert (len(files(store)), store.blobs.damaged) == (1, [])


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[" * 100_000, '{"format": 1}', "\ufeff", json.dumps({"format": 1, "annotator": OTHER}),
     json.dumps({"format": "x", "annotator": CARD})],
)  # fmt: skip
def test_a_damaged_card_is_set_aside_and_written_again(tmp_path, text):
    store = AnnotationStore(tmp_path, CARD)
    add(store, numbered(1))
    card = store.folder / "card.json"
    whole = card.read_text()
    card.write_text(text)
    assert found(AnnotationStore(tmp_path, CARD), numbered(1)) == numbered(1)
    assert (store.folder / "card.json.damaged").read_text() == text
    assert card.read_text() == whole


def test_a_card_of_another_version_is_refused(tmp_path):
    store = AnnotationStore(tmp_path, CARD)
    (store.folder / "card.json").write_text(json.dumps({"format": 2, "annotator": CARD}))
    with pytest.raises(DamagedFileError, match=r"card.json: .* another format version .* Next: delete the file"):
        AnnotationStore(tmp_path, CARD)


def test_stores_are_merged_by_copying_files(tmp_path):
    here, there = (AnnotationStore(tmp_path / name, CARD) for name in ("here", "there"))
    add(here, numbered(*range(100)))
    add(there, numbered(*range(50, 150)))
    shutil.copytree(here.folder, there.folder, dirs_exist_ok=True)
    assert found(there, numbered(*range(150))) == numbered(*range(150))
    assert there.blobs.damaged == []
