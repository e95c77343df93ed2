"""`phrasemt status`: show the progress of the last run of a study: its jobs by state, and its expected end.

The verb reads only small files that Snakemake's main process and the stages write (phrasemt/runs/notes.py), so
it can be called at any time, beside a run on this machine or on a cluster.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.runs.notes import RunNote, StageNote, latest_run, runs_folder
from phrasemt.runs.status import GONE, JobState, JobStatus, Status, describe_training, status_of
from phrasemt.runs.units import clock
from phrasemt.verbs._numbers import in_range
from phrasemt.verbs._study import FILE_OR_NAME, add_study, study_name

DEFAULT_PORT = 8765
LINES_OF_LOG = 5
MOST_SHOWN = 20  # running and failed jobs
MOST_LOGS = 5  # of failed jobs
CLEAR_SCREEN = "\033[2J\033[H"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the progress of the last run of a study: jobs that are done, run, wait, or failed, with the "
        "last lines of the logs of failed jobs; jobs that are blocked, because they wait for a failed job; trainings "
        "with their progress; the expected end, estimated from earlier runs of the same jobs. A job has failed, too, "
        "when its process ended without a report, or when it runs on another machine and gave no sign of life for ten "
        "minutes. The command only reads files, so it can be called at any time during a run, here or on a cluster."
    )
    add_study(parser, FILE_OR_NAME)
    parser.add_argument("--watch", action="store_true", help="repeat until the run has ended")
    parser.add_argument(
        "--every", type=in_range(float, 0.1), default=5, metavar="SECONDS", help="with --watch (default: %(default)s)"
    )
    pages = parser.add_mutually_exclusive_group()
    pages.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page that shows learning curves, too; with --watch, write it again and again for open browsers",
    )
    pages.add_argument(
        "--serve",
        type=in_range(int, 0, 65_535),
        nargs="?",
        const=DEFAULT_PORT,
        metavar="PORT",
        help="show this page to browsers on this machine, until Ctrl-C, at http://127.0.0.1:PORT "
        f"(default: {DEFAULT_PORT}; 0: a free port)",
    )


def run(options: argparse.Namespace) -> None:
    """Print the status, or show it as a page.

    Raises PhrasemtError when no run of the study has begun here, when its note cannot be read, and when the port is in
    use.
    """
    study = study_name(options.study)
    current = functools.partial(_current, study)
    if options.serve is not None:
        from phrasemt.verbs._live_page import live_page, serve

        current()  # an error now, and not in the browser
        serve(lambda: live_page(current(), refresh=options.every), options.serve)
        return
    while True:
        status = current()
        going_on = options.watch and status.state == "running"
        if options.html is not None:
            from phrasemt.verbs._live_page import live_page

            write_text(options.html, live_page(status, refresh=options.every if going_on else 0))
        else:
            lines = "\n".join(describe(status))
            print(f"{CLEAR_SCREEN}{lines}" if options.watch else lines, flush=True)
        if not going_on:
            return
        time.sleep(options.every)


def _current(study: str) -> Status:
    path = latest_run(study)
    if path is None:
        raise PhrasemtError(
            "no run of this study has begun here yet",
            where=runs_folder(study),
            next_step="snakemake --profile profiles/local --configfile STUDY.yaml",
        )
    return status_of(path, datetime.now(UTC))


# ------------------------------------------------------------------------------------------------------------ printing


def describe(status: Status) -> Iterator[str]:
    """Yield the lines about a run."""
    run, jobs = status.run, status.jobs
    end = f" until {local_time(datetime.fromisoformat(run.ended))}" if run.ended else ""
    yield f"{run.study}: {status.state}, since {local_time(run.begin)}{end}, process {run.pid} on {run.host}"
    yield from _table(run, jobs)
    if cached := sum(job.state == "done" and job.note is not None and job.note.from_cache for job in jobs):
        yield f"from the cache: {cached:,}"
    if running := [job for job in jobs if job.state == "running"]:
        yield "running"
        yield from _shown(running, status.now)
    if failed := [job for job in jobs if job.state == "failed"]:
        yield "failed"
        yield from _shown(failed, status.now)
    yield from expected_end(status)


def expected_end(status: Status) -> Iterator[str]:
    """Yield a line about the end of a run, if there is something to say."""
    counts = Counter(job.state for job in status.jobs)
    if status.state == "running":
        if status.seconds_left:
            about = f"about {local_time(status.now + timedelta(seconds=status.seconds_left))}"
            yield f"expected end: {about}, in {clock(status.seconds_left)}" + (
                f", without {status.unknown:,} jobs that have no record yet" if status.unknown else ""
            )
        elif counts["waiting"] or counts["running"]:
            yield "expected end: not known, because no such jobs have finished here yet"
    elif counts["done"] < len(status.jobs):
        left = len(status.jobs) - counts["done"]
        yield f"not done: {left:,} jobs; run the same command again. Snakemake's log: {status.run.log}"


def counts_by_rule(run: RunNote, jobs: Sequence[JobStatus]) -> dict[str, Counter[str]]:
    """Return the number of jobs in each state, for each rule."""
    states: dict[str, Counter[str]] = {rule: Counter(done=number) for rule, number in run.done.items()}
    for job in jobs:
        states.setdefault(job.planned.rule, Counter())[job.state] += 1
    return states


def states_shown(total: Counter[str]) -> list[str]:
    """Return the states that are worth a column. total: numbers of all jobs by state."""
    return [state for state in get_args(JobState) if state != "blocked" or total[state]]


def _table(run: RunNote, jobs: Sequence[JobStatus]) -> Iterator[str]:
    states = counts_by_rule(run, jobs)
    total: Counter[str] = sum(states.values(), Counter())
    columns = states_shown(total)
    width = max(map(len, states), default=0)
    yield f"  {'':<{width}}" + "".join(f"{column:>9}" for column in columns)
    for rule, counts in (*states.items(), ("all", total)):
        if rule == "all" or counts["done"] < counts.total():
            cells = "".join(f"{counts[column] or '':>9}" for column in columns)
            yield f"  {rule:<{width}}{cells}".rstrip()


def _shown(jobs: Sequence[JobStatus], now: datetime) -> Iterator[str]:
    for number, job in enumerate(jobs[:MOST_SHOWN]):
        note = job.note
        assert note is not None
        where = note.host + (f", Slurm job {note.queue_job}" if note.queue_job else f", process {note.pid}")
        yield f"  {job.planned.rule} {job.planned.name}: {what_of(job, note, now)} ({where})"
        if job.state == "failed":
            if number < MOST_LOGS:
                yield from (f"    | {line}" for line in last_lines(Path(job.planned.log or "")))
            yield f"    {job.planned.log}"
    if len(jobs) > MOST_SHOWN:
        yield f"  and {len(jobs) - MOST_SHOWN:,} more"


def what_of(job: JobStatus, note: StageNote, now: datetime) -> str:
    """Return what is known of a job that runs or has failed."""
    if job.state == "failed":
        return "error" if note.state == "failed" else GONE
    what = f"for {clock((now - note.begin).total_seconds())}"
    return f"{what}, {describe_training(job.training)}" if job.training else what


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log, each cut at 200 characters; none when it cannot be read."""
    try:
        with log.open(encoding="utf-8", errors="replace") as stream:
            return [line.rstrip()[:200] for line in deque(stream, LINES_OF_LOG)]
    except OSError:
        return []


def local_time(moment: datetime) -> str:
    """Return a moment in the time zone of this machine."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"
