"""The store of annotations: no sentence is ever parsed or tagged twice by the same annotator.

    <cache>/annotations/<fingerprint>/card.json               format version, and the annotator's card
    <cache>/annotations/<fingerprint>/<bucket>/<digest>.arrow annotations of sentences of one bucket

Files never change: each is written under a temporary name, then renamed to the digest of its content. So any number of
writers share a store without locks, on one machine or on a shared file system, and a file that is not what its name
says is damaged. It is set aside when it is read, and its sentences count as missing. Writers that add the same
sentence do no harm: of the files that have a text for it, else of all, the one whose name comes first is believed.

Nothing is memory-mapped, so that a file can be removed while it is read elsewhere; memory is that of one bucket.
"""

from __future__ import annotations

import io
import json
import logging
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError, DataError, MismatchError
from phrasemt.files.digests import digest_bytes
from phrasemt.files.lines import write_atomic
from phrasemt.files.shared import Removals, new_file, set_aside
from phrasemt.syntax.sentences import BUCKETS, Keys, key_array
from phrasemt.syntax.store.annotations import (
    Annotation,
    AnnotationBatch,
    annotation_batches,
    checked_card,
    parse_annotations,
    schema_of,
)

log = logging.getLogger("phrasemt.store")

FORMAT = 1
_CARD = "card.json"
_END = "complete.json"
_FILE = re.compile(r"[0-9a-f]{32}\.arrow")
_MEMBER = re.compile(rf"(\w+)/(?:([0-9]{{2}})/)?({_FILE.pattern}|{_CARD}|{_END})")


class StoredFile(NamedTuple):
    """A file of a bucket, whole and read."""

    name: str
    data: bytes
    batch: AnnotationBatch


@dataclass(frozen=True)
class Contents:
    """What a store holds of an annotator: distinct sentences, those without an annotation, files, their bytes."""

    sentences: int
    failures: int
    files: int
    bytes: int


@dataclass
class StoreCleanup(Removals):
    """What `clean` did. merged: files that were merged into others and removed."""

    merged: int = 0


class AnnotationStore:
    """The annotations of one annotator. Made with its card, which is written down when the store is new.

    Raises MismatchError when the folder is of another format version, DamagedFileError when its card is not readable.
    """

    def __init__(self, cache: Path, card: Mapping[str, Any]) -> None:
        self.card = dict(card)
        self.fingerprint: str = card["fingerprint"]
        self._cache = cache
        self.folder: Path = cache / "annotations" / self.fingerprint
        self.set_aside: list[Path] = []  # files found damaged by this object
        self._write_card()
        _read_card(self.folder)

    @classmethod
    def all(cls, cache: Path) -> list[AnnotationStore]:
        """The stores of all annotators in a folder, by fingerprint. Errors as above."""
        cards = sorted((cache / "annotations").glob(f"*/{_CARD}"))
        return [cls(cache, _read_card(card.parent)) for card in cards]

    # ------------------------------------------------------------------------------------------------ look up and add

    def missing(self, bucket: int, keys: Keys) -> NDArray[np.int32]:
        """Positions of the keys of a bucket that the store does not have."""
        missing = np.ones(len(keys), dtype=bool)
        for numbers, _, _ in self._locate(bucket, keys):
            missing[numbers] = False
        return np.flatnonzero(missing).astype(np.int32)

    def find(self, bucket: int, keys: Keys) -> list[Annotation | None]:
        """The annotations of keys of a bucket; None: not there."""
        found: list[Annotation | None] = [None] * len(keys)
        for numbers, batch, positions in self._locate(bucket, keys):
            for number, annotation in zip(numbers.tolist(), batch.annotations(positions), strict=True):
                found[number] = annotation
        return found

    def add(self, keys: Keys, annotations: Sequence[Annotation]) -> None:
        """Store the annotations of some sentences, a file for each of their buckets; afterwards all are on disk."""
        keys, believed = _distinct(keys, [annotation.failure is not None for annotation in annotations])
        for batch in annotation_batches(keys, [annotations[number] for number in believed.tolist()]):
            data = self._file(batch)
            self._put(AnnotationBatch(batch).bucket, f"{_digest(data)}.arrow", data)

    def _locate(self, bucket: int, keys: Keys) -> Iterator[tuple[NDArray[np.intp], AnnotationBatch, NDArray[np.intp]]]:
        """For each file of a bucket: numbers of the keys that it is believed for, and their positions in it.

        A key may come twice: first with a failure, then with a text of another file.
        """
        wanted = np.arange(len(keys))
        failed = np.zeros(len(keys), dtype=bool)
        for file in self._files(bucket):
            positions = file.batch.positions(keys[wanted])
            fails = (positions >= 0) & file.batch.failed[positions]
            text = (positions >= 0) & ~fails
            believed = text | (fails & ~failed[wanted])
            yield wanted[believed], file.batch, positions[believed]
            failed[wanted[fails]] = True
            wanted = wanted[~text]
            if not len(wanted):
                return

    # ---------------------------------------------------------------------------------------------------------- files

    def _bucket_folder(self, bucket: int) -> Path:
        return self.folder / f"{bucket:02}"

    def _files(self, bucket: int) -> Iterator[StoredFile]:
        """The whole files of a bucket, in the order of their names, read one at a time; damaged ones are set aside."""
        folder = self._bucket_folder(bucket)
        seen: set[str] = set()
        # Listed again until there is nothing new: a file that is gone meanwhile has been merged into a new one.
        while names := sorted(_names(folder) - seen):
            seen.update(names)
            yield from filter(None, (self._read(folder / name, bucket) for name in names))

    def _read(self, path: Path, bucket: int) -> StoredFile | None:
        """A file, or None if there is none that is whole."""
        for again in (False, True):
            try:
                data = path.read_bytes()
                return StoredFile(path.name, data, _check(data, path.name, bucket, self.fingerprint))
            except FileNotFoundError:
                return None
            except PermissionError as error:
                log.warning("warning: %s cannot be read (%s); its sentences count as missing", path, error.strerror)
                return None
            except ValueError as reason:
                # Read again right before it is moved: another reader may have set it aside meanwhile, and a writer
                # have written it anew.
                if again:
                    self._set_aside(path, reason)
        return None

    def _set_aside(self, path: Path, reason: ValueError) -> None:
        where = set_aside(path)
        self.set_aside.append(path)
        log.warning("warning: %s is damaged (%s). %s; its sentences count as missing", path, reason, where)

    def _file(self, batch: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema_of({"fingerprint": self.fingerprint})) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    def _put(self, bucket: int, name: str, data: bytes) -> bool:
        """Write a file unless it is there, and whole; whether it was written."""
        path = self._bucket_folder(bucket) / name
        if self._read(path, bucket):
            return False
        self._write_card()  # the folder may have been removed meanwhile
        self._write(path, data)
        return True

    def _write(self, path: Path, data: bytes) -> None:
        with new_file(path, self._cache) as unfinished:
            unfinished.write_bytes(data)

    def _write_card(self) -> None:
        path = self.folder / _CARD
        if not path.exists():
            self._write(path, self._card_text())

    def _card_text(self) -> bytes:
        return (json.dumps({"format": FORMAT, "annotator": self.card}, indent=1, sort_keys=True) + "\n").encode()

    # ----------------------------------------------------------------------------------------------------------- care

    def contents(self) -> Contents:
        """Read and check every file, and count."""
        sentences = failures = files = size = 0
        for bucket in range(BUCKETS):
            keys, failed = [key_array([])], [np.empty(0, dtype=bool)]
            for file in self._files(bucket):
                keys.append(file.batch.keys)
                failed.append(file.batch.failed)
                files += 1
                size += len(file.data)
            failed_once = np.concatenate(failed)
            distinct, believed = _distinct(np.concatenate(keys), failed_once)
            sentences += len(distinct)
            failures += int(failed_once[believed].sum())
        return Contents(sentences, failures, files, size)

    def clean(self) -> StoreCleanup:
        """Merge the files of each bucket into one; remove what was set aside or left unfinished more than a day ago."""
        done = StoreCleanup()
        for bucket in range(BUCKETS):
            self._merge(bucket, done)
        done.remove_leftovers(self.folder)
        return done

    def _merge(self, bucket: int, done: StoreCleanup) -> None:
        files = list(self._files(bucket))
        if len(files) < 2:
            return
        annotations: list[Annotation] = []
        for file in files:
            annotations += file.batch.annotations(np.arange(len(file.batch.keys)))
        # What is removed below is in the merged file, which is on disk by then: any reader finds one or the other.
        keys, believed = _distinct(
            np.concatenate([file.batch.keys for file in files]), np.concatenate([file.batch.failed for file in files])
        )
        (batch,) = annotation_batches(keys, [annotations[number] for number in believed.tolist()])
        data = self._file(batch)
        name = f"{_digest(data)}.arrow"
        self._put(bucket, name, data)
        for file in files:
            if file.name != name:
                done.merged += done.remove(self._bucket_folder(bucket) / file.name)

    def remove(self) -> Removals:
        """Remove everything but what another writer may be writing, and what only others may remove."""
        done = Removals()
        done.remove_leftovers(self.folder)
        for path in self.folder.glob("*/*.arrow"):
            done.remove(path)
        if not done.refused:
            done.remove(self.folder / _CARD)
        for folder in [*self.folder.glob("*/"), self.folder]:
            with suppress(OSError):  # not empty
                folder.rmdir()
        return done

    # ------------------------------------------------------------------------------------------------- other machines

    def export(self, path: Path) -> int:
        """Write all files into one (tar), which `import_annotations` reads; returns their number."""
        files = 0
        with write_atomic(path) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
            _append(archive, f"{self.fingerprint}/{_CARD}", self._card_text())
            for bucket in range(BUCKETS):
                for file in self._files(bucket):
                    _append(archive, f"{self.fingerprint}/{bucket:02}/{file.name}", file.data)
                    files += 1
            _append(archive, f"{self.fingerprint}/{_END}", json.dumps({"files": files}).encode())
        return files

    def take_over(self, bucket: int, name: str, data: bytes) -> bool:
        """Add a file of another store as it is; whether it is new. Raises ValueError when it is damaged."""
        _check(data, name, bucket, self.fingerprint)
        return self._put(bucket, name, data)


def import_annotations(cache: Path, source: Path) -> Iterator[tuple[AnnotationStore, int, int]]:
    """Add all that another store's folder or a file of `export` holds; gives store, new files, files by annotator.

    Raises DataError when the source is neither, DamagedFileError when the file is damaged; what was added before is
    whole and stays. Damaged files of another store are set aside there.
    """
    if not source.is_dir():
        yield _import_file(cache, source)
        return
    if not (others := AnnotationStore.all(source)):
        raise DataError("no store of annotations", where=source, expected="a folder that holds `annotations/`")
    for other in others:
        store = AnnotationStore(cache, other.card)
        new = files = 0
        for bucket in range(BUCKETS):
            for file in other._files(bucket):
                new += store.take_over(bucket, file.name, file.data)
                files += 1
        yield store, new, files


def _import_file(cache: Path, path: Path) -> tuple[AnnotationStore, int, int]:
    store, new, files, whole = None, 0, 0, False
    try:
        with tarfile.open(path, "r:") as archive:
            for entry in archive:
                found = _MEMBER.fullmatch(entry.name)
                if found is None or not entry.isfile():
                    raise ValueError(f"an entry {entry.name!r}")
                data = archive.extractfile(entry).read()  # type: ignore[union-attr]
                fingerprint, bucket, name = found.groups()
                if name == _CARD:
                    store = AnnotationStore(cache, _parse_card(data, fingerprint, path))
                elif name == _END:
                    whole = json.loads(data) == {"files": files}
                elif store is None or bucket is None or fingerprint != store.fingerprint:
                    raise ValueError(f"an entry {entry.name!r} out of place")
                else:
                    new += store.take_over(int(bucket), name, data)
                    files += 1
        if store is None or not whole:
            raise ValueError(f"{files} files and no end")
    except FileNotFoundError:
        raise DataError("no such file or folder", where=path, next_step="check the path") from None
    except (ValueError, tarfile.TarError) as reason:
        raise DamagedFileError(
            "not a whole file of `phrasemt store export`",
            where=path,
            found=reason,
            next_step="export it again; what was imported already is whole and stays",
        ) from None
    return store, new, files


# --------------------------------------------------------------------------------------------------------------- files


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if _FILE.fullmatch(entry.name)}
    except FileNotFoundError:
        return set()


def _distinct(keys: Keys, failed: Sequence[bool] | NDArray[np.bool_]) -> tuple[Keys, NDArray[np.intp]]:
    """Each key once, increasing, and which of its places is believed: the first with a text, else the first."""
    order = np.argsort(failed, kind="stable")
    distinct, first = np.unique(keys[order], return_index=True)
    return distinct, order[first]


def _check(data: bytes, name: str, bucket: int, fingerprint: str) -> AnnotationBatch:
    """The content of a file of a bucket. Raises ValueError, with the reason, when it is not what its place says."""
    if _digest(data) != Path(name).stem:
        raise ValueError("its content is not what its name says")
    annotator, batches = parse_annotations(pa.py_buffer(data))
    if annotator["fingerprint"] != fingerprint or [batch.bucket for batch in batches] != [bucket]:
        raise ValueError("it is of another annotator or bucket")
    return batches[0]


def _digest(data: bytes) -> str:
    return digest_bytes(data)[:32]


def _append(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _read_card(folder: Path) -> dict[str, Any]:
    path = folder / _CARD
    try:
        return _parse_card(path.read_bytes(), folder.name, path)
    except ValueError as reason:
        raise DamagedFileError(
            "not the card of a store's annotator",
            where=path,
            found=reason,
            next_step="delete it; the next run with this annotator writes it again",
        ) from None


def _parse_card(text: bytes, fingerprint: str, where: Path) -> dict[str, Any]:
    """The annotator's card. Raises MismatchError for another format version, ValueError for anything else."""
    description = json.loads(text)
    if not isinstance(description, dict) or "format" not in description:
        raise ValueError("no format version")
    if (version := description["format"]) != FORMAT:
        raise MismatchError(
            "a store of another format version",
            where=where,
            expected=FORMAT,
            found=version,
            next_step="use another folder (`cache` in the study), or the version of phrasemt that wrote this one",
        )
    card = checked_card(description.get("annotator"))
    if card["fingerprint"] != fingerprint:
        raise ValueError(f"the card of {card['fingerprint']}")
    return card
