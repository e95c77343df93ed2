"""One lock for each GPU of this machine: no two jobs use the same GPU at a time.

Without a scheduler, two trainings of one run, of two runs or of two users all take the first GPU. A job therefore locks
a file for each GPU that it uses; the kernel releases the lock when the process ends. The file has the identifier of the
GPU and not its number, because each job of a scheduler counts its GPUs from 0.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from phrasemt.errors import PhrasemtError

log = logging.getLogger("phrasemt.machine.gpus")

LOCKS = Path("/tmp")  # of all users of the machine, whatever TMPDIR is
VISIBLE = "CUDA_VISIBLE_DEVICES"
_SECONDS_BETWEEN_TRIES = 1.0
_SECONDS_TO_ANSWER = 60
# Entries of CUDA_VISIBLE_DEVICES that name no GPU; CUDA ignores the entries behind them. Slurm writes the second one.
_NO_GPU = ("-1", "NoDevFiles")


@contextmanager
def lease(count: int) -> Iterator[None]:
    """Lock `count` GPUs: in the block, this process and its children see only them. Waits until enough are free.

    Does nothing on a machine without GPUs. Raises PhrasemtError if this process may use fewer than `count` GPUs.
    """
    gpus = visible_gpus()
    if not gpus:
        yield
        return
    if len(gpus) < count:
        raise PhrasemtError(
            "not enough GPUs",
            expected=f"{count}, one for each process",
            found=f"{len(gpus)} that this process may use",
            next_step="ask for more GPUs, or for fewer processes",
        )
    before = os.environ.get(VISIBLE)
    with ExitStack() as locks:
        os.environ[VISIBLE] = ",".join(_take(gpus, count, locks))
        try:
            yield
        finally:
            if before is None:
                del os.environ[VISIBLE]
            else:
                os.environ[VISIBLE] = before


def _take(gpus: Sequence[str], count: int, locks: ExitStack) -> list[str]:
    """Lock the first `count` free GPUs, all or none: two processes that each have a part could wait forever."""
    waited = False
    while True:
        with ExitStack() as tries:
            taken = list(itertools.islice((gpu for gpu in gpus if _lock(gpu, tries)), count))
            if len(taken) == count:
                locks.push(tries.pop_all())
                return taken
        if not waited:
            log.info("gpus: waiting for %d of %d GPUs, which other jobs use", count, len(gpus))
            waited = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _lock(gpu: str, locks: ExitStack) -> bool:
    """Lock a plain file, made if it is missing. Never follow a link of another user, or wait for a pipe."""
    path = LOCKS / f"phrasemt-{gpu.replace('/', '-')}.lock"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # reading is enough for a lock, and others may not write
    with ExitStack() as opened:
        try:
            try:
                file = os.open(path, flags)
            except FileNotFoundError:
                file = os.open(path, flags | os.O_CREAT, 0o644)
            opened.callback(os.close, file)
            plain = stat.S_ISREG(os.fstat(file).st_mode)
        except OSError:
            plain = False
        if not plain:
            what, next_step = "this GPU cannot be locked", "let the owner of the file remove it"
            raise PhrasemtError(what, where=path, expected="a file that can be opened", next_step=next_step)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        locks.push(opened.pop_all())
        return True


def visible_gpus() -> list[str]:
    """Identifiers of the GPUs that CUDA shows to this process, in CUDA's order."""
    try:
        shown = subprocess.run(
            ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"],
            check=True, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    by_number = dict(line.split(", ") for line in shown.splitlines() if ", " in line)
    if (named := _named_gpus()) is None:
        return list(by_number.values())
    found: dict[str, None] = {}
    for entry in named:
        whole = [gpu for gpu in by_number.values() if gpu.startswith(entry)]  # CUDA accepts the beginning of one
        found[by_number.get(entry) or (whole[0] if len(whole) == 1 else entry)] = None
    return list(found)


def _named_gpus() -> list[str] | None:
    """The entries of CUDA_VISIBLE_DEVICES: numbers, or identifiers of GPUs or of parts of a GPU. None without it."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return None
    entries = filter(None, map(str.strip, named.split(",")))
    return list(itertools.takewhile(lambda entry: entry not in _NO_GPU, entries))


def torch_has_gpu() -> bool:
    """Whether torch computes on a GPU.

    Raises PhrasemtError when CUDA_VISIBLE_DEVICES names a GPU and torch can use none. Schedulers and users name the
    GPUs that they want there, and `lease` the GPUs that it found. On a CPU the work could take a hundred times as long.
    """
    import torch  # not in the processes that only lock GPUs

    if torch.cuda.is_available():
        return True
    if named := _named_gpus():
        raise PhrasemtError(
            "torch cannot use the GPU that it was given",
            where=f"{VISIBLE}={','.join(named)}",
            expected="a GPU that this installation of torch supports",
            found=f"torch {torch.__version__}" + ("" if torch.version.cuda else ", which was built without CUDA"),
            next_step=f"compare `nvidia-smi` with `python -m torch.utils.collect_env`; to compute on the CPU, set "
            f"{VISIBLE} to nothing",
        )
    return False
