"""Annotations moved from one machine or folder to another: a tar file of one annotator, or a whole other store.

<fingerprint>/card.json
<fingerprint>/<bucket>/<digest>.arrow
<fingerprint>/complete.json    the number of files; written last, so that a cut archive is noticed
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.lines import write_atomic
from phrasemt.syntax.store.store import CARD, AnnotationStore

_END = "complete.json"

Imported = tuple[AnnotationStore, int, int]  # store, number of files that were new, number of files in the source


def export_annotations(store: AnnotationStore, path: Path) -> int:
    """Write all files of a store into one tar file; returns their number."""
    files = 0
    with write_atomic(path) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        _append(archive, f"{store.fingerprint}/{CARD}", store.card_text)
        for file in store.files():
            _append(archive, f"{store.fingerprint}/{file.path.relative_to(store.folder)}", file.data)
            files += 1
        _append(archive, f"{store.fingerprint}/{_END}", json.dumps({"files": files}).encode())
    return files


def import_annotations(cache: Path, source: Path) -> Iterator[Imported]:
    """Add the annotations of a tar file or of another cache folder to the stores in `cache`.

    Raises DataError if the source is neither, DamagedFileError if the tar file is damaged; the undamaged files that it
    holds are added all the same. Damaged files in another cache folder are set aside in that folder.
    """
    if source.is_dir():
        if not (others := AnnotationStore.all(source)):
            raise DataError("no store of annotations", where=source, expected="a folder that holds `annotations/`")
        for other in others:
            yield _add_all(cache, other)
    else:
        yield _import_file(cache, source)


def _add_all(cache: Path, other: AnnotationStore) -> Imported:
    store = AnnotationStore(cache, other.card)
    new = files = 0
    for file in other.files():
        new += store.add_file(file)
        files += 1
    return store, new, files


def _import_file(cache: Path, path: Path) -> Imported:
    if not path.exists():
        raise DataError("no such file or folder", where=path, next_step="check the path")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        try:
            with tarfile.open(path, "r:") as archive:
                archive.extractall(folder / "annotations", filter="data")
            (other,) = AnnotationStore.all(folder)
            imported = _add_all(cache, other)
            end = other.folder / _END
            if end.is_file() and json.loads(end.read_bytes()) == {"files": imported[-1]}:
                return imported
            reason: object = f"{imported[-1]} undamaged files, fewer than were exported"
        except (ValueError, tarfile.TarError, DamagedFileError) as error:
            reason = error
    what = "not a complete file of `phrasemt store export`"
    next_step = "export it again; the files that were already imported are undamaged and stay"
    raise DamagedFileError(what, where=path, found=reason, next_step=next_step)


def _append(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
