"""The console of a run: a line for each job that ends, and one line for the progress of the whole run.

A logger plugin of Snakemake (`logger: phrasemt` in the profiles, package snakemake_logger_plugin_phrasemt). Snakemake's
events say which jobs begin and end; the notes of stages (phrasemt/runs/notes.py) say how long they took, how far
trainings are, and why a job failed. Snakemake's own messages go to its log file. The console shows them in dry runs and
with `--verbose`; otherwise it shows its errors and warnings, and the messages of commands that run no job (`--unlock`).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

from phrasemt.errors import PhrasemtError
from phrasemt.runs.notes import QUIET, RunNote, StageNote, run_of_this_process, stage_note
from phrasemt.runs.status import GONE, Status, status_of
from phrasemt.runs.units import clock

_SECONDS_BETWEEN_LINES = 60.0  # of progress, where there is no terminal
_SECONDS_BETWEEN_LOOKS = 2.0  # at the notes, on a terminal
_LOOKING = 0.05  # of the time at most: the notes of a large run on a slow disk are read less often
_TRAININGS_NAMED = 3
_FAILURES_SHOWN = 5
# Messages of Snakemake that repeat the event of a failed job.
_REPETITIONS = (
    "CalledProcessError",
    "Exiting because a job execution failed",
    "At least one job did not complete successfully",
)


class LogHandler(LogHandlerBase):  # type: ignore[misc]
    """Shows a run on stderr. Snakemake hands it its log records one by one, in one thread."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        from phrasemt.runs.start import refuse_unreadable_study  # other workflows load this package as well

        refuse_unreadable_study(sys.argv[1:])
        settings = self.common_settings
        self._snakemakes = ColorizingTextHandler(
            nocolor=settings.nocolor, stream=sys.stdout if settings.stdout else sys.stderr
        )
        self._snakemakes.setFormatter(DefaultFormatter(settings.quiet, settings.show_failed_logs))
        self._snakemakes.addFilter(
            DefaultFilter(
                () if settings.verbose else settings.quiet,
                settings.debug_dag,
                settings.verbose,
                settings.dryrun,
                settings.printshellcmds or settings.verbose,
            )
        )
        self._run: _Run | None = None
        self._before: list[logging.LogRecord] = []  # the first job
        self._errors = False
        self._as_snakemake = settings.dryrun or settings.verbose
        if not self._as_snakemake:
            os.environ[QUIET] = "1"

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._as_snakemake:
                self._snakemakes.handle(record)
            else:
                self._show(record)
        except Exception:  # a mistake of the display ends no run
            self.handleError(record)

    def _show(self, record: Any) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self._run = self._run or _Run(run_of_this_process())
            self._run.begin(record.jobid, record.rule_msg or record.rule_name, record.log)
        elif event == LogEvent.JOB_FINISHED and self._run:
            self._run.finish(record.job_id)
        elif event == LogEvent.JOB_ERROR and self._run:
            self._run.fail(record.jobid, record.rule_msg, record.log)
        elif record.levelno >= logging.WARNING:
            self._errors = self._errors or record.levelno >= logging.ERROR
            if not any(repetition in record.getMessage() for repetition in _REPETITIONS):
                with _above_the_progress():
                    self._snakemakes.handle(record)
        elif self._run is None:
            self._before.append(record)

    def close(self) -> None:
        """Says how the run ended; of a command that ran no job, Snakemake's messages."""
        if self._run:
            self._run.end(errors=self._errors)
        elif not self._errors and sys.exc_info()[0] is None:  # an exit by the Snakefile says itself why
            for record in self._before:
                self._snakemakes.handle(record)
        self._run, self._before = None, []
        super().close()


@dataclass(frozen=True)
class _Job:
    message: str
    logs: list[str]

    def note(self, run: str) -> StageNote | None:
        """The note of its stage, if the stage has begun in the run of this name."""
        note = StageNote.read(stage_note(self.logs[0])) if self.logs else None
        return note if note and note.run == run else None


class _Run:
    """What the console says of a run. path: of its note; None when Snakemake was told to run without hooks."""

    def __init__(self, path: Path | None) -> None:
        note = RunNote.read(path) if path else None
        self._name = path.name if path else ""
        self._study = note.study if note else "run"
        self._log = note.log if note else None
        self._total = len(note.jobs) if note else 0
        self._started = time.monotonic()
        self._jobs: dict[int, _Job] = {}
        self._done = self._from_cache = 0
        self._failed: dict[int, tuple[str, str]] = {}  # "failed" or "stopped", and the message
        earlier = sum(note.done.values()) if note else 0
        _say(f"{self._study}: {_jobs(self._total)} to do" + (f", {earlier:,} done before" if earlier else ""))
        self._progress = _Progress(path, self._failed) if path else None

    def begin(self, number: int, message: str, logs: list[str]) -> None:
        self._jobs[number] = _Job(message, [os.path.relpath(log) for log in logs])
        if self._failed.pop(number, None):
            _say(f"tried again: {message}")

    def finish(self, number: int) -> None:
        job = self._jobs[number]
        if not job.logs:  # the rule `all`, which does nothing
            return
        self._done += 1
        how = ""
        if (note := job.note(self._name)) and note.ended:
            self._from_cache += note.from_cache
            seconds = (datetime.fromisoformat(note.ended) - note.begin).total_seconds()
            how = " (from the cache)" if note.from_cache else f" ({clock(seconds)})"
        _say(job.message + how)

    def fail(self, number: int, snakemakes: str | None, logs: list[str]) -> None:
        """`snakemakes`: its own reason; `logs`: of the stage, and of the job on a cluster."""
        job = self._jobs[number]
        note = job.note(self._name)
        what = "stopped" if note and note.state == "stopped" else "failed"
        known = [GONE if note and note.state == "running" else "", " ".join((snakemakes or "").split())]
        reason = (note and note.error) or "; ".join(filter(None, known)) or GONE
        shown = ", ".join(os.path.relpath(log) for log in logs)
        self._failed[number] = what, f"{what}: {job.message}\n{_indented(reason)}\n{_indented(f'log: {shown}')}"
        _say(f"{what}: {job.message}, log: {shown}")

    def end(self, *, errors: bool) -> None:
        if self._progress:
            self._progress.end()
        took = clock(time.monotonic() - self._started)
        if not errors and not self._failed:
            cached = f", {self._from_cache:,} from the cache" if self._from_cache else ""
            _say(f"{self._study}: finished, {_jobs(self._done)} in {took}{cached}")
            return
        counts = Counter(what for what, _ in self._failed.values())
        ended = "stopped" if counts.keys() == {"stopped"} else "failed"
        figures = [f"{self._done:,} of {_jobs(self._total)} done", *(f"{n:,} {what}" for what, n in counts.items())]
        _say(f"{self._study}: {ended} after {took}, {', '.join(figures)}")
        failures = [message for _, message in self._failed.values()]
        if len(failures) > _FAILURES_SHOWN:
            failures[_FAILURES_SHOWN:] = [f"and {len(failures) - _FAILURES_SHOWN:,} more"]
        mend = "" if ended == "stopped" else "mend the cause; "
        print(
            *map(_indented, failures),
            f"Next: {mend}the same command goes on. `phrasemt status {self._study}` shows where the run is. "
            f"Snakemake's log: {self._log}",
            sep="\n",
            file=sys.stderr,
        )


class _Progress:
    """The line about the whole run: on a terminal the last line, drawn anew; elsewhere a line once a minute.

    failed: the jobs that Snakemake calls failed, kept up to date by the caller.
    """

    def __init__(self, run: Path, failed: Sized) -> None:
        self._run = run
        self._failed = failed
        self._terminal = sys.stderr.isatty()
        self._line = tqdm(
            bar_format="{desc}", file=sys.stderr, leave=False, dynamic_ncols=True, disable=not self._terminal
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._line.close()

    def _look_again_and_again(self) -> None:
        pause = 0.0 if self._terminal else _SECONDS_BETWEEN_LINES
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                line = describe_progress(status_of(self._run, datetime.now(UTC)), len(self._failed))
            except (PhrasemtError, OSError):  # the note cannot be read; perhaps next time
                line = ""
            took = time.monotonic() - began
            if self._terminal:
                self._line.set_description_str(line)
                pause = max(_SECONDS_BETWEEN_LOOKS, took / _LOOKING)
            elif line:
                _say(line)


def describe_progress(status: Status, failed: int) -> str:
    """Jobs done, trainings that run, the expected end.

    failed: number of jobs that Snakemake calls failed. Snakemake knows better than the notes of jobs: the queue of a
    cluster may start a job again whose process is gone.
    """
    return ", ".join(_parts_of_the_progress(status, failed))


def _parts_of_the_progress(status: Status, failed: int) -> Iterator[str]:
    counts = Counter(job.state for job in status.jobs)
    yield f"{counts['done']:,} of {_jobs(len(status.jobs))} done"
    if failed:
        yield f"{failed:,} failed"
    if status.seconds_left:
        end = (status.now + timedelta(seconds=status.seconds_left)).astimezone()
        day = "" if end.date() == datetime.now().date() else f"{end:%Y-%m-%d} "
        if status.unknown:
            yield f"end not before {day}{end:%H:%M} ({_jobs(status.unknown)} of unknown length)"
        else:
            yield f"end about {day}{end:%H:%M} (in {clock(status.seconds_left)})"
    trainings = [(job.planned.name, job.training) for job in status.jobs if job.state == "running" and job.training]
    for name, report in trainings[:_TRAININGS_NAMED]:
        left = "" if report.seconds_left is None else f", {clock(report.seconds_left)} left"
        yield f"training {name.rpartition('/')[2]}: update {report.update:,} of {report.max_updates:,}{left}"
    if len(trainings) > _TRAININGS_NAMED:
        yield f"{len(trainings) - _TRAININGS_NAMED:,} more trainings"


def _jobs(number: int) -> str:
    return f"{number:,} job{'' if number == 1 else 's'}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _say(text: str) -> None:
    with _above_the_progress():
        print(f"{datetime.now():%H:%M:%S}  {text}", file=sys.stderr, flush=True)


def _above_the_progress() -> AbstractContextManager[None]:
    return tqdm.external_write_mode(file=sys.stderr)
