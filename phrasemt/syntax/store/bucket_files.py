"""The files of one annotator's store: `<folder>/<bucket>/<digest>.arrow`, annotations of sentences of one bucket.

A file never changes. It is written under a temporary name and then renamed to the digest of its content. Any number of
writers can therefore share a store without locks, on one machine or on a shared file system, and a file whose content
does not have the digest of its name is damaged. Readers rename a damaged file to `<name>.damaged`; its sentences then
count as missing.

Nothing is memory-mapped, so one process can remove a file while another one reads it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from phrasemt.files.digests import digest_bytes
from phrasemt.files.shared import new_file, set_aside
from phrasemt.syntax.store.annotations import AnnotationBatch, parse_annotations, schema_of

log = logging.getLogger("phrasemt.store")

FILE_NAME = re.compile(r"[0-9a-f]{32}\.arrow")


class StoredFile(NamedTuple):
    """A file of a bucket after it was read and checked."""

    name: str
    data: bytes
    batch: AnnotationBatch


class BucketFiles:
    """The files of the annotator with a fingerprint, in a folder below the shared folder `cache`."""

    def __init__(self, folder: Path, cache: Path, fingerprint: str) -> None:
        self.folder = folder
        self.damaged: list[Path] = []  # files that this object found damaged
        self._cache, self._fingerprint = cache, fingerprint

    def of_bucket(self, bucket: int) -> Iterator[StoredFile]:
        """The undamaged files of a bucket in the order of their names, read one at a time."""
        folder = self._bucket_folder(bucket)
        seen: set[str] = set()
        # List the folder again until it shows no new name: a file that has vanished was merged into a new one.
        while names := sorted(_names(folder) - seen):
            seen.update(names)
            yield from filter(None, (self._read(folder / name, bucket) for name in names))

    def add(self, batch: pa.RecordBatch) -> str:
        """Write annotations of one bucket as a file; returns its name."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema_of({"fingerprint": self._fingerprint})) as writer:
            writer.write_batch(batch)
        data = bytes(sink.getvalue())
        name = f"{_digest(data)}.arrow"
        self._put(AnnotationBatch(batch).bucket, name, data)
        return name

    def add_file(self, bucket: int, name: str, data: bytes) -> bool:
        """Write a file of another store; returns whether this store lacked it. Raises ValueError if it is damaged."""
        _check(data, name, bucket, self._fingerprint)
        return self._put(bucket, name, data)

    def path(self, bucket: int, name: str) -> Path:
        return self._bucket_folder(bucket) / name

    def _bucket_folder(self, bucket: int) -> Path:
        return self.folder / f"{bucket:02}"

    def _read(self, path: Path, bucket: int) -> StoredFile | None:
        """An undamaged file; None if the file is missing, unreadable or damaged."""
        for again in (False, True):
            try:
                data = path.read_bytes()
                return StoredFile(path.name, data, _check(data, path.name, bucket, self._fingerprint))
            except FileNotFoundError:
                return None
            except PermissionError as error:
                log.warning("warning: %s cannot be read (%s); its sentences count as missing", path, error.strerror)
                return None
            except ValueError as reason:
                # Read a second time before the rename: meanwhile another process may have set the file aside, and a
                # third one may have written it anew.
                if again:
                    self._set_aside(path, reason)
        return None

    def _set_aside(self, path: Path, reason: ValueError) -> None:
        what_happened = set_aside(path)
        self.damaged.append(path)
        log.warning("warning: %s is damaged (%s). %s; its sentences count as missing", path, reason, what_happened)

    def _put(self, bucket: int, name: str, data: bytes) -> bool:
        """Write a file unless an undamaged one of that name exists; returns whether it was written."""
        path = self.path(bucket, name)
        if self._read(path, bucket):
            return False
        with new_file(path, self._cache) as unfinished:
            unfinished.write_bytes(data)
        return True


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if FILE_NAME.fullmatch(entry.name)}
    except FileNotFoundError:
        return set()


def _check(data: bytes, name: str, bucket: int, fingerprint: str) -> AnnotationBatch:
    """The annotations in a file. Raises ValueError, with the reason, if content, name, bucket or annotator disagree."""
    if _digest(data) != Path(name).stem:
        raise ValueError("its content is not what its name says")
    annotator, batches = parse_annotations(pa.py_buffer(data))
    if annotator["fingerprint"] != fingerprint or [batch.bucket for batch in batches] != [bucket]:
        raise ValueError("it is of another annotator or bucket")
    return batches[0]


def _digest(data: bytes) -> str:
    return digest_bytes(data)[:32]
