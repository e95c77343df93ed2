"""Annotations moved from one machine or folder to another: a tar file of one annotator, or a whole other store.

<fingerprint>/card.json
<fingerprint>/<bucket>/<digest>.arrow
<fingerprint>/complete.json    the number of files; written last, so that a cut archive is noticed
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.lines import write_atomic
from phrasemt.syntax.sentences import BUCKETS
from phrasemt.syntax.store.bucket_files import FILE_NAME
from phrasemt.syntax.store.card_file import CARD, card_text, parse_card
from phrasemt.syntax.store.store import AnnotationStore

_END = "complete.json"
_MEMBER = re.compile(rf"(\w+)/(?:([0-9]{{2}})/)?({FILE_NAME.pattern}|{CARD}|{_END})")


def export_annotations(store: AnnotationStore, path: Path) -> int:
    """Write all files of a store into one tar file; returns their number."""
    files = 0
    with write_atomic(path) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        _append(archive, f"{store.fingerprint}/{CARD}", card_text(store.card))
        for bucket in range(BUCKETS):
            for file in store.files.of_bucket(bucket):
                _append(archive, f"{store.fingerprint}/{bucket:02}/{file.name}", file.data)
                files += 1
        _append(archive, f"{store.fingerprint}/{_END}", json.dumps({"files": files}).encode())
    return files


def import_annotations(cache: Path, source: Path) -> Iterator[tuple[AnnotationStore, int, int]]:
    """Add the annotations of a tar file or of another cache folder to the stores in `cache`.

    Yields for each annotator its store, the number of files that were new, and the number of files in the source.
    Raises DataError if the source is neither, DamagedFileError if the tar file is damaged; files that were added
    before the error stay. Damaged files in another cache folder are set aside in that folder.
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
            for file in other.files.of_bucket(bucket):
                new += store.add_file(bucket, file.name, file.data)
                files += 1
        yield store, new, files


def _import_file(cache: Path, path: Path) -> tuple[AnnotationStore, int, int]:
    store, new, files, complete = None, 0, 0, False
    try:
        with tarfile.open(path, "r:") as archive:
            for entry in archive:
                found = _MEMBER.fullmatch(entry.name)
                if found is None or not entry.isfile():
                    raise ValueError(f"an entry {entry.name!r}")
                data = archive.extractfile(entry).read()  # type: ignore[union-attr]
                fingerprint, bucket, name = found.groups()
                if name == CARD:
                    store = AnnotationStore(cache, parse_card(data, fingerprint, path))
                elif name == _END:
                    complete = json.loads(data) == {"files": files}
                elif store is None or bucket is None or fingerprint != store.fingerprint:
                    raise ValueError(f"an entry {entry.name!r} out of place")
                else:
                    new += store.add_file(int(bucket), name, data)
                    files += 1
        if store is None or not complete:
            raise ValueError(f"{files} files and no end")
    except FileNotFoundError:
        raise DataError("no such file or folder", where=path, next_step="check the path") from None
    except (ValueError, tarfile.TarError) as reason:
        raise DamagedFileError(
            "not a complete file of `phrasemt store export`",
            where=path,
            found=reason,
            next_step="export it again; the files that were already imported are undamaged and stay",
        ) from None
    return store, new, files


def _append(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
