"""What the operating system knows of files: locks, links, and a folder for what the making of an output needs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from phrasemt.files.lines import final_name

log = logging.getLogger("phrasemt.files.system")

Place = TypeVar("Place")
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


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
