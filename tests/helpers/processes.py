"""Waiting for other processes: until something is true of them, and until they are gone."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection

import psutil

PATIENCE = 600  # seconds; only broken code takes so long, however busy the machine is


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Return when the condition is true. Fails when the process that should make it true ends before."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, f"the process ended with {process.returncode} too early"
        assert time.monotonic() < end, "the condition has not become true"
        time.sleep(0.02)


def wait_until_gone(pids: Collection[int]) -> None:
    """Return when these processes have ended. Fails when one of them does not."""
    end = time.monotonic() + PATIENCE
    while running := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < end, f"still running: {running}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process has not ended. In a container nobody may collect an orphan that has: it stays a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> list[int]:
    """The numbers of all processes that a process has started, and that these have started."""
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
