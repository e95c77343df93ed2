"""Requests to stop a training: SIGTERM, SIGUSR1, SIGINT (Ctrl-C), or the end of its time."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class StopRequest:
    """Remembers these signals within a `with` block; they do not end the process there, except a second Ctrl-C.

    minutes: time from the creation of this object to a stop; 0 for no limit.
    """

    def __init__(self, minutes: float = 0) -> None:
        self._deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        self._signal: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    @property
    def reason(self) -> str | None:
        """The reason to stop, or None."""
        if self._signal is not None:
            return f"asked to stop by {self._signal.name}"
        return "its time is up" if time.monotonic() >= self._deadline else None

    def __enter__(self) -> Self:
        self._before = {signum: signal.signal(signum, self._remember) for signum in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        if self._signal == signum == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = signal.Signals(signum)
