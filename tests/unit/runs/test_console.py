"""What the console says of invented events of Snakemake and invented notes of stages."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invented_runs import RUN, begun, job, report, stage
from snakemake_interface_logger_plugins.common import LogEvent

from phrasemt.runs import console
from phrasemt.runs.console import LogHandler, describe_progress
from phrasemt.runs.journal import Journal
from phrasemt.runs.status import JobStatus, Status

SETTINGS = dict.fromkeys(("printshellcmds", "quiet", "debug_dag", "verbose", "show_failed_logs", "stdout", "dryrun"))
RULE = "translate_examples"


@pytest.fixture(autouse=True)
def _here(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHRASEMT_RUN", str(here / RUN))
    monkeypatch.setenv("PHRASEMT_QUIET", "")  # so that it is taken back afterwards
    monkeypatch.setattr(Journal, "opened", None)  # of other tests


class Console:
    """A handler, and Snakemake's events by short names."""

    def __init__(self, **settings: Any) -> None:
        self.handler = LogHandler(SimpleNamespace(**SETTINGS | {"nocolor": True} | settings), None)

    def event(self, event: LogEvent | None = None, text: str = "", level: int = logging.INFO, **values: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 0, text, None, None)
        self.handler.handle(logging.makeLogRecord(record.__dict__ | values | ({"event": event} if event else {})))

    def begin(self, number: int, name: str) -> None:
        message = f"Translate {name}"
        self.event(LogEvent.JOB_INFO, jobid=number, rule_name=RULE, rule_msg=message, log=[job(RULE, name).log])

    def finish(self, number: int, name: str, **note: Any) -> None:
        keep(name, **{"state": "finished"} | note)
        self.event(LogEvent.JOB_FINISHED, job_id=number)

    def fail(self, number: int, name: str, reason: str | None = None, logs: tuple[str, ...] = (), **note: Any) -> None:
        if note:
            keep(name, **note)
        logs = (str(job(RULE, name).log), *logs)
        self.event(LogEvent.JOB_ERROR, "", logging.ERROR, jobid=number, rule_name=RULE, rule_msg=reason, log=logs)


def keep(name: str, **values: Any) -> None:
    """The note of a job that took 83 seconds."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    stage(job(RULE, name), **{"started": begin, "ended": begin + timedelta(seconds=83)} | values)


@pytest.fixture
def run() -> Callable[..., Console]:
    def run(*names: str, **done: int) -> Console:
        begun(*(job(RULE, name) for name in names), done=done)
        console = Console()
        for number, name in enumerate(names):
            console.begin(number, name)
        return console

    return run


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """Lines since the last call, without the time of the day in front."""

    def said() -> list[str]:
        captured = capsys.readouterr()
        assert captured.out == ""
        return [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in captured.err.splitlines()]

    return said


def test_each_job_that_ends_has_a_line(run, said):
    console = run("a", "b", "c", clean_pairs=7)
    assert said() == ["demo: 3 jobs to do, 7 done before"]
    console.finish(0, "a")
    console.finish(1, "b", from_cache=True)
    console.finish(2, "c", run="20250101T000000-1.json")  # of an earlier run: nothing is known of this one
    assert said() == ["Translate a (0:01:23)", "Translate b (from the cache)", "Translate c"]
    console.event(LogEvent.JOB_INFO, jobid=9, rule_name="all", rule_msg=None, log=[])
    console.event(LogEvent.JOB_FINISHED, job_id=9)
    console.event(text="Finished jobid: 9")
    console.handler.close()
    assert said() == ["demo: finished, 3 jobs in 0:00:00, 1 from the cache"]


def test_failures_stand_at_the_end_with_their_messages(run, said):
    console = run("broken", "killed", "fine", "cancelled")
    said()
    console.event(LogEvent.ERROR, "RuleException: CalledProcessError ... Command 'python'", logging.ERROR)
    console.fail(0, "broken", state="failed", error="a.txt: no such file. Next: make it")
    console.fail(1, "killed", "SLURM status is: 'OUT_OF_MEMORY'", ("logs/slurm/1.log",), ended=None)
    console.finish(2, "fine")
    console.fail(3, "cancelled", "submission\n failed")
    console.event(text="Exiting because a job execution failed. Look above", level=logging.ERROR)
    logs = "logs/demo/translate_examples"
    assert said() == [
        f"failed: Translate broken, log: {logs}/broken.log",
        f"failed: Translate killed, log: {logs}/killed.log, logs/slurm/1.log",
        "Translate fine (0:01:23)",
        f"failed: Translate cancelled, log: {logs}/cancelled.log",
    ]
    console.handler.close()
    assert said() == [
        "demo: failed after 0:00:00, 1 of 4 jobs done, 3 failed",
        "  failed: Translate broken",
        "    a.txt: no such file. Next: make it",
        f"    log: {logs}/broken.log",
        "  failed: Translate killed",
        "    process disappeared: killed, or out of memory; SLURM status is: 'OUT_OF_MEMORY'",
        f"    log: {logs}/killed.log, logs/slurm/1.log",
        "  failed: Translate cancelled",
        "    submission failed",
        f"    log: {logs}/cancelled.log",
        "Next: mend the cause; the same command goes on. `phrasemt status demo` shows where the run is. "
        "Snakemake's log: snakemake.log",
    ]


def test_a_job_that_is_tried_again_with_success_has_not_failed(run, said):
    console = run("a")
    console.fail(0, "a", state="stopped", error="stopped by SIGTERM")
    console.begin(0, "a")
    console.finish(0, "a")
    console.handler.close()
    assert said()[1:] == [
        "stopped: Translate a, log: logs/demo/translate_examples/a.log",
        "tried again: Translate a",
        "Translate a (0:01:23)",
        "demo: finished, 1 job in 0:00:00",
    ]


def test_a_run_that_was_asked_to_stop_has_not_failed(run, said):
    console = run("a")
    console.fail(0, "a", state="stopped", error="stopped by SIGINT. Next: the same command goes on")
    console.event(text="At least one job did not complete successfully.", level=logging.ERROR)
    console.handler.close()
    assert said()[2] == "demo: stopped after 0:00:00, 0 of 1 job done, 1 stopped"


def test_a_job_that_sigterm_ended_is_stopped_although_snakemake_names_the_signal_later(run, said, monkeypatch):
    scheduler = SimpleNamespace(_user_kill="graceful")
    monkeypatch.setattr(Journal, "opened", SimpleNamespace(workflow=SimpleNamespace(scheduler=scheduler)))
    console = run("a")
    console.fail(0, "a")
    console.event(text="Will exit after finishing currently running jobs (scheduler).")
    console.handler.close()
    assert said()[1:3] == [
        "stopped: Translate a, log: logs/demo/translate_examples/a.log",
        "demo: stopped after 0:00:00, 0 of 1 job done, 1 stopped",
    ]


def test_of_many_failures_the_first_are_shown(run, said):
    console = run(*map(str, range(8)))
    for number in range(8):
        console.fail(number, str(number), state="failed", error="the same mistake")
    console.handler.close()
    lines = said()
    assert lines.count("    the same mistake") == 5
    assert lines[-2] == "  and 3 more"


def test_warnings_and_errors_of_snakemake_are_shown(run, said):
    console = run("a")
    console.event(text="Building DAG of jobs...")
    console.event(text="a clock is wrong", level=logging.WARNING)
    console.finish(0, "a")
    assert said()[1:] == ["a clock is wrong", "Translate a (0:01:23)"]
    console.event(LogEvent.ERROR, "MissingOutputException: b", logging.ERROR)
    console.handler.close()
    assert said()[:2] == ["MissingOutputException: b", "demo: failed after 0:00:00, 1 of 1 job done"]


def test_a_command_without_jobs_shows_what_snakemake_says(said):
    console = Console()
    console.event(text="Unlocked working directory.")
    assert said() == []
    console.handler.close()
    assert said() == ["Unlocked working directory."]
    console = Console()
    console.event(text="Building DAG of jobs...")
    console.event(LogEvent.ERROR, "LockException: in use", logging.ERROR)
    console.handler.close()
    assert said() == ["LockException: in use"]


@pytest.mark.parametrize("settings", [{"verbose": True}, {"dryrun": True}])
def test_verbose_and_dry_runs_show_what_snakemake_says(said, settings):
    console = Console(**settings)
    console.event(text="Building DAG of jobs...")
    console.event(LogEvent.JOB_FINISHED, "Finished jobid: 9", job_id=9)
    console.handler.close()
    lines = said()
    assert lines[0] == "Building DAG of jobs..."
    assert lines[-1] == "Finished jobid: 9"
    assert not os.environ["PHRASEMT_QUIET"], "stages write to the terminal, too"


def test_without_a_terminal_the_progress_is_printed_now_and_then(run, said, monkeypatch):
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.01)
    shown = run("a", "b")
    lines: list[str] = []
    while len(lines) < 3:  # the first one says how many jobs there are
        lines += said()
        time.sleep(0.01)
    shown.handler.close()
    assert lines[1] == "0 of 2 jobs done"


def test_the_progress_names_jobs_trainings_and_the_end() -> None:
    training = report(update=240, max_updates=4000, seconds_left=80.0, tokens_per_second=None)
    now = datetime.now(UTC).astimezone().replace(hour=10, minute=0, second=0)
    jobs = [
        *(JobStatus(planned=job(RULE, f"demo.en-de/base.{number}"), state="done") for number in range(1200)),
        *(JobStatus(planned=job(RULE, f"demo.en-de/max.{n}"), state="running", training=training) for n in range(5)),
        JobStatus(planned=job(RULE, "demo.en-de/other"), state="failed"),
    ]

    def progress(seconds_left: float, unknown: int) -> list[str]:
        status = Status(run=begun(), state="running", jobs=jobs, now=now, seconds_left=seconds_left, unknown=unknown)
        return describe_progress(status, failed=1).split(", training ")

    start = "1,200 of 1,206 jobs done, 1 failed"
    first, second, third = progress(600, 0)[1:]
    told = "update 240 of 4,000 (6 %), 0:01:20 left"
    assert (first, second, third) == (f"max.0: {told}", f"max.1: {told}", f"max.2: {told}, 2 more trainings")
    assert progress(600, 0)[0] == f"{start}, end about 10:10 (in 0:10:00)"
    assert progress(600, 2)[0] == f"{start}, end not before 10:10 (2 jobs of unknown length)"
    assert progress(0, 2)[0] == start
    tomorrow = now + timedelta(days=1)
    assert progress(86_400, 0)[0] == f"{start}, end about {tomorrow:%Y-%m-%d} 10:00 (in 24:00:00)"
