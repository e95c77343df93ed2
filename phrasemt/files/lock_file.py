"""The lock file of a study: size and sha256 of fetched files whose checksum no registry knows.

The environment variable PHRASEMT_LOCK names it; the workflow takes `<study>.lock` beside the study file. The first
download writes the line of a file, `<sha256>  <bytes>  <corpus>/<file>`; all later ones, also on other machines that
have the lock file, are compared with it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.digests import digest_file
from phrasemt.files.source_file import SourceFile

LOCK = "PHRASEMT_LOCK"
_LINE = re.compile(r"([0-9a-f]{64})  (\d+)  (\S+)")


def lock_file() -> Path | None:
    """The lock file of the study that runs; None without one."""
    return Path(name) if (name := os.environ.get(LOCK)) else None


def locked(source: SourceFile, folder: str) -> SourceFile:
    """The description of a file with the size and the sha256 that its first download recorded, if there was one.

    folder: the corpus. Raises DamagedFileError, with the line, for a lock file of another form.
    """
    lock = lock_file()
    if source.checksum is not None or lock is None or not lock.is_file():
        return source
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        if (entry := _LINE.fullmatch(line)) is None:
            raise DamagedFileError(
                "not a line of a lock file",
                where=f"{lock}, line {number}",
                expected="sha256, bytes and <corpus>/<file>, with two spaces between them",
                found=repr(line[:80]),
                next_step="restore the line, or remove it: the next download records the file anew",
            )
        if entry[3] == f"{folder}/{source.name}":
            return source.model_copy(update={"sha256": entry[1], "bytes": int(entry[2])})
    return source


def record(source: SourceFile, folder: str, file: Path) -> None:
    """Write the line of a fetched file without a checksum. Raises PhrasemtError if nobody can write beside the study.

    Fetches that run at the same time append whole lines, so none is lost.
    """
    lock = lock_file()
    if source.checksum is not None or lock is None:
        return
    line = f"{digest_file(file)}  {file.stat().st_size}  {folder}/{source.name}\n"
    try:
        with lock.open("ab", buffering=0) as stream:
            stream.write(line.encode("utf-8"))
    except OSError as error:
        what = "the checksum of a fetched file cannot be recorded"
        next_step = f"copy the study into a folder that you can write to, or name a file in {LOCK}"
        raise PhrasemtError(what, where=lock, found=error.strerror, next_step=next_step) from None
