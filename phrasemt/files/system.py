"""Whole files: their sha256 in hexadecimal, locks, links, and a folder for what the making of an output needs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from phrasemt.errors import DamagedFileError
from phrasemt.files.lines import final_name

log = logging.getLogger("phrasemt.files.system")

Place = TypeVar("Place")
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


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


def try_lock(file: IO[Any] | int) -> bool:
    """Lock an open file, or a descriptor, until it is closed; return False while another process has the lock.

    The kernel releases the lock when a process ends, however it ends. filelock is not used: where the kernel has no
    locks it falls back to files, which would outlive a killed process.
    A file system without locks, such as Lustre mounted without `flock`, stops nobody: it gets a warning.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        log.warning("this file system has no locks, so two processes that write the same files are not found out")
    return True


def one_file(files: Iterable[tuple[Place, Path]]) -> Iterator[tuple[Place, Place]]:
    """Yield the first and each later place that name the same file, also by links and by paths written differently.

    Files that do not exist are left out.
    """
    first: dict[tuple[int, int], Place] = {}
    for place, path in files:
        if path.exists():
            state = path.stat()
            known = first.setdefault((state.st_dev, state.st_ino), place)
            if known is not place:
                yield known, place


@contextlib.contextmanager
def work_folder(output: Path) -> Iterator[Path]:
    """A folder beside an output, absolute, for files that go when the block ends; what a killed run left goes first.

    The workflow never runs two jobs for one output.
    """
    final = final_name(output).absolute()
    folder = final.with_name(f"{final.name}.work")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
