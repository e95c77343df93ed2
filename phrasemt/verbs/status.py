"""`phrasemt status`: show the progress of the last run of a study: its jobs by state, and its expected end.

The verb reads only small files that Snakemake's main process and the stages write (phrasemt/runs/notes.py), so
it can be called at any time, beside a run on this machine or on a cluster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import get_args

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.runs.notes import latest_run, runs_folder
from phrasemt.runs.status import MOST_LOGS, MOST_SHOWN, JobState, Status, status_of
from phrasemt.runs.text_table import table
from phrasemt.runs.units import local_time
from phrasemt.verbs._numbers import in_range
from phrasemt.verbs._output import Output
from phrasemt.verbs._study import FILE_OR_NAME, add_study, study_name

DEFAULT_PORT = 8765
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
        type=Output,
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
    status = _current(study)
    if options.serve is not None or options.html is not None:
        from phrasemt.verbs._live_page import live_page, serve  # imports what draws curves, which takes a second
    if options.serve is not None:
        serve(lambda: live_page(_current(study), refresh=options.every), options.serve, study)
        return
    while True:
        going_on = options.watch and status.state == "running"
        if options.html is not None:
            write_text(
                options.html, live_page(status, refresh=options.every if going_on else 0, folder=options.html.parent)
            )
        else:
            print((CLEAR_SCREEN if options.watch else "") + "\n".join(describe(status)), flush=True)
        if not going_on:
            return
        time.sleep(options.every)
        status = _current(study)


def _current(study: str) -> Status:
    path = latest_run(study)
    if path is None:
        next_step = "snakemake --profile profiles/local --configfile STUDY.yaml"
        raise PhrasemtError("no run of this study has begun here yet", where=runs_folder(study), next_step=next_step)
    return status_of(path, datetime.now(UTC))


def describe(status: Status) -> Iterator[str]:
    """Yield the lines about a run."""
    run = status.run
    end = f" until {local_time(run.ended)}" if run.ended else ""
    yield f"{run.study}: {status.state}, since {local_time(run.started)}{end}, process {run.pid} on {run.host}"
    states = get_args(JobState)
    rows = [(rule, *(f"{counts[state] or ''}" for state in states)) for rule, counts in status.counts.items()]
    yield from (f"  {line}" for line in table([("", *states), *rows], right_aligned=states))
    if cached := sum(job.state == "done" and job.note is not None and job.note.from_cache for job in status.jobs):
        yield f"from the cache: {cached:,}"
    for state in ("running", "failed"):
        jobs = status.of_state(state)
        if jobs:
            yield state
        for place, job in enumerate(jobs[:MOST_SHOWN]):
            yield f"  {job.title}: {job.what(status.now)} ({job.where})"
            if state == "failed":
                yield from (f"    | {line}" for line in (job.last_lines if place < MOST_LOGS else ()))
                yield f"    {job.planned.log}"
        if len(jobs) > MOST_SHOWN:
            yield f"  and {len(jobs) - MOST_SHOWN:,} more"
    if status.outlook:
        yield status.outlook
