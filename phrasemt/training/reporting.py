"""What people look at while a model trains: a line a minute, JSON lines, TensorBoard, `phrasemt status`."""

from __future__ import annotations

import logging
import resource
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from torch.utils.tensorboard import SummaryWriter

from phrasemt.artefacts.training import Evaluation, EvaluationReport, Metrics, UpdateReport
from phrasemt.runs.display import clock, memory
from phrasemt.runs.notes import TrainingReport, now, open_note, training_note

log = logging.getLogger("phrasemt.train_model")

_SECONDS_BETWEEN_LINES = 60
_SECONDS_BETWEEN_NOTES = 10


class Reporter(ExitStack):
    """Reports of one training. `seconds` counts training time over all its runs, evaluations included.

    A note beside the metrics says how the training goes, as long as the block lasts, and how it ended. processes: how
    many train together.
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
        super().__init__()
        self._stream = metrics.open("a", encoding="utf-8", buffering=1)
        self._board = SummaryWriter(str(metrics.parent), purge_step=first_update + 1)
        self._device = device
        self._started = time.monotonic()
        self._seconds_before = seconds
        self._seconds_of_evaluations = 0.0
        self._next_line = self._started + _SECONDS_BETWEEN_LINES
        self._next_note = self._started
        self._note_path = training_note(metrics)
        self._report = TrainingReport(
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            processes=processes,
            first_update=first_update,
            update=first_update,
            max_updates=max_updates,
            seconds=round(seconds, 3),
            seconds_left=None,
            tokens_per_second=None,
            memory_mib=self._memory_mib(),
            reported=now(),
        )

    def __enter__(self) -> Self:
        self._note = self.enter_context(open_note("train_model", self._note_path))
        for output in (self._stream, self._board):
            self.callback(output.close)
        self.callback(self._change_note)
        self._change_note()
        return self

    @property
    def seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def update(self, update: int, **means: Any) -> None:
        """Report the means over the updates since the last report: the other fields of `UpdateReport`."""
        report = UpdateReport(update=update, **self._now(), **means)
        self._write("train", report, {**report.model_dump(exclude={"update", "seconds", "parts"}), **report.parts})
        self.note_progress(update, tokens_per_second=report.tokens_per_second)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            left = self._report.seconds_left
            assert left is not None
            log.info(
                "update %d of %d, loss %.3f perplexity %.2f tokens/s %s memory %s, time left %s",
                update,
                self._report.max_updates,
                report.loss,
                report.perplexity,
                f"{report.tokens_per_second:,.0f}",
                memory(report.memory_mib),
                clock(left),
            )

    def evaluation(self, evaluation: Evaluation, *, best: bool, seconds: float) -> None:
        """Report dev scores, with a mark when they are the best so far. seconds: that the evaluation took."""
        self._seconds_of_evaluations += seconds
        report = EvaluationReport(**self._now(), evaluation_seconds=round(seconds, 3), evaluation=evaluation)
        scores = evaluation.model_dump(exclude={"update", "measurements"}, exclude_none=True)
        times = report.model_dump(include={"evaluation_seconds", "memory_mib"})
        self._write("dev", report, {**scores, **evaluation.measurements, **times})
        self.note_progress(evaluation.update)
        log.info(
            "update %d: dev %s%s; evaluations take %.1f %% of the time",
            evaluation.update,
            evaluation.summary,
            " (best)" if best else "",
            100 * self._seconds_of_evaluations / (time.monotonic() - self._started),
        )

    def _now(self) -> dict[str, float]:
        return {"seconds": round(self.seconds, 3), "memory_mib": self._memory_mib()}

    def _write(self, group: str, report: UpdateReport | EvaluationReport, scalars: dict[str, float]) -> None:
        self._stream.write(Metrics.line(report))
        for name, value in scalars.items():
            self._board.add_scalar(f"{group}/{name}", value, report.update)

    def note_progress(self, update: int, **changes: Any) -> None:
        """Take a report into the note, which is written now if it was not a moment ago."""
        done = update - self._report.first_update
        left = (self._report.max_updates - update) * (time.monotonic() - self._started) / done if done else None
        changes |= {"seconds_left": None if left is None else round(left, 3), "memory_mib": self._memory_mib()}
        self._report = self._report.model_copy(update={"update": update, **changes})
        if time.monotonic() >= self._next_note:
            self._change_note()

    def _change_note(self) -> None:
        self._next_note = time.monotonic() + _SECONDS_BETWEEN_NOTES
        self._report = self._report.model_copy(
            update={"reported": now(), "seconds": round(self.seconds, 3), "memory_mib": self._memory_mib()}
        )
        self._note.change(training=self._report)

    def _memory_mib(self) -> float:
        """The most memory so far: of PyTorch's tensors on a GPU, of the whole process without one."""
        if self._device.type == "cuda":
            size = torch.cuda.max_memory_allocated(self._device)
        else:
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # of Linux, in KiB
        return round(size / 2**20, 1)
