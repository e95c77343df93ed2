"""What people look at while a model trains: a bar or a line a minute, JSON lines, TensorBoard, `phrasemt runs`."""

from __future__ import annotations

import json
import logging
import os
import platform
import resource
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from phrasemt.errors import StoppedError
from phrasemt.train.run_file import RunFile, clock, memory
from phrasemt.workflow.journal import State

log = logging.getLogger("phrasemt.train_model")

_SECONDS_BETWEEN_LINES = 60
_SECONDS_BETWEEN_RUN_FILES = 10


class Reporter:
    """Reports of one training. `seconds` counts training time over all its runs, evaluations included.

    The file `run.json` beside the metrics says how the run goes. Leaving the block ends it: as failed by an error, as
    stopped on request, and otherwise as finished. processes: how many train together.
    """

    def __init__(
        self,
        metrics: Path,
        *,
        first_update: int,
        max_updates: int,
        seconds: float,
        device: torch.device,
        processes: int,
    ) -> None:
        self._stream = metrics.open("a", encoding="utf-8", buffering=1)
        self._board = SummaryWriter(str(metrics.parent), purge_step=first_update + 1)
        self._device = device
        self._started = time.monotonic()
        self._seconds_before = seconds
        self._next_line = self._started + _SECONDS_BETWEEN_LINES
        self._next_run_file = self._started
        self._run_file = metrics.with_name("run.json")
        self._run = RunFile(
            host=platform.node(),
            pid=os.getpid(),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            processes=processes,
            started=_now(),
            reported=_now(),
            first_update=first_update,
            update=first_update,
            max_updates=max_updates,
            seconds=round(seconds, 3),
            seconds_left=None,
            tokens_per_second=None,
            memory_mib=self._memory_mib(),
            state="running",
        )
        self._bar = tqdm(
            total=max_updates, initial=first_update, unit="update", disable=None, leave=False, file=sys.stderr
        )

    def __enter__(self) -> Self:
        self._write_run()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        self._board.close()
        self._stream.close()
        end: State = "finished"
        if kind is not None:
            end = "stopped" if issubclass(kind, StoppedError | SystemExit | KeyboardInterrupt) else "failed"
        self._run = replace(self._run, state=end)
        self._write_run()

    @property
    def seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def update(self, update: int, values: dict[str, float]) -> None:
        """Averages over the updates since the last report: loss, tokens_per_second, ..."""
        self._write(update, "train", values)
        self._report(update, tokens_per_second=values["tokens_per_second"])
        text = " ".join(
            f"{name} {values[key]:{form}}"
            for name, key, form in (
                ("loss", "loss", ".3f"),
                ("perplexity", "perplexity", ".2f"),
                ("tokens/s", "tokens_per_second", ",.0f"),
            )
        )
        text += f" memory {memory(self._run.memory_mib)}"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(update - self._bar.n)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            left = self._run.seconds_left
            assert left is not None
            with tqdm.external_write_mode(file=sys.stderr):
                log.info("update %d of %d, %s, time left %s", update, self._run.max_updates, text, clock(left))

    def evaluation(self, update: int, values: dict[str, float], *, best: bool) -> None:
        """Dev scores, with a mark when they are the best so far."""
        self._write(update, "dev", values)
        self._report(update)
        with tqdm.external_write_mode(file=sys.stderr):
            log.info(
                "update %d: dev %sperplexity %.3f%s",
                update,
                f"BLEU {values['dev_bleu']:.2f}, " if "dev_bleu" in values else "",
                values["dev_perplexity"],
                " (best)" if best else "",
            )

    def _write(self, update: int, group: str, values: dict[str, float]) -> None:
        values = {**values, "memory_mib": self._memory_mib()}
        self._stream.write(json.dumps({"update": update, "seconds": round(self.seconds, 3), **values}) + "\n")
        for name, value in values.items():
            self._board.add_scalar(f"{group}/{name}", value, update)

    def _report(self, update: int, **changes: Any) -> None:
        """Take a report into run.json, which is written now if it was not a moment ago."""
        done = update - self._run.first_update
        left = (self._run.max_updates - update) * (time.monotonic() - self._started) / done if done else None
        self._run = replace(
            self._run,
            update=update,
            seconds_left=None if left is None else round(left, 3),
            memory_mib=self._memory_mib(),
            **changes,
        )
        if time.monotonic() >= self._next_run_file:
            self._write_run()

    def _write_run(self) -> None:
        self._next_run_file = time.monotonic() + _SECONDS_BETWEEN_RUN_FILES
        self._run = replace(self._run, reported=_now(), seconds=round(self.seconds, 3), memory_mib=self._memory_mib())
        self._run.write(self._run_file)

    def _memory_mib(self) -> float:
        """The most memory so far: of PyTorch's tensors on a GPU, of the whole process without one."""
        if self._device.type == "cuda":
            size = torch.cuda.max_memory_allocated(self._device)
        else:  # Linux counts in KiB, macOS in bytes
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return round(size / 2**20, 1)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
