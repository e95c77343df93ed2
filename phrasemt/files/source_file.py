"""The description of a file on a server, used by the registries of corpora and of Stanza's models.

A file without a registered checksum has one in the lock file of a study, which PHRASEMT_LOCK names (the workflow takes
`<study>.lock` beside the study file). The first download writes its line, `<sha256> <bytes>  <corpus>/<file>` with two
spaces between them; all later ones, also on other machines that have the lock file, are compared with it.

phrasemt/files/download.py downloads: the workflow reads the registries at every start, without an HTTP client.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.fields import Settings
from phrasemt.files.system import digest_file

# Names a folder `<mirror>/<corpus>/<file>` that goes before the sources of the registry.
MIRROR = "PHRASEMT_MIRROR"
LOCK = "PHRASEMT_LOCK"
_LINE = re.compile(r"([0-9a-f]{64})  (\d+)  (\S+)")  # of a lock file

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+/\S+$")]
Count = Annotated[int, Field(gt=0)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class SourceFile(Settings):
    """A file at its source. It has a checksum, or `unverified` gives the reason why it has none."""

    name: FileName
    url: Url
    by_hand: str | None = Field(
        None, description="how a person gets the file from `url`, where no program may download it"
    )
    bytes: Count | None = None
    sha256: Sha256 | None = None
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    unverified: str | None = Field(None, description="why no checksum is known")

    @model_validator(mode="after")
    def _can_be_verified(self) -> SourceFile:
        if (self.sha256 or self.md5 or self.unverified) is None:
            raise ValueError(f"{self.name} has neither sha256 nor md5, and `unverified` does not say why")
        return self

    @property
    def checksum(self) -> tuple[str, str] | None:
        """Algorithm (a name of hashlib) and hexadecimal digest of the strongest known checksum; None without one."""
        if self.sha256 is not None:
            return "sha256", self.sha256
        return ("md5", self.md5) if self.md5 is not None else None


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
