"""Runs a command in several processes that belong together (phrasemt/train/ranks.py).

The processes end together: with the first that fails, and with the one that started them. SIGTERM, SIGINT and SIGUSR1
are handed on. On several nodes of a Slurm job `srun` starts them; elsewhere `torchrun`, or whatever sets RANK,
WORLD_SIZE and LOCAL_RANK as it does.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from phrasemt.errors import PhrasemtError, StoppedError

# A command and its environment.
Call = tuple[Sequence[str], dict[str, str]]
# Names a file through which the processes find each other.
RENDEZVOUS = "PHRASEMT_RENDEZVOUS"
# Names an open file, in memory only, that all of them have.
SHARED_MEMORY = "PHRASEMT_SHARED_MEMORY"
HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# Seconds that the other processes have to end by themselves after one has ended.
_GRACE = 10.0
_GRACE_TO_SAVE = 600.0
_BETWEEN_LOOKS = 0.05
_ENDED_BY_SIGNAL = {code for signum in HANDED_ON for code in (-signum, 128 + signum)}
_PR_SET_PDEATHSIG = 1
_LIBRARY = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def launched() -> bool:
    """Whether this process is one of several that a launcher has started."""
    return "RANK" in os.environ


def helper() -> bool:
    """Whether this process is one of several, and not the one that speaks for all."""
    return int(os.environ.get("RANK", "0")) > 0


def leave(code: int) -> NoReturn:
    """End this process, which is one of several, without taking it apart.

    At that gloo's threads, if one still runs, would end it by SIGABRT; and nothing is left to be written.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def launch(arguments: Sequence[str], processes: int, spread: Callable[[Sequence[str]], Call] | None = None) -> None:
    """Run `python -m phrasemt <arguments>` in so many processes to the end.

    spread: makes of a command one that starts all its processes, on several machines. Raises StoppedError when they
    stopped on request, PhrasemtError when one of them failed.
    """
    command: Sequence[str] = [sys.executable, "-m", "phrasemt", *arguments]
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as folder, ExitStack() as resources:
        commands: list[Call]
        shared: list[int] = []
        if spread:
            commands = [spread(command)]
        else:
            shared = resources.enter_context(_shared_memory())
            environment = {**os.environ, "WORLD_SIZE": str(processes), RENDEZVOUS: str(Path(folder, "rendezvous"))}
            environment.update((SHARED_MEMORY, str(descriptor)) for descriptor in shared)
            places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
            commands = [(command, environment | place) for place in places]
        started: list[subprocess.Popen[bytes]] = []
        heard: list[signal.Signals] = []

        def hand_on(signum: int, frame: object) -> None:
            heard.append(signal.Signals(signum))
            for process in started:
                process.send_signal(signum)

        before = {signum: signal.signal(signum, hand_on) for signum in HANDED_ON}
        try:
            for command, environment in commands:
                # In a group of their own, so that Ctrl-C comes to them once, from here.
                started.append(
                    subprocess.Popen(
                        command,
                        env=environment,
                        pass_fds=shared,
                        process_group=0,
                        preexec_fn=functools.partial(_end_with, os.getpid()),
                    )
                )
            if heard:  # perhaps not by those that were just starting; nothing is done yet
                raise StoppedError(f"stopped by {heard[0].name}")
            first_failure = _wait(started)
        finally:
            for process in started:
                process.kill()
            for signum, handler in before.items():
                signal.signal(signum, handler)
    if first_failure is None:
        return
    code, rank = first_failure
    if code == StoppedError.exit_code or (heard and code in _ENDED_BY_SIGNAL):
        # A signal that came before they were ready to save ends them at once, and there is nothing to save.
        raise StoppedError(f"stopped by {heard[0].name}" if heard else "stopped")
    raise PhrasemtError(
        f"process {rank} of {len(started)} "
        + (f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"),
        next_step="see its message above; the same command goes on at the last saved state",
    )


@contextmanager
def _shared_memory() -> Iterator[list[int]]:
    """The descriptor of an empty file in memory, where the system has such; it is gone with the last process."""
    descriptors = [os.memfd_create("phrasemt", 0)] if hasattr(os, "memfd_create") else []
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """Until all have ended, or some time after the first that failed; which one that was and its exit code."""
    failure, deadline, running = None, float("inf"), True
    while running and time.monotonic() < deadline:
        time.sleep(_BETWEEN_LOOKS)
        codes = [process.poll() for process in processes]
        running = None in codes
        failed = [(code, rank) for rank, code in enumerate(codes) if code]
        if failed and failure is None:
            failure = min(failed)  # the lowest code is that of one that was killed, which made the others fail
            deadline = time.monotonic() + (_GRACE_TO_SAVE if failure[0] == StoppedError.exit_code else _GRACE)
    return failure


def _end_with(parent: int) -> None:
    """In a new process: be killed when the one that started it ends, however it ends (Linux)."""
    if _LIBRARY is not None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before this was said
            os._exit(1)
