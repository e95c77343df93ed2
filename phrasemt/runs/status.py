"""Where a run of the workflow is: its jobs and their states, trainings with their progress, the expected end.

Everything follows from notes (phrasemt/runs/notes.py) and from the times of earlier jobs, so it can be asked at
any time, beside a run on this machine or on a cluster. `snakemake --summary` knows outputs only: jobs that run, wait
and failed look alike to it.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.training import Metrics, TrainingRecord, ranked
from phrasemt.errors import PhrasemtError
from phrasemt.runs import notes
from phrasemt.runs.costs import Recorded, seconds_needed
from phrasemt.runs.display import clock, counted, local_time
from phrasemt.stages import STAGES

JobState = Literal["done", "running", "waiting", "failed", "blocked"]
DISAPPEARED = "process disappeared: killed, or out of memory"
# How many running jobs, and how many failed ones, are shown, and how many of the latter with their logs.
MOST_SHOWN, MOST_LOGS = 20, 5
_LINES_OF_LOG = 5
# Seconds: an end that is not before the present minute says nothing.
_SHORTEST_BOUND = 60


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """A job of a run. note: None until it begins; training: the last report of a training, also of one that stopped.

    blocked: it waits for one that has failed, so it does not begin unless that one is tried again.
    """

    planned: notes.PlannedJob
    state: JobState
    note: notes.StageNote | None = None
    training: notes.TrainingReport | None = None

    @property
    def title(self) -> str:
        return f"{self.planned.rule} {self.planned.name}"

    @property
    def where(self) -> str:
        """Host, and process or job of Slurm, of a job that has begun."""
        assert self.note is not None
        job, process = self.note.queue_job, self.note.pid
        return f"{self.note.host}, Slurm job {job}" if job else f"{self.note.host}, process {process}"

    def what(self, now: datetime) -> str:
        """What is known of a job that runs or has failed."""
        assert self.note is not None
        if self.state == "failed":
            if self.note.state != "failed":
                return DISAPPEARED
            error = (self.note.error or "").partition("\n")[0][:200]
            return "error" if any(error[:80] in line for line in self.last_lines) else error
        time = f"for {clock(self.note.seconds(now))}"
        return f"{time}, {describe_training(self.training)}" if self.training else time

    @property
    def last_lines(self) -> list[str]:
        """The last lines of the log, each cut at 200 characters; none when it cannot be read."""
        try:
            with Path(self.planned.log or "").open(encoding="utf-8", errors="replace") as stream:
                return [line.rstrip()[:200] for line in deque(stream, _LINES_OF_LOG)]
        except OSError:
            return []


@dataclass(frozen=True, kw_only=True)
class Status:
    """A run. state: running, finished, stopped, failed, or killed when its process disappeared.

    seconds_left: at least, by finished jobs; unknown: jobs like which none has finished here.
    overdue: running jobs that take longer than was expected.
    """

    run: notes.RunNote
    state: str
    jobs: list[JobStatus]
    now: datetime
    seconds_left: float
    unknown: int
    overdue: list[JobStatus]

    def of_state(self, state: JobState) -> list[JobStatus]:
        return [job for job in self.jobs if job.state == state]

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """Jobs in each state, with those that were done before: of each rule that is not done, and of `all`."""
        rules = {rule: Counter(done=number) for rule, number in self.run.done.items()}
        for job in self.jobs:
            rules.setdefault(job.planned.rule, Counter())[job.state] += 1
        unfinished = {rule: counts for rule, counts in rules.items() if counts["done"] < counts.total()}
        return unfinished | {"all": sum(rules.values(), Counter())}

    @property
    def end(self) -> str:
        """When the run is expected to end; empty when that is not known."""
        if not self.seconds_left and not self.overdue:
            return ""
        if (self.unknown or self.overdue) and self.seconds_left < _SHORTEST_BOUND:
            time = "not known yet"
        else:
            end = (self.now + timedelta(seconds=self.seconds_left)).astimezone()
            time = f"{end:%H:%M}" if end.date() == self.now.astimezone().date() else local_time(end)
            bound = "not before" if self.unknown or self.overdue else "about"
            time = f"{bound} {time} (in {clock(self.seconds_left)})"
        reasons = [f"{job.title} has run {job.what(self.now)}, longer than expected" for job in self.overdue[:1]]
        if self.unknown:
            reasons.append(f"{counted(self.unknown, 'job')} of unknown length")
        return "; ".join([time, *reasons])

    @property
    def outlook(self) -> str:
        """When the run is expected to end or, of a run that has ended, what it has left; empty when all is done."""
        if self.state == "running":
            going_on = self.of_state("running") or self.of_state("waiting")
            known = self.end or "not known, because no such jobs have finished here yet"
            return f"expected end: {known}" if going_on else ""
        left = sum(job.state != "done" for job in self.jobs)
        return (
            f"not done: {counted(left, 'job')}; run the same command again. Snakemake's log: {self.run.log}"
            if left
            else ""
        )


def status_of(path: Path, now: datetime) -> Status:
    """The run whose note is in this file. Raises PhrasemtError when the note cannot be read."""
    run = notes.RunNote.read(path)
    if run is None:
        what = "the note of this run cannot be read: it is damaged, or of another version of phrasemt"
        next_step = "when the run has ended, run the study again, which writes a new one"
        raise PhrasemtError(what, where=path, next_step=next_step)
    found: list[JobStatus] = []
    for planned in run.jobs:
        job = job_status(planned, path.name, now)
        if run.state == "finished":  # all are done, whatever their notes say; `snakemake --touch` runs no stages
            job = replace(job, state="done")
        elif job.state == "waiting" and any(found[other].state in ("failed", "blocked") for other in planned.after):
            job = replace(job, state="blocked")
        found.append(job)
    return Status(
        run=run,
        state="killed" if run.state == "running" and not run.is_running(path, now) else run.state,
        jobs=found,
        now=now,
        **_expected(run, found, now),
    )


def job_status(job: notes.PlannedJob, run: str, now: datetime) -> JobStatus:
    """A job of the run whose note has this name, as the note of its stage says."""
    path = notes.stage_note(job.log or "")
    note = notes.StageNote.read(path)
    if note is None or note.run != run:
        return JobStatus(planned=job, state="waiting")
    if note.state == "finished":
        return JobStatus(planned=job, state="done", note=note)
    reports: list[notes.TrainingReport] = []
    if "state" in [file.name for file in STAGES[job.rule].stage_files("folder")]:
        of_trainings = map(notes.StageNote.read, Path(job.outputs[0]).parent.glob("state/*/note.json"))
        reports = [one.training for one in of_trainings if one and one.run == run and one.training]
    training = max(reports, key=lambda report: report.reported, default=None)
    if note.state == "stopped":  # it comes back
        return JobStatus(planned=job, state="waiting", training=training)
    return JobStatus(
        planned=job, state="running" if note.is_running(path, now) else "failed", note=note, training=training
    )


def _expected(run: notes.RunNote, jobs: Sequence[JobStatus], now: datetime) -> dict[str, Any]:
    """The fields of a status that say when the run ends. What has failed, and what is blocked by it, takes no time."""
    recorded, start = Recorded(run.study), seconds_to_start(run, jobs)
    left, overdue, unknown = [], [], 0
    for job in jobs:
        seconds: float | None = 0.0
        if job.state not in ("running", "waiting"):
            pass
        elif job.training and job.training.seconds_left is not None:
            since = (now - job.training.reported).total_seconds() if job.state == "running" else 0.0
            seconds = job.training.seconds_left - max(0.0, since)
        else:
            seconds = recorded.seconds(job.planned)
            unknown += seconds is None
            if seconds is not None and job.note:
                seconds -= job.note.seconds(now)
                overdue += [job] * (seconds < 0)
        left.append((job.planned, max(0.0, seconds or 0.0) + (start if job.state == "waiting" else 0.0)))
    seconds_left = seconds_needed(left, run.cores)
    return {"seconds_left": seconds_left, "unknown": unknown, "overdue": overdue}


def seconds_to_start(run: notes.RunNote, jobs: Sequence[JobStatus]) -> float:
    """The median time that a job of a cluster waited after those before it: to be submitted, and for Slurm.

    jobs: of the run. 0 on this machine, and as long as no job has begun.
    """
    waits = list[float]()
    for job in jobs if run.cores is None else ():
        before = [note.ended for other in job.planned.after if (note := jobs[other].note)]
        ends = [end for end in before if end is not None]
        if job.note and len(ends) == len(job.planned.after):
            waits.append((job.note.started - max([run.started, *ends])).total_seconds())
    return max(0.0, statistics.median(waits)) if waits else 0.0


def failures(status: Status) -> Iterator[str]:
    """Yield each failed job with its error and its log, then `ending`."""
    failed = status.of_state("failed")
    yield from map(failure, failed[:MOST_SHOWN])
    if len(failed) > MOST_SHOWN:
        yield f"and {len(failed) - MOST_SHOWN:,} more failed"
    yield from ending(status)


def failure(job: JobStatus) -> str:
    """The error of a failed job, and its log."""
    assert job.note is not None
    return f"failed: {job.title}: {job.note.error or DISAPPEARED}\n  log: {job.planned.log}"


def ending(status: Status) -> Iterator[str]:
    """Yield the last lines of a run that was stopped or failed: what is saved, and how to go on."""
    failed = status.of_state("failed")
    if status.state == "stopped":
        saved = ", ".join(
            f"{job.planned.name.rpartition('/')[2]} at update {job.training.update:,} of {job.training.max_updates:,}"
            for job in status.jobs
            if job.state != "done" and job.training
        )
        done = f"Stopped after {len(status.of_state('done')):,} of {counted(len(status.jobs), 'job')}."
        yield f"{done} Saved: {saved}." if saved else done
    fix = "fix the cause; " if failed else ""
    yield f"Next: {fix}the same command resumes. `phrasemt status {status.run.study}` shows where the run is."


def describe_training(report: notes.TrainingReport) -> str:
    """Updates, speed and time left."""
    percent = 100 * report.update / report.max_updates
    text = f"update {report.update:,} of {report.max_updates:,} ({percent:.0f} %)"
    if report.tokens_per_second:
        text += f", {report.tokens_per_second:,.0f} tokens/s"
    return text if report.seconds_left is None else f"{text}, {clock(report.seconds_left)} left"


def trainings_of(study: str, now: datetime) -> list[tuple[str, ...]]:
    """A row for each training of a study: data set, system, seed, update, last and best score on dev, state.

    Of several trainings of a system and seed under different settings, the one that reported last.
    """
    folders = Path().glob(Paths(study).model.glob)
    rows = [row for folder in folders if (row := training_row(folder, now))]
    return sorted(rows, key=lambda row: (*row[:2], len(row[2]), row[2]))


def training_row(folder: Path, now: datetime) -> tuple[str, ...] | None:
    """The training in models/<system>/<seed>/; None before it begins. Unknown cells are empty."""
    record = None
    with contextlib.suppress(PhrasemtError):  # missing or damaged
        record = TrainingRecord.read(folder / "training.json")
    files = [*folder.glob("state/*/note.json"), *folder.glob("state/*/metrics.jsonl")]
    latest = max(files, key=lambda path: path.stat().st_mtime, default=None)
    if latest is None and record is None:
        return None
    path = (latest or folder / "state").with_name("metrics.jsonl")
    note, metrics = notes.StageNote.read(notes.training_note(path)), Metrics.read_unfinished(path)
    evaluations = [one.evaluation for one in metrics.evaluations] or (record.evaluations if record else [])
    report = note.training if note else None
    done = (report.update if report else 0, record.updates if record else 0, *(one.update for one in metrics.reports))
    update = f"{max(done):,}" + (f" of {report.max_updates:,}" if report else "")
    if note is None:
        state = "finished" if record else "unknown"
    else:
        state = (
            "disappeared"
            if note.state == "running" and not note.is_running(notes.training_note(path), now)
            else note.state
        )
    last = best = ""
    if evaluations:
        bleu = evaluations[-1].dev_bleu is not None
        first = ranked(evaluations, "bleu" if bleu else "perplexity")[0]
        last, best = (
            f"{one.dev_bleu:.2f} BLEU" if bleu else f"{one.dev_perplexity:.2f} ppl" for one in (evaluations[-1], first)
        )
        best += f" at {first.update:,}"
    return folder.parents[2].name, folder.parent.name, folder.name, update, last, best, state
