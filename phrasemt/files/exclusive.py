"""Locks on open files: the kernel releases them when a process ends, however it ends.

filelock is not used: where the kernel has no locks it falls back to files, which would outlive a killed process.
"""

from __future__ import annotations

import errno
import fcntl
import logging
from typing import IO, Any

log = logging.getLogger("phrasemt.files.exclusive")

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def try_lock(file: IO[Any] | int) -> bool:
    """Lock an open file, or a descriptor, until it is closed; return False while another process has the lock.

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
