"""The launcher runs a command in several processes that train one model (phrasemt/training/process_group.py).

All processes end when one of them fails, and when the launcher ends. The launcher passes SIGTERM, SIGINT and SIGUSR1 on
to them. On several nodes of a Slurm job `srun` starts the processes. On other clusters `torchrun`, or another program
that sets RANK, WORLD_SIZE and LOCAL_RANK, can start them in place of the launcher.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from phrasemt.errors import PhrasemtError, StoppedError

# A command and its environment.
Call = tuple[Sequence[str], dict[str, str]]
# The variable with the path of a file through which the processes find each other.
RENDEZVOUS = "PHRASEMT_RENDEZVOUS"
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# Seconds until the other processes are killed after one has failed, or has stopped and saved its state.
_GRACE = 10.0
_GRACE_TO_SAVE = 600.0
_SECONDS_BETWEEN_POLLS = 0.05
_ENDED_BY_SIGNAL = {code for signum in PASSED_ON for code in (-signum, 128 + signum)}
_PR_SET_PDEATHSIG = 1
_LIBRARY = ctypes.CDLL(None)


def launched() -> bool:
    """Whether a launcher started this process."""
    return "RANK" in os.environ


def is_first() -> bool:
    """Whether this process writes and warns: it is the only one, or the first of several."""
    return place_in_group("RANK", 0) == 0


def place_in_group(variable: str, default: int) -> int:
    """A number that a launcher sets, such as RANK. Raises PhrasemtError for anything but a whole number."""
    found = os.environ.get(variable, str(default))
    if not found.isdecimal():
        raise PhrasemtError(
            "not a number of a launcher",
            where=f"environment variable {variable}",
            expected="a whole number",
            found=repr(found[:40]),
            next_step=f"unset {variable}",
        )
    return int(found)


def refuse_stray_rank(*, several: bool) -> None:
    """Raise PhrasemtError if this is not the first of several processes, which alone writes, and nobody launched them.

    several: whether a launcher may have started this work in several processes.
    """
    rank, size = place_in_group("RANK", 0), place_in_group("WORLD_SIZE", 1)
    if rank and not (several and rank < size):
        raise PhrasemtError(
            "a number of a launcher where none started several processes",
            where="environment variable RANK",
            found=f"RANK={rank}, WORLD_SIZE={size}",
            next_step="unset RANK",
        )


def leave(code: int) -> NoReturn:
    """End this process, one of several, with an exit code and without Python's shutdown.

    During the shutdown a running thread of gloo would abort the process with SIGABRT.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def launch(
    arguments: Sequence[str], processes: int, across_nodes: Callable[[Sequence[str]], Call] | None = None
) -> None:
    """Run `python -m phrasemt <arguments>` in several processes and wait for their end.

    across_nodes: turns the command into one that starts all processes on several nodes. Raises StoppedError if the
    processes stopped on request, PhrasemtError if one of them failed.
    """
    command: Sequence[str] = [sys.executable, "-m", "phrasemt", *arguments]
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as folder:
        commands: list[Call]
        if across_nodes:
            commands = [across_nodes(command)]
        else:
            environment = {**os.environ, "WORLD_SIZE": str(processes), RENDEZVOUS: str(Path(folder, "rendezvous"))}
            places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
            commands = [(command, environment | place) for place in places]
        started: list[subprocess.Popen[bytes]] = []
        received: list[signal.Signals] = []

        def pass_on(signum: int, frame: object) -> None:
            received.append(signal.Signals(signum))
            for process in started:
                process.send_signal(signum)

        before = {signum: signal.signal(signum, pass_on) for signum in PASSED_ON}
        try:
            for command, environment in commands:
                # In a process group of their own, so that Ctrl-C reaches them only once, from here.
                started.append(
                    subprocess.Popen(
                        command, env=environment, process_group=0, preexec_fn=functools.partial(_end_with, os.getpid())
                    )
                )
            if received:  # a starting process may have missed the signal; there is no state to save yet
                raise StoppedError(f"stopped by {received[0].name}")
            first_failure = _wait(started)
        finally:
            for process in started:
                process.kill()
            for signum, handler in before.items():
                signal.signal(signum, handler)
    if first_failure is None:
        return
    code, rank = first_failure
    if code == StoppedError.exit_code or (received and code in _ENDED_BY_SIGNAL):
        # A signal before the first update ends a process at once; there is no state to save yet.
        raise StoppedError(f"stopped by {received[0].name}" if received else "stopped")
    raise PhrasemtError(
        f"process {rank} of {len(started)} "
        + (f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"),
        next_step="see its message above; the same command continues from the last saved state",
    )


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """Wait until all processes have ended, or until the grace period after the first failure is over.

    Returns exit code and rank of the process that failed first, or None.
    """
    failure, deadline, running = None, float("inf"), True
    while running and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_POLLS)
        codes = [process.poll() for process in processes]
        running = None in codes
        failed = [(code, rank) for rank, code in enumerate(codes) if code]
        if failed and failure is None:
            failure = min(failed)  # a killed process has a negative code, and its end made the others fail
            deadline = time.monotonic() + (_GRACE_TO_SAVE if failure[0] == StoppedError.exit_code else _GRACE)
    return failure


def _end_with(parent: int) -> None:
    """In a new process: let the kernel kill it when its parent ends."""
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(1)
