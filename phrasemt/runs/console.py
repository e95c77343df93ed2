"""The console of a run: a line for each job that ends, and one line for the progress of the whole run.

A logger plugin of Snakemake (`logger: phrasemt` in the profiles, package snakemake_logger_plugin_phrasemt). Snakemake's
events say which jobs begin and end; the notes of stages (phrasemt/runs/notes.py) say how long they took, how far
trainings are, and why a job failed. Snakemake's own messages go to its log file. The console shows them in
dry runs and with `--verbose`; otherwise it shows its errors and
warnings, and the messages of commands that run no job (`--unlock`).
The plugin `snakemake-logger-plugin-rich` knows Snakemake's events only: no training's progress, no end, no message of a
stage in place of its whole log, and nothing at all where there is no terminal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

from phrasemt.errors import PhrasemtError
from phrasemt.runs.journal import Journal, asked_to_stop
from phrasemt.runs.notes import QUIET, RunNote, StageNote, run_of_this_process, stage_note
from phrasemt.runs.status import GONE, STOPPED, Status, describe_training, status_of
from phrasemt.runs.units import clock, job_count

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
# What it says when Ctrl-C or SIGTERM ends a run. Its processes get the same signal, those too that are just starting.
_STOPPING = ("Terminating processes on user request", "Will exit after finishing currently running jobs")
_STORED = " (send to storage)"  # what it puts behind the address of a log in a storage


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
                with tqdm.external_write_mode(file=sys.stderr):
                    self._snakemakes.handle(record)
        elif self._run is None:
            self._before.append(record)
        elif record.getMessage().startswith(_STOPPING):
            self._run.stopping = True

    def close(self) -> None:
        """Says how the run ended; of a command that ran no job, Snakemake's messages."""
        if self._run:
            self._run.end(errors=self._errors)
        elif not self._errors and sys.exc_info()[0] is None:  # an exit by the Snakefile says itself why
            for record in self._before:
                self._snakemakes.handle(record)
        self._run, self._before = None, []
        super().close()


class _Run:
    """What the console says of a run. path: of its note; None when Snakemake was told to run without hooks."""

    def __init__(self, path: Path | None) -> None:
        nothing = RunNote(study="run", log=None, cores=None, done={}, jobs=[], code={})
        self._path = path or Path()
        self._note = (RunNote.read(path) if path else None) or nothing
        self._started = time.monotonic()
        self._jobs: dict[int, tuple[str, list[str]]] = {}  # message and logs, by the number that Snakemake gives
        self._done = self._from_cache = 0
        self._failed: dict[int, tuple[str, str]] = {}  # "failed" or "stopped", and the message
        self.stopping = False  # on request
        earlier = sum(self._note.done.values())
        before = f", {earlier:,} done before" if earlier else ""
        end = ""
        if path:
            with contextlib.suppress(PhrasemtError, OSError):
                end = status_of(path, datetime.now(UTC)).end
        _say(f"{self._note.study}: {job_count(len(self._note.jobs))} to do{before}{end and f', end {end}'}")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show_progress, daemon=True)
        if path:
            self._thread.start()

    def begin(self, number: int, message: str, logs: list[str]) -> None:
        self._jobs[number] = message, [self._copy_of(log) for log in logs]
        if self._failed.pop(number, None):
            _say(f"tried again: {message}")

    def finish(self, number: int) -> None:
        message, logs = self._jobs[number]
        if not logs:  # the rule `all`, which does nothing
            return
        self._done += 1
        if (note := self._note_of(number)) and note.ended:
            self._from_cache += note.from_cache
            message += f" ({'from the cache' if note.from_cache else clock(note.seconds(note.ended))})"
        _say(message)

    def fail(self, number: int, snakemakes: str | None, logs: list[str]) -> None:
        """`snakemakes`: its own reason; `logs`: of the stage, and of the job on a cluster."""
        message, _ = self._jobs[number]
        note = self._note_of(number)
        gone = note is None or note.state == "running"
        stopping = self.stopping or (Journal.opened is not None and asked_to_stop(Journal.opened.workflow))
        what = "stopped" if (gone and stopping) or (note and note.state == "stopped") else "failed"
        known = [GONE if note and gone else "", " ".join((snakemakes or "").split())]
        reason = (note and note.error) or "; ".join(filter(None, known)) or GONE
        if gone and stopping:
            reason = STOPPED
        log = f"log: {', '.join(map(self._copy_of, logs))}"
        self._failed[number] = what, f"{what}: {message}\n{_indented(reason)}\n{_indented(log)}"
        _say(f"{what}: {message}, {log}")

    def _copy_of(self, log: str) -> str:
        """The path of a log here, which of a log in a storage is the path of a copy."""
        address = log.removesuffix(_STORED)
        if address == log:
            return os.path.relpath(log)
        place = address.rpartition("://")[2]
        return next((job.log for job in self._note.jobs if job.log and job.log.endswith(place)), log)

    def _note_of(self, number: int) -> StageNote | None:
        """The note of a job's stage, if the stage has begun in this run."""
        _, logs = self._jobs[number]
        note = StageNote.read(stage_note(logs[0])) if logs else None
        return note if note and note.run == self._path.name else None

    def end(self, *, errors: bool) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        study = self._note.study
        took = clock(time.monotonic() - self._started)
        if not errors and not self._failed:
            cached = f", {self._from_cache:,} from the cache" if self._from_cache else ""
            _say(f"{study}: finished, {job_count(self._done)} in {took}{cached}")
            return
        counts = Counter(what for what, _ in self._failed.values())
        ended = "stopped" if counts.keys() == {"stopped"} else "failed"
        figures = [f"{self._done:,} of {job_count(len(self._note.jobs))} done"]
        figures += [f"{number:,} {what}" for what, number in counts.items()]
        _say(f"{study}: {ended} after {took}, {', '.join(figures)}")
        failures = [message for _, message in self._failed.values()]
        if (more := len(failures) - _FAILURES_SHOWN) > 0:
            failures[_FAILURES_SHOWN:] = [f"and {more:,} more"]
        mend = "" if ended == "stopped" else "mend the cause; "
        print(
            *map(_indented, failures),
            f"Next: {mend}the same command goes on. `phrasemt status {study}` shows where the run is. "
            f"Snakemake's log: {self._note.log}",
            sep="\n",
            file=sys.stderr,
        )

    def _show_progress(self) -> None:
        """Shows the line about the whole run: on a terminal the last line, drawn anew; elsewhere once a minute."""
        terminal = sys.stderr.isatty()
        pause = 0.0 if terminal else _SECONDS_BETWEEN_LINES
        with tqdm(bar_format="{desc}", file=sys.stderr, leave=False, dynamic_ncols=True, disable=not terminal) as line:
            while not self._ended.wait(pause):
                began = time.monotonic()
                text = ""
                with contextlib.suppress(PhrasemtError, OSError):  # the note cannot be read; perhaps next time
                    text = describe_progress(status_of(self._path, datetime.now(UTC)), len(self._failed))
                if terminal:
                    line.set_description_str(text)
                    pause = max(_SECONDS_BETWEEN_LOOKS, (time.monotonic() - began) / _LOOKING)
                elif text:
                    _say(text)


def describe_progress(status: Status, failed: int) -> str:
    """Jobs done, the expected end, trainings that run.

    failed: number of jobs that Snakemake calls failed. Snakemake knows better than the notes of jobs: the queue of a
    cluster may start a job again whose process is gone.
    """
    parts = [f"{len(status.of_state('done')):,} of {job_count(len(status.jobs))} done"]
    if failed:
        parts.append(f"{failed:,} failed")
    if status.end:
        parts.append(f"end {status.end}")
    trainings = [job for job in status.of_state("running") if job.training]
    for job in trainings[:_TRAININGS_NAMED]:
        assert job.training is not None
        parts.append(f"training {job.planned.name.rpartition('/')[2]}: {describe_training(job.training)}")
    if (more := len(trainings) - _TRAININGS_NAMED) > 0:
        parts.append(f"{more:,} more trainings")
    return ", ".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _say(text: str) -> None:
    tqdm.write(f"{datetime.now():%H:%M:%S}  {text}", file=sys.stderr)
