"""How the C library gives memory back, which decides how fast large tensors are made on a CPU."""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h; the threshold is the largest it accepts.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST_THRESHOLD = 32 * 2**20
NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Let the process keep the memory of freed tensors for the next ones (glibc; elsewhere nothing happens).

    By default glibc returns each block above some 100 kB to the kernel at once, and the next tensor of that size pays
    for getting and clearing every page again: a fifth of a training step on a CPU.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version"):
        library.mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
        library.mallopt(M_TRIM_THRESHOLD, NEVER)
        library.mallopt(M_TOP_PAD, 2 * LARGEST_THRESHOLD)
