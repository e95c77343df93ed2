"""Digests of files and bytes: sha256 in hexadecimal."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_bytes(data: bytes) -> str:
    """sha256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path | str) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
