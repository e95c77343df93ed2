"""Digests: sha256 in hexadecimal."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_bytes(data: bytes) -> str:
    """The sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path | str) -> str:
    """The sha256 of the bytes of a file."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
