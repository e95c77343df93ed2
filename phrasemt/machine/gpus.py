"""GPUs of this machine, lent to one piece of work at a time.

A scheduler gives GPUs of its own to each of its jobs. Where there is none, two trainings of one run, of two runs or of
two people would all take the first GPU. So work takes a lease on each GPU that it uses: a lock on a file, which the
kernel takes back however the work ends. GPUs go by their identifier and not by their place, because jobs of a scheduler
each count theirs from 0.

filelock is not used: where the kernel has no locks it falls back to files, which would outlive a killed training.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from phrasemt.errors import PhrasemtError

log = logging.getLogger("phrasemt.machine.gpus")

# The same for all users of the machine, whatever TMPDIR says.
LEASES = Path("/tmp")
VISIBLE = "CUDA_VISIBLE_DEVICES"
_SECONDS_BETWEEN_TRIES = 1.0
_SECONDS_TO_ANSWER = 60


@contextmanager
def lease(count: int) -> Iterator[None]:
    """So many GPUs that this process and its children see, and that no other lease has. Waits until there are as many.

    Does nothing on a machine without GPUs. Raises PhrasemtError when there are fewer, lent or not.
    """
    gpus = visible_gpus()
    if not gpus:
        yield
        return
    if len(gpus) < count:
        raise PhrasemtError(
            "not enough GPUs",
            expected=f"{count}, one for each process",
            found=f"{len(gpus)} that may be used here",
            next_step="ask for more GPUs, or for fewer processes",
        )
    before = os.environ.get(VISIBLE)
    with ExitStack() as leases:
        os.environ[VISIBLE] = ",".join(_take(gpus, count, leases))
        try:
            yield
        finally:
            if before is None:
                del os.environ[VISIBLE]
            else:
                os.environ[VISIBLE] = before


def _take(gpus: Sequence[str], count: int, leases: ExitStack) -> list[str]:
    """The first GPUs that are free, all at once: who held some while waiting for others could wait for ever."""
    waited = False
    while True:
        with ExitStack() as tries:
            taken: list[str] = []
            for gpu in gpus:
                if len(taken) < count and _lock(gpu, tries):
                    taken.append(gpu)
            if len(taken) == count:
                leases.push(tries.pop_all())
                return taken
        if not waited:
            log.info("gpus: waiting for %d of %d GPUs, which other work has", count, len(gpus))
            waited = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _lock(gpu: str, tries: ExitStack) -> bool:
    path = LEASES / f"phrasemt-{gpu}.lease"
    try:
        file = os.open(path, os.O_RDONLY)  # another user's file cannot be opened otherwise, nor need it be
    except FileNotFoundError:
        file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    tries.callback(os.close, file)
    return True


def visible_gpus() -> list[str]:
    """Identifiers of the GPUs that CUDA would show to this process, in its order."""
    try:
        shown = subprocess.run(
            ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"],
            check=True, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    places = dict(line.split(", ") for line in shown.splitlines() if ", " in line)
    allowed = os.environ.get(VISIBLE)
    if allowed is None:
        return list(places.values())
    # A place, or an identifier: of a GPU, or of a part of one.
    return [places.get(entry.strip(), entry.strip()) for entry in allowed.split(",") if entry.strip()]
