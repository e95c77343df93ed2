"""Notes of invented runs, stages and trainings of the study demo, in the working folder."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from phrasemt.runs.notes import PlannedJob, RunNote, StageNote, TrainingReport, stage_note

RUN = Path("logs/demo/runs/20260101T000000-1.json")


def ago(**units: float) -> datetime:
    return datetime.now(UTC) - timedelta(**units)


def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def job(rule: str, name: str = "", *after: int, **changes: Any) -> PlannedJob:
    values = {
        "outputs": [f"results/demo/{rule}/{name}"],
        "log": f"logs/demo/{rule}/{name}.log",
        "threads": 1,
        "gpus": 0,
    }
    values |= {"benchmark": f"benchmarks/demo/{rule}/{name}.tsv", "after": list(after)}
    return PlannedJob(rule=rule, name=name, **values | changes)


def begun(*jobs: PlannedJob, **changes: Any) -> RunNote:
    """A run on another machine, which began ten minutes ago and has just given a heartbeat."""
    values = {"study": "demo", "log": "snakemake.log", "cores": 2, "done": {}, "code": {}}
    note = RunNote(jobs=list(jobs), **values | {"host": "elsewhere", "started": ago(minutes=10)} | changes)
    note.write(RUN)
    return note


def stage(planned: PlannedJob, log: str = "", *, silent: timedelta = timedelta(0), **changes: Any) -> None:
    """A job of the run that has begun five seconds ago, in this process. silent: since it gave a heartbeat."""
    path = Path(planned.log)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log)
    values = {"stage": planned.rule, "run": RUN.name, "started": ago(seconds=5)}
    StageNote(**values | changes).write(stage_note(path))
    keep_silent(stage_note(path), silent)


def took(planned: PlannedJob, seconds: float) -> None:
    """What Snakemake records of a finished job."""
    path = Path(planned.benchmark or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t-\t12.5\n")


def keep_silent(path: Path, time: timedelta) -> None:
    last = (datetime.now(UTC) - time).timestamp()
    os.utime(path, (last, last))


def report(**changes: Any) -> TrainingReport:
    """A training that is half done, as it reported a moment ago."""
    values = {
        "device": "cpu",
        "processes": 1,
        "first_update": 0,
        "update": 1000,
        "max_updates": 2000,
        "seconds": 7322.0,
    }
    values |= {"seconds_left": 7322.0, "tokens_per_second": 1234.5, "memory_mib": 1228.8, "reported": ago(seconds=5)}
    return TrainingReport(**values | changes)
