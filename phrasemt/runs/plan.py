"""Which jobs the next run of a study has, and why: asked of Snakemake's dry run, explained from the sidecars.

Snakemake gives the kind of a reason, and of changed parameters the old and the new text as a whole. The sidecars say
which settings differ.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake.cli import args_to_api, parse_args
from snakemake.logging import logger as snakemake_log

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.runs.notes import PlannedJob
from phrasemt.runs.site import make_cache_of_snakemake, of_checkout
from phrasemt.runs.start import Journal, planned, refuse_overlooked, stages_of
from phrasemt.workflow.changes import differences, short
from phrasemt.workflow.check import read_study

PROFILE = "profiles/local"

# Why a job runs. CHANGES are differences to how its outputs were made.
NEVER, MISSING, UNFINISHED, FOLLOWS = "new", "output missing", "unfinished", "an input is made again"
NEWER, INPUTS, SETTINGS, CODE, PARAMETERS = "input newer", "other inputs", "settings", "code", "registry entry"
CHANGES = (SETTINGS, CODE, PARAMETERS, NEWER, INPUTS)


@dataclass(frozen=True, kw_only=True, order=True)
class Reason:
    """why: one of the strings above; what: the file, or the setting with its old and new value."""

    why: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.why} {self.what}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Job:
    """A stage of the next run, or one that has a change but waits for others to be made again before it."""

    planned: PlannedJob
    reasons: list[Reason]

    @property
    def changes(self) -> list[Reason]:
        return [reason for reason in self.reasons if reason.why in CHANGES]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """jobs: those to run, each after those that it waits for; finished: number of those whose outputs stay.

    cores: of this machine; None if jobs run on a cluster.
    absent: outputs of finished jobs that are missing and that no job needs now.
    unrecorded: those of the finished jobs that Snakemake has no record of, so that no change makes them run again;
    their reasons are the differences that their sidecars show.
    """

    study: str
    datasets: list[str]
    cores: int | None = None
    jobs: list[Job] = field(default_factory=list)
    finished: int = 0
    absent: list[str] = field(default_factory=list)
    unrecorded: list[Job] = field(default_factory=list)


def plan_of(path: Path, profile: str = PROFILE) -> Plan:
    """What `snakemake --profile <profile> --configfile <path>` would do now. Runs nothing, and takes no lock.

    Raises StudyError for a study with mistakes, PhrasemtError when Snakemake cannot plan it.
    """
    make_cache_of_snakemake()
    study = read_study(path)
    workflow, executor = _dry_run(path, profile)
    dag, persistence = workflow.dag, workflow.persistence
    refuse_overlooked(dag, persistence, study.study)
    here = executor == "local"
    needed = set(dag.needrun_jobs())
    to_run, rest = ([job for job in stages_of(dag) if (job in needed) == runs] for runs in (True, False))
    cores = workflow.cores if here else None
    plan = Plan(study=study.study, datasets=list(study.datasets), cores=cores, finished=len(rest))
    for job, record in zip(to_run, planned(dag, to_run, here=here), strict=True):
        plan.jobs.append(Job(planned=record, reasons=list(_reasons(job, dag.reason(job), persistence))))
    plan.absent.extend(path for job in rest for path in _absent(job))
    for job, record in zip(rest, planned(dag, rest, here=here), strict=True):
        if not persistence.has_metadata(job):
            plan.unrecorded.append(Job(planned=record, reasons=list(_differences_to_the_sidecar(job))))
    return plan


def _dry_run(study: Path, profile: str) -> tuple[Any, str]:
    """Snakemake's workflow after a dry run in this process, and the executor that would run it."""
    place = ["--snakefile", of_checkout("workflow/Snakefile"), "--profile", of_checkout(profile)]
    arguments = [*place, "--configfile", str(study), "--dry-run", "--quiet", "rules", "progress"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        snakemake_log.propagate = False
        try:
            parser, options = parse_args(arguments)
            success = args_to_api(options, parser)
        except SystemExit:
            success = False
        except Exception as error:  # of a profile; Snakemake's have no base of their own
            success = False
            print(error)
    if not success or Journal.opened is None:
        what = "Snakemake cannot plan this study"
        next_step = f"snakemake --profile {profile} --configfile {study} --dry-run"
        raise PhrasemtError(what, where=study, found=" ".join(said.getvalue().split())[-1000:], next_step=next_step)
    return Journal.opened.workflow, options.executor


def _reasons(job: Any, reason: Any, persistence: Any) -> Iterator[Reason]:
    """Why a job runs. Snakemake looks no further once an earlier job runs; its own changes are shown even so."""
    if absent := _absent(job):
        made_before = any(map(persistence.metadata, job.output))
        yield Reason(why=MISSING, what=absent[0]) if made_before else Reason(why=NEVER)
        yield from _differences_to_the_sidecar(job)
    elif reason._incomplete_output:
        yield Reason(why=UNFINISHED)
    else:
        yield from _changes(job, reason, persistence)
    if reason._updated_input_run:
        yield Reason(why=FOLLOWS)


def _absent(job: Any) -> list[str]:
    return [str(path) for path in job.output if not Path(path).is_file()]


def _changes(job: Any, reason: Any, persistence: Any) -> Iterator[Reason]:
    """How a job whose outputs are there differs from the one that made them."""
    if reason._updated_input:
        yield Reason(why=NEWER, what=min(map(str, reason._updated_input)))
    if any(persistence.input_changed(job)):
        old, new = set(persistence.input(job.output[0]) or ()), set(map(str, job.input))
        others = [*(f"+{one}" for one in sorted(new - old)), *(f"-{one}" for one in sorted(old - new))]
        yield Reason(why=INPUTS, what=" ".join(others[:3]))
    if difference := persistence.params_changed(job):
        found = list(_differences_to_the_sidecar(job))
        yield from found or [Reason(why=PARAMETERS, what=short(", ".join(sorted(map(str, difference.only_new)))))]


def _differences_to_the_sidecar(job: Any) -> Iterator[Reason]:
    try:
        sidecar = Sidecar.beside(job.output[0])
    except DamagedFileError:
        return
    for what in differences(sidecar.settings, json.loads(job.params.settings)):
        yield Reason(why=SETTINGS, what=what)
    if sidecar.code != job.params.code:
        yield Reason(why=CODE)
