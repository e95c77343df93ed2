"""Snakemake's graph of jobs, as the journal and `phrasemt plan` want it.

All that is asked of Snakemake's own objects is asked here, in `flow.open_study` and in `plan`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from phrasemt.artefacts.sidecar import SUFFIX
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.machine.slurm import cancel, jobs_here
from phrasemt.runs.notes import (
    RUN,
    PlannedJob,
    RunNote,
    State,
    commit_of_code,
    heartbeat,
    new_run,
    now,
    running_notes,
    study_of,
)
from phrasemt.runs.status import failures, status_of
from phrasemt.workflow.paths import LOGS

_GPUS = re.compile(r"\bgpus?(?:-per-node)?[:=](?:[^\W\d]\w*:)?(\d+)")  # gpu:2, gpu:a100:2, --gpus-per-node=4


def stages_of(dag: Any) -> list[Any]:
    """Snakemake's jobs that run a stage, each after those that it waits for, always in the same order."""
    levels = (sorted(jobs, key=lambda job: (job.rule.name, name_of(job))) for jobs in dag.toposorted())
    return [job for jobs in levels for job in jobs if not job.rule.norun]


def planned(dag: Any, jobs: Sequence[Any]) -> list[PlannedJob]:
    """Jobs of the graph, with those among them that each waits for."""
    places = {job: place for place, job in enumerate(jobs)}
    return [
        PlannedJob(
            rule=job.rule.name,
            name=name_of(job),
            outputs=[str(path) for path in job.output if not path.endswith(SUFFIX)],
            log=next(map(str, job.log), None),
            benchmark=str(job.benchmark) if job.benchmark else None,
            threads=job.threads,
            gpus=gpus_of(job),
            after=sorted(places[other] for other in dag.dependencies[job] if other in places),
        )
        for job in jobs
    ]


def gpus_of(job: Any) -> int:
    """GPUs of a job of Snakemake on all its nodes: by its resource gpu, or else by gres or by options for Slurm."""
    resources = job.resources
    if gpus := int(resources.get("gpu") or 0):
        return gpus
    for option in ("gres", "slurm_extra"):
        if match := _GPUS.search(str(resources.get(option) or "")):
            return int(match[1]) * int(resources.get("nodes") or 1)
    return 0


def name_of(job: Any) -> str:
    """What tells a job from others of its rule: demo.en-de/max.1; nothing for the only job of a rule."""
    return "/".join(Path(path).with_suffix("").as_posix() for path in job.log).partition(f"/{job.rule.name}/")[2]


def refuse_same_outputs(jobs: Sequence[PlannedJob]) -> None:
    """Raise PhrasemtError while another run, on any machine, makes outputs of these jobs.

    Snakemake's lock is not enough: people remove it, and of two runs in one folder the first that ends removes both.
    """
    outputs = {path for job in jobs for path in job.outputs}
    for path, run in running_notes(LOGS):
        if isinstance(run, RunNote) and (same := outputs & {path for job in run.jobs for path in job.outputs}):
            raise PhrasemtError(
                "another run makes the same files",
                where=f"{min(same)} and {len(same) - 1:,} more" if len(same) > 1 else min(same),
                found=f"snakemake, process {run.pid} on {run.host}, {path}",
                next_step="wait until it has ended (`phrasemt status`), then run this again",
            )


def cancel_jobs_left(workflow: Any) -> None:
    """Cancel the Slurm jobs of a run that has ended, which Snakemake has left in the queue.

    While it asks for the states of its jobs, its list of active jobs is empty, and Ctrl-C cancels none
    (snakemake-interface-executor-plugins 9.4.0). If Slurm does not answer, the next run names the jobs.
    """
    active = getattr(workflow.scheduler._executor, "active_jobs", [])  # only executors of clusters have them
    with contextlib.suppress(PhrasemtError):
        if active and (left := {job.external_jobid for job in active}.intersection(jobs_here())):
            cancel(left)


class Journal:
    """Keeps the note of a run: Snakemake's main process, which alone has hooks, says when it begins and ends.

    opened: the journal of the last study that was opened in this process.
    """

    opened: ClassVar[Journal | None] = None

    def __init__(self, workflow: Any, study: str, text: str, code: Callable[[Iterable[Any]], dict[str, str]]) -> None:
        """`text` is the study file as it was read; `code` gives the digests of the modules that jobs use."""
        self.workflow, self._study, self._text, self._code = workflow, study, text, code
        self._path: Path | None = None
        self._note: RunNote | None = None
        self._heart = contextlib.ExitStack()
        workflow.onsuccess(lambda log: self.end("finished"))
        workflow.onerror(lambda log: self.fail())

    def begin(self, log: list[str]) -> None:
        """Note the run and its jobs. Raises PhrasemtError while another run makes the same files."""
        dag = self.workflow.dag
        needed = set(dag.needrun_jobs())
        waiting = [job for job in stages_of(dag) if job in needed]
        jobs = planned(dag, waiting)
        refuse_same_outputs(jobs)
        self._path = new_run(self._study)
        self._note = RunNote(
            study=self._study,
            log=next(map(os.path.relpath, log), None),
            cores=self.workflow.cores if self.workflow.local_exec else None,
            done=dict(Counter(job.rule.name for job in stages_of(dag) if job not in needed)),
            jobs=jobs,
            code=self._code(waiting),
            commit=commit_of_code(),
        )
        write_text(study_of(self._path), self._text)
        self._note.write(self._path)
        os.environ[RUN] = str(self._path)
        self._heart.enter_context(heartbeat(self._path))

    def fail(self) -> None:
        """Note the end, cancel what Snakemake has left in Slurm's queue, and say why jobs failed."""
        self.end("failed")
        cancel_jobs_left(self.workflow)
        if self._path is not None:
            print(*failures(status_of(self._path, now())), sep="\n", file=sys.stderr)

    def end(self, state: State) -> None:
        self._heart.close()
        if self._note is not None and self._path is not None:
            self._note.model_copy(update={"ended": now(), "state": state}).write(self._path)
