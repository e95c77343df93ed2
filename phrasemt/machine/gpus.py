"""Leases on the GPUs of this machine: no two trainings use the same GPU at a time, unless the user lets them share it.

A scheduler gives each job its own GPUs. Without a scheduler, two trainings of one run, of two runs or of two users all
take the first GPU. A training therefore takes a lease on each GPU that it uses: a lock on a file, which the kernel
releases when the process ends. A lease names the identifier of the GPU and not its number, because each job of a
scheduler counts its GPUs from 0. Jobs that may share a GPU lock its file together, and each the file of its place
there; a job that wants the GPU alone waits for all of them.
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

# One folder for all users of the machine, whatever TMPDIR is. Where another user has made a lease unusable, it is taken
# in the user's own folder, which no other user sees.
LEASES = Path("/tmp")
VISIBLE = "CUDA_VISIBLE_DEVICES"
JOBS = "PHRASEMT_JOBS_PER_GPU"
_SECONDS_BETWEEN_TRIES = 1.0
_SECONDS_TO_ANSWER = 60
# Entries of CUDA_VISIBLE_DEVICES that name no GPU; CUDA ignores the entries behind them. Slurm writes the second one.
_NO_GPU = ("-1", "NoDevFiles")


@contextmanager
def lease(count: int) -> Iterator[None]:
    """Reserve `count` GPUs: in the block, this process and its children see only them. Waits until enough are free.

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
    with ExitStack() as leases:
        os.environ[VISIBLE] = ",".join(_take(gpus, count, leases))
        try:
            yield
        finally:
            if before is None:
                del os.environ[VISIBLE]
            else:
                os.environ[VISIBLE] = before


def jobs_per_gpu() -> int:
    """Return how many jobs may use a GPU at a time: 1, or as many as $PHRASEMT_JOBS_PER_GPU says.

    A small model leaves most of a GPU idle, because the host launches its kernels too slowly. Each of several jobs may
    use its part of the memory. Raises PhrasemtError for anything but a number from 1.
    """
    named = os.environ.get(JOBS) or "1"
    if not named.isdecimal() or int(named) < 1:
        raise PhrasemtError("not a number of jobs", where=f"${JOBS}", expected="a number from 1", found=named)
    return int(named)


def _take(gpus: Sequence[str], count: int, leases: ExitStack) -> list[str]:
    """Lock the first `count` free GPUs, all or none: two processes that each hold a part could wait forever.

    GPUs without a job go before those with one.
    """
    waited, jobs = False, jobs_per_gpu()
    while True:
        with ExitStack() as tries:
            taken: list[str] = []
            for place, gpu in itertools.product(range(jobs), gpus):
                if len(taken) < count and gpu not in taken and _lock_place(gpu, place, jobs, tries):
                    taken.append(gpu)
            if len(taken) == count:
                leases.push(tries.pop_all())
                return taken
        if not waited:
            log.info("gpus: waiting for %d of %d GPUs, which other trainings use", count, len(gpus))
            waited = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _lock_place(gpu: str, place: int, jobs: int, tries: ExitStack) -> bool:
    """Lock a whole GPU for the only job, or one of the places of several jobs there."""
    with ExitStack() as locks:
        if jobs == 1:
            locked = _lock(gpu, fcntl.LOCK_EX, locks)
        else:
            locked = _lock(gpu, fcntl.LOCK_SH, locks) and _lock(f"{gpu}.{place}", fcntl.LOCK_EX, locks)
        if locked:
            tries.push(locks.pop_all())
        return locked


def _lock(what: str, how: int, locks: ExitStack) -> bool:
    name = f"phrasemt-{what.replace('/', '-')}.lease"
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    file = next((file for folder in (LEASES, own) if (file := _plain_file(folder / name)) is not None), None)
    if file is None:
        what = "no lease on a GPU can be taken"
        next_step = "let its owner remove it, or set XDG_RUNTIME_DIR to a folder of your own"
        raise PhrasemtError(what, where=LEASES / name, expected="a file that can be opened", next_step=next_step)
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    locks.callback(os.close, file)
    return True


def _plain_file(path: Path) -> int | None:
    """Open a file, made if it is missing. None for anything else, which other users may have put there.

    A link is not followed, and nobody waits for the other end of a pipe.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # reading is enough for a lock, and others may not write
    try:
        try:
            file = os.open(path, flags)
        except FileNotFoundError:
            file = os.open(path, flags | os.O_CREAT, 0o644)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


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
    named = _named_gpus()
    return list(by_number.values()) if named is None else [by_number.get(entry, entry) for entry in named]


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
    import torch  # not in the processes that only lend GPUs

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
