"""Digests: sha256 in hexadecimal."""

from __future__ import annotations

import hashlib
from pathlib import Path

from phrasemt.errors import DamagedFileError


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path | str) -> str:
    """The sha256 of the bytes of a file."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_file(path: Path, sha256: str, what: str, *, next_step: str, found: str | None = None) -> None:
    """Raise DamagedFileError (`what`) unless a file is there and has this sha256. found: its sha256, if it is known."""
    found = found or (digest_file(path) if path.is_file() else None)
    if found != sha256:
        raise DamagedFileError(
            what,
            where=path,
            expected=f"sha256 {sha256[:12]}",
            found=f"sha256 {found[:12]}" if found else "no such file",
            next_step=next_step,
        )
