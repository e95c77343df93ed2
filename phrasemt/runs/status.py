"""Where a run of the workflow is: its jobs and their states, trainings with their progress, the expected end.

Everything follows from notes (phrasemt/runs/notes.py) and from the times of earlier jobs, so it can be asked at
any time, beside a run on this machine or on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from phrasemt.runs.costs import Recorded
from phrasemt.runs.notes import (
    PlannedJob,
    RunNote,
    StageNote,
    TrainingReport,
    note_of_run,
    stage_note,
    training_note,
)
from phrasemt.runs.units import clock
from phrasemt.stages import STAGES

JobState = Literal["done", "running", "waiting", "failed", "blocked"]
GONE = "gone without a word: killed, or out of memory"


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """A job of a run. note: None until it begins; training: the last report of a training.

    blocked: it waits for one that has failed, so it does not begin unless that one is tried again.
    """

    planned: PlannedJob
    state: JobState
    note: StageNote | None = None
    training: TrainingReport | None = None


@dataclass(frozen=True, kw_only=True)
class Status:
    """A run. state: running, finished, failed, or killed when its process is gone without a word.

    seconds_left: at least, by the records of earlier runs; unknown: jobs to do without such a record.
    """

    run: RunNote
    state: str
    jobs: list[JobStatus]
    now: datetime
    seconds_left: float
    unknown: int


def status_of(path: Path, now: datetime) -> Status:
    """The run whose note stands in this file. Raises PhrasemtError when the note cannot be read."""
    run = note_of_run(path)
    jobs = [job_status(job, path.name, now) for job in run.jobs]
    # All jobs of a finished run are done, whatever their notes say; `snakemake --touch` runs no stages.
    jobs = [replace(job, state="done") for job in jobs] if run.state == "finished" else _with_blocked(jobs)
    seconds_left, unknown = _seconds_left(run, jobs, now)
    return Status(
        run=run,
        state="killed" if run.state == "running" and not run.alive(path, now) else run.state,
        jobs=jobs,
        now=now,
        seconds_left=seconds_left,
        unknown=unknown,
    )


def job_status(job: PlannedJob, run: str, now: datetime) -> JobStatus:
    """A job of the run whose note has this name, as the note of its stage tells."""
    if job.log is None:
        return JobStatus(planned=job, state="waiting")
    path = stage_note(job.log)
    note = StageNote.read(path)
    if note is None or note.run != run or note.state == "stopped":  # a stage that was stopped comes back
        return JobStatus(planned=job, state="waiting")
    if note.state == "finished":
        return JobStatus(planned=job, state="done", note=note)
    running = note.alive(path, now)
    return JobStatus(
        planned=job, state="running" if running else "failed", note=note, training=_training_report(job, run)
    )


def _training_report(job: PlannedJob, run: str) -> TrainingReport | None:
    """The last report of a training in this run."""
    folder = Path(job.outputs[0]).parent
    metrics = [path for kept in STAGES[job.rule].folders for path in folder.glob(f"{kept}/*/metrics.jsonl")]
    notes = [StageNote.read(training_note(path)) for path in metrics]
    reports = [note.training for note in notes if note and note.run == run and note.training]
    return max(reports, key=lambda report: report.reported, default=None)


def _with_blocked(jobs: list[JobStatus]) -> list[JobStatus]:
    """The jobs, each of which stands after those that it waits for."""
    for place, job in enumerate(jobs):
        if job.state == "waiting" and any(jobs[other].state in ("failed", "blocked") for other in job.planned.after):
            jobs[place] = replace(job, state="blocked")
    return jobs


def _seconds_left(run: RunNote, jobs: Sequence[JobStatus], now: datetime) -> tuple[float, int]:
    """The longest chain of jobs that wait for each other or, if longer, all work shared out over the cores.

    What has failed, and what is blocked by it, takes no time.
    """
    recorded = Recorded(run.study)
    needed: list[float] = []
    unknown = 0
    for job in jobs:
        seconds, _ = recorded.seconds(job.planned) if job.state in ("running", "waiting") else (0.0, "")
        unknown += seconds is None
        seconds = seconds or 0.0
        if job.training and job.training.seconds_left is not None:
            seconds = job.training.seconds_left - job.training.seconds_since(now)
        elif job.state == "running" and job.note:
            seconds -= (now - job.note.begin).total_seconds()
        needed.append(max(0.0, seconds))
    ends: dict[int, float] = {}

    def end(place: int) -> float:
        if place not in ends:
            ends[place] = needed[place] + max(map(end, jobs[place].planned.after), default=0.0)
        return ends[place]

    chain = max(map(end, range(len(jobs))), default=0.0)
    work = sum(seconds * job.planned.threads for seconds, job in zip(needed, jobs, strict=True))
    return max(chain, work / run.cores if run.cores else 0.0), unknown


def describe_training(report: TrainingReport) -> str:
    """Updates, speed and time left."""
    percent = 100 * report.update / report.max_updates
    text = f"update {report.update:,} of {report.max_updates:,} ({percent:.0f} %)"
    if report.tokens_per_second:
        text += f", {report.tokens_per_second:,.0f} tokens/s"
    return text if report.seconds_left is None else f"{text}, {clock(report.seconds_left)} left"
