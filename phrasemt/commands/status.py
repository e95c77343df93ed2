"""`phrasemt status`: show the progress of the last run of a study, from notes (phrasemt/runs/notes.py)."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args

from phrasemt.commands._arguments import add_json, add_study, changes_of, study_name
from phrasemt.errors import PhrasemtError
from phrasemt.machine.slurm import reasons_to_wait
from phrasemt.runs.display import local_time, table
from phrasemt.runs.notes import latest_run, queue_name, runs_folder
from phrasemt.runs.status import MOST_LOGS, MOST_SHOWN, JobState, Status, status_of, trainings_of

CLEAR_SCREEN = "\033[2J\033[H"
_SECONDS_BETWEEN_LOOKS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the progress of the last run of a study: jobs that are done, run, wait, or failed, with the "
        "last lines of the logs of failed jobs; jobs that are blocked, because they wait for a failed job; trainings "
        "with their progress and scores on dev; the expected end, by finished jobs of the study. A job "
        "has failed, too, when its process disappeared, or when it runs on another machine and gave no heartbeat for "
        "ten minutes. The command only reads files, so it can be called at any time during a run, here or on a "
        "cluster, where it asks Slurm why jobs wait. `tensorboard --logdir results` draws learning curves."
    )
    add_study(parser, by_name=True)
    how = parser.add_mutually_exclusive_group()
    add_json(how)
    how.add_argument("--watch", action="store_true", help="repeat every five seconds until the run has ended")


def run(options: argparse.Namespace) -> None:
    """Print the status.

    Raises PhrasemtError when neither a run nor a training of the study has begun here, and when the note of the run
    cannot be read.
    """
    study = study_name(options.study)
    while True:
        path, now = latest_run(study), datetime.now(UTC)
        status = status_of(path, now) if path else None
        trainings = [("data set", "system", "seed", "update", "dev", "best", "state"), *trainings_of(study, now)]
        if status is None and len(trainings) == 1:
            what = "no run of this study has begun here yet"
            raise PhrasemtError(what, where=runs_folder(study), next_step="phrasemt run STUDY")
        if options.json:
            print(json.dumps(_values(status, trainings), indent=1))
            return
        changes = changes_of(options.study)
        lines = [changes.line] if changes.line else []
        lines += describe(status) if status else []
        if path and status and status.run.cores is None and status.state == "running":
            waiting = ", ".join(f"{number} {reason}" for reason, number in reasons_to_wait(queue_name(path)).items())
            lines += [f"waiting in Slurm's queue: {waiting}"] if waiting else []
        if len(trainings) > 1:
            lines += ["trainings", *table(trainings, right_aligned=("seed", "update", "dev"), indent="  ")]
        if status and status.outlook:
            lines.append(status.outlook)
        print((CLEAR_SCREEN if options.watch and sys.stdout.isatty() else "") + "\n".join(lines), flush=True)
        if not options.watch or status is None or status.state != "running":
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _values(status: Status | None, trainings: list[tuple[str, ...]]) -> dict[str, Any]:
    """The run, its jobs and the trainings. seconds_left: as in `Status`."""
    headings, *rows = trainings
    values: dict[str, Any] = {"trainings": [dict(zip(headings, row, strict=True)) for row in rows]}
    if status is None:
        return values
    run = status.run.model_dump(mode="json", exclude={"jobs"}) | {"state": status.state}
    jobs = [
        {"rule": job.planned.rule, "name": job.planned.name, "state": job.state, "log": job.planned.log}
        | ({"training": job.training.model_dump(mode="json")} if job.training else {})
        | ({"error": job.note.error} if job.note and job.note.error else {})
        for job in status.jobs
    ]
    return {"run": run, "seconds_left": status.seconds_left, "jobs": jobs, **values}


def describe(status: Status) -> Iterator[str]:
    """Yield the lines about a run and its jobs."""
    run = status.run
    end = f" until {local_time(run.ended)}" if run.ended else ""
    yield f"{run.study}: {status.state}, since {local_time(run.started)}{end}, process {run.pid} on {run.host}"
    states = get_args(JobState)
    rows = [(rule, *(f"{counts[state] or ''}" for state in states)) for rule, counts in status.counts.items()]
    yield from table([("", *states), *rows], right_aligned=states, indent="  ")
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
