"""The store of annotations: no annotator parses or tags a sentence twice.

    <cache>/annotations/<fingerprint>/card.json               the annotator's description
    <cache>/annotations/<fingerprint>/<bucket>/<digest>.arrow annotations of sentences of one bucket

The files are blobs (phrasemt/files/blobs.py), each named by the digest of its content; copying files therefore merges
two stores of an annotator. Sentences of a damaged file count as missing.

Several writers may add the same sentence. Readers then prefer a text to a failure, and among several texts, or several
failures, the one in the file whose name comes first. Memory: the annotations of one bucket.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError
from phrasemt.files.blobs import Blobs
from phrasemt.files.system import digest_bytes
from phrasemt.syntax.annotations import (
    Annotation,
    AnnotationBatch,
    Keys,
    annotation_batches,
    parse_annotations,
    schema_of,
)

FORMAT = 1  # of the card
CARD = "card.json"
# A bucket with more small files than this is merged; at the size of a large one, a file is merged no further.
_SMALL_FILES, _LARGE_BYTES = 16, 1 << 23  # about 45,000 trees of 13 words
_FILE_NAME = re.compile(r"[0-9a-f]{32}\.arrow")


class StoredFile(NamedTuple):
    """A file of a bucket after it was read and checked."""

    path: Path
    data: bytes
    batch: AnnotationBatch


class AnnotationStore:
    """The annotations of one annotator. The constructor writes the card if the store is new.

    card: the description of the annotator (`Card.description`). blobs: they know the damaged files that were found.
    A damaged card is set aside and written again. Raises DamagedFileError for one of another format version.
    """

    def __init__(self, cache: Path, card: Mapping[str, Any]) -> None:
        self.card = dict(card)
        self.fingerprint: str = card["fingerprint"]
        self.folder: Path = cache / "annotations" / self.fingerprint
        self.blobs = Blobs(cache, effect="its sentences count as missing")
        if self.blobs.load(self.folder / CARD, _read_card) is None:  # none yet, or a damaged one
            self._write_card()

    def missing(self, bucket: int, keys: Keys) -> NDArray[np.int32]:
        """Positions in `keys`, which belong to one bucket, of the sentences missing from the store."""
        missing = np.ones(len(keys), dtype=bool)
        for numbers, _, _ in self._locate(bucket, keys):
            missing[numbers] = False
        return np.flatnonzero(missing).astype(np.int32)

    def find(self, bucket: int, keys: Keys) -> list[Annotation | None]:
        """The annotations of sentences of one bucket; None for a sentence missing from the store."""
        annotations: list[Annotation | None] = [None] * len(keys)
        for numbers, batch, positions in self._locate(bucket, keys):
            for number, annotation in zip(numbers.tolist(), batch.annotations(positions), strict=True):
                annotations[number] = annotation
        return annotations

    def _locate(self, bucket: int, keys: Keys) -> Iterator[tuple[NDArray[np.intp], AnnotationBatch, NDArray[np.intp]]]:
        """For each file of a bucket: numbers of the keys whose annotations it supplies, and their positions in it.

        A key may come twice: first with a failure, later with a text from another file.
        """
        wanted = np.arange(len(keys))
        failed = np.zeros(len(keys), dtype=bool)
        for file in self.files(bucket):
            positions = file.batch.positions(keys[wanted])
            fails = (positions >= 0) & file.batch.failed[positions]
            text = (positions >= 0) & ~fails
            chosen = text | (fails & ~failed[wanted])
            yield wanted[chosen], file.batch, positions[chosen]
            failed[wanted[fails]] = True
            wanted = wanted[~text]
            if not len(wanted):
                return

    def files(self, bucket: int) -> Iterator[StoredFile]:
        """The undamaged files of a bucket in the order of their names, read one at a time."""
        folder = self._bucket_folder(bucket)
        seen: set[str] = set()
        # List the folder again until it shows no new name: a file that has vanished was merged into a new one.
        while names := sorted(_names(folder) - seen):
            seen.update(names)
            yield from (file for _, file in self.blobs.load_all((folder / name for name in names), self._read))

    def add(self, keys: Keys, annotations: Sequence[Annotation]) -> list[Path]:
        """Store annotations in one file per bucket, on disk when the method returns; returns the files."""
        keys, chosen = distinct(keys, [annotation.failure is not None for annotation in annotations])
        added = []
        for batch in annotation_batches(keys, [annotations[number] for number in chosen.tolist()]):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, schema_of({"fingerprint": self.fingerprint})) as writer:
                writer.write_batch(batch)
            data = bytes(sink.getvalue())
            path = self._bucket_folder(AnnotationBatch(batch).bucket) / f"{_digest(data)}.arrow"
            added.append(path)
            if not any(self.blobs.load_all([path], self._read)):
                self._write_card()  # another process may have removed the folder
                with self.blobs.new(path) as unfinished:
                    unfinished.write_bytes(data)
        return added

    def merge_small_files(self, bucket: int) -> None:
        """Merge the small files of a bucket if they are many. Others' files stay, for they may not be removable."""
        folder = self._bucket_folder(bucket)
        small = []
        for name in sorted(_names(folder)):
            with suppress(FileNotFoundError):  # merged by another process
                state = (folder / name).stat()
                if state.st_size < _LARGE_BYTES and state.st_uid == os.geteuid():
                    small.append(folder / name)
        if len(small) > _SMALL_FILES:
            self._merge([file for _, file in self.blobs.load_all(small, self._read)])

    def _merge(self, files: Sequence[StoredFile]) -> None:
        annotations: list[Annotation] = []
        for file in files:
            annotations += file.batch.annotations(np.arange(len(file.batch.keys)))
        merged = self.add(np.concatenate([file.batch.keys for file in files]), annotations)
        # The merged file is on disk before the others go, so a reader always finds each sentence.
        for file in files:
            if file.path not in merged:
                with suppress(OSError):  # another process was faster, or a folder in which nothing may be removed
                    file.path.unlink()

    def _bucket_folder(self, bucket: int) -> Path:
        return self.folder / f"{bucket:02}"

    def _read(self, path: Path) -> StoredFile:
        """A file and the annotations in it. Raises ValueError, with the reason, if content, name and place disagree."""
        data = path.read_bytes()
        if _digest(data) != path.stem:
            raise ValueError("its content is not what its name says")
        annotator, batches = parse_annotations(pa.py_buffer(data))
        place = self._bucket_folder(batches[0].bucket)
        if annotator["fingerprint"] != self.fingerprint or path.parent != place:
            raise ValueError("it is of another annotator or bucket")
        return StoredFile(path, data, batches[0])

    def _write_card(self) -> None:
        with self.blobs.new(self.folder / CARD) as unfinished:
            content = {"format": FORMAT, "annotator": self.card}
            unfinished.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def distinct(keys: Keys, failed: Sequence[bool] | NDArray[np.bool_]) -> tuple[Keys, NDArray[np.intp]]:
    """Each key once, increasing, and the number of its annotation: the first with a text, or else the first."""
    order = np.argsort(failed, kind="stable")
    distinct_keys, first = np.unique(keys[order], return_index=True)
    return distinct_keys, order[first]


def _digest(data: bytes) -> str:
    return digest_bytes(data)[:32]


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if _FILE_NAME.fullmatch(entry.name)}
    except FileNotFoundError:
        return set()


def _read_card(path: Path) -> dict[str, Any]:
    """The description of the annotator of a folder.

    Raises DamagedFileError for one of another format version, ValueError for any other content.
    """
    try:
        content = json.loads(path.read_bytes())
        version, card = content["format"], content["annotator"]
        if (version, card["fingerprint"]) == (FORMAT, path.parent.name):
            return dict(card)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(repr(error)) from None
    if version == FORMAT or not isinstance(version, int):
        raise ValueError(f"the card of the annotator {card['fingerprint']}")
    raise DamagedFileError(
        "the card of the annotator is of another format version",
        where=path,
        expected=FORMAT,
        found=version,
        next_step="delete the file, and the next run with this annotator writes it again; or use another folder "
        "(PHRASEMT_CACHE)",
    )
