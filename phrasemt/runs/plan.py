"""Which jobs the next run of a study has, and why: asked of Snakemake's dry run, explained from the sidecars.

Snakemake gives the kind of a reason, and of changed parameters the old and the new text as a whole. The sidecars say
which settings differ, and prove that nothing but the times of files does.

`accept` lets outputs count as made by the settings and code of now, because a person says that the change is cosmetic.
The sidecars keep how the outputs were made, and record beside it what they were accepted for, when and why. Snakemake's
record is written by Snakemake itself, as after a run. Sidecars come first, so a kill in between accepts nothing unsaid.
Outputs of which only the times differ, as after a copy of the folder, get later times and no record. `--touch` and
`--cleanup-metadata` of Snakemake compare no contents, and the sidecars would know nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snakemake.cli import args_to_api, parse_args
from snakemake.logging import logger as snakemake_log

from phrasemt.artefacts.sidecar import Acceptance, Evidence, Sidecar, sidecar_path
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.machine.gpus import visible_gpus
from phrasemt.runs.journal import Journal, planned, stages_of
from phrasemt.runs.notes import PlannedJob, RunNote, now, runs_folder
from phrasemt.stages import STAGES
from phrasemt.workflow.check import read_study
from phrasemt.workflow.code import module_digests, module_file

PROFILE = "profiles/local"

# Why a job runs. CHANGES are differences to how its outputs were made, of which a person may accept the COSMETIC ones.
NEVER, MISSING, UNFINISHED, FOLLOWS = "never run", "output missing", "unfinished", "what it reads is made again"
NEWER, INPUTS, SETTINGS, CODE, PARAMETERS = "input newer", "other inputs", "settings", "code", "registry entry"
TIMES = "only times of files"  # in place of NEWER: sidecars prove that the contents are the same
COSMETIC = (SETTINGS, CODE, PARAMETERS, TIMES)
CHANGES = (*COSMETIC, NEWER, INPUTS)


@dataclass(frozen=True, kw_only=True, order=True)
class Reason:
    """why: one of the words above; what: the file, the setting with its old and new value, or the edited modules."""

    why: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.why} {self.what}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Job:
    """A stage of the next run, or one that has a change but waits for others to be made again before it."""

    planned: PlannedJob
    reasons: list[Reason]
    snakemakes: Any  # Snakemake's own object

    @property
    def wildcards(self) -> dict[str, str]:
        return dict(self.snakemakes.wildcards.items())

    @property
    def changes(self) -> list[Reason]:
        return [reason for reason in self.reasons if reason.why in CHANGES]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """study: its name; jobs: those to run; finished: those whose outputs stay; workflow: Snakemake's own object.

    unrecorded: those of the finished jobs that Snakemake has no record of, so that no change makes them run again;
    their reasons are the differences that their sidecars show.
    """

    study: str
    datasets: list[str]
    workflow: Any
    jobs: list[Job] = field(default_factory=list)
    finished: list[PlannedJob] = field(default_factory=list)
    unrecorded: list[Job] = field(default_factory=list)


def plan_of(path: Path, profile: str = PROFILE) -> Plan:
    """What `snakemake --profile <profile> --configfile <path>` would do now. Runs nothing, and takes no lock.

    Raises StudyError for a study with mistakes, PhrasemtError when Snakemake cannot plan it.
    """
    study = read_study(path)
    workflow, executor = _dry_run(path, profile)
    dag, persistence = workflow.dag, workflow.persistence
    plan = Plan(study=study.study, datasets=list(study.datasets), workflow=workflow)
    needed = set(dag.needrun_jobs())
    untouched: set[Any] = set()  # jobs to run of which only times of files differ
    evidence = Evidence()
    jobs = stages_of(dag)
    records = planned(dag, jobs)
    if executor == "local" and not visible_gpus():
        records = [record.model_copy(update={"gpus": 0}) for record in records]
    for job, record in zip(jobs, records, strict=True):
        if job in needed:
            reasons = list(_reasons(job, dag.reason(job), persistence))
            after_changes = needed.intersection(dag.dependencies[job]) - untouched
            reasons = _without_times(job, reasons, persistence, evidence, after_changes=bool(after_changes))
            if {reason.why for reason in reasons} == {TIMES}:
                untouched.add(job)
            plan.jobs.append(Job(planned=record, reasons=reasons, snakemakes=job))
            continue
        plan.finished.append(record)
        if not persistence.has_metadata(job):
            differences = list(_differences_to_the_sidecar(job))
            plan.unrecorded.append(Job(planned=record, reasons=differences, snakemakes=job))
    return plan


def _dry_run(study: Path, profile: str) -> tuple[Any, str]:
    """Snakemake's workflow after a dry run in this process, and the executor that would run it."""
    arguments = ["--profile", profile, "--configfile", str(study), "--dry-run", "--quiet", "rules", "progress"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        snakemake_log.propagate = False
        try:
            parser, options = parse_args(arguments)
            success = args_to_api(options, parser)
        except SystemExit:
            success = False
    if not success or Journal.opened is None:
        what = "Snakemake cannot plan this study"
        next_step = f"snakemake --profile {profile} --configfile {study} --dry-run"
        raise PhrasemtError(what, where=study, found=" ".join(said.getvalue().split())[-1000:], next_step=next_step)
    return Journal.opened.workflow, options.executor


def _reasons(job: Any, reason: Any, persistence: Any) -> Iterator[Reason]:
    """Why a job runs. Snakemake looks no further once an earlier job runs; its own changes are shown all the same."""
    absent = [str(path) for path in job.output if not Path(path).is_file()]
    if absent:
        yield Reason(why=MISSING, what=absent[0]) if any(map(persistence.metadata, job.output)) else Reason(why=NEVER)
    elif reason._incomplete_output:
        yield Reason(why=UNFINISHED)
    else:
        yield from _changes(job, reason, persistence)
    if reason._updated_input_run:
        yield Reason(why=FOLLOWS)


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
        yield from found or [Reason(why=PARAMETERS, what=_short(", ".join(sorted(map(str, difference.only_new)))))]


def _without_times(
    job: Any, reasons: list[Reason], persistence: Any, evidence: Evidence, *, after_changes: bool
) -> list[Reason]:
    """The reasons, with TIMES for NEWER and FOLLOWS where the sidecars prove that no content differs.

    after_changes: whether a job before this one has to run, so that FOLLOWS stays.
    """
    kinds = {reason.why for reason in reasons}
    of_times = {NEWER} if after_changes else {NEWER, FOLLOWS}
    if not kinds & of_times or kinds & {NEVER, MISSING, UNFINISHED, INPUTS}:
        return reasons
    try:
        sidecar = evidence.check_outputs([str(path) for path in job.output])
    except PhrasemtError:
        return reasons
    same = evidence.made_of(sidecar, read_by(job))
    if not same or (not persistence.has_metadata(job) and any(_differences_to_the_sidecar(job))):
        return reasons
    return [*(reason for reason in reasons if reason.why not in of_times), Reason(why=TIMES)]


def read_by(job: Any) -> list[str]:
    """The files that a job of Snakemake reads. Snakemake calls files ancient that a job only waits for."""
    return [str(path) for path in job.input if not path.is_ancient]


def _differences_to_the_sidecar(job: Any) -> Iterator[Reason]:
    try:
        settings, code = Sidecar.beside(job.output[0]).valid_for
    except DamagedFileError:
        return
    for what in _differences(settings, json.loads(job.params.settings), ""):
        yield Reason(why=SETTINGS, what=what)
    if code != job.params.code:
        yield from [Reason(why=CODE, what=file) for file in _edited(job)] or [Reason(why=CODE)]


def _differences(old: Any, new: Any, place: str) -> Iterator[str]:
    """The values that differ, with their place: model.dropout: 0.1 -> 0.2."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                yield f"{place}{key}: {_short(old.get(key, '-'))} -> {_short(new.get(key, '-'))}"
            else:
                yield from _differences(old[key], new[key], f"{place}{key}.")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            names = {one[0] if isinstance(one, list) and one and isinstance(one[0], str) else None for one in pair}
            name = names.pop() if len(names) == 1 else None
            if name is None:
                yield from _differences(*pair, f"{place}{number}.")
            else:  # lists that begin with a name, such as a system with its title
                old_values, new_values = (one[1] if len(one) == 2 else one[1:] for one in pair)
                yield from _differences(old_values, new_values, f"{place}{name}.")
    elif isinstance(old, list) and isinstance(new, list):
        gone, added = [one for one in old if one not in new], [one for one in new if one not in old]
        yield f"{place[:-1]}: {' '.join([*(f'-{_short(one)}' for one in gone), *(f'+{_short(one)}' for one in added)])}"
    elif old != new:
        yield f"{place[:-1]}: {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = "/".join(value)  # a test set with its data set, a system with its title
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _edited(job: Any) -> list[str]:
    """Files of a stage's code that are others than in the run that made its outputs; none when its note is gone."""
    settings = STAGES[job.rule.name].model_validate_json(job.params.settings)
    now = module_digests(*settings.code_modules())
    output = Path(job.output[0])
    made = datetime.fromtimestamp(output.stat().st_mtime, UTC)
    for run in _runs(output.parts[1]):
        if run.started <= made and any(str(output) in other.outputs for other in run.jobs):
            return [module_file(module) for module, digest in now.items() if run.code.get(module) != digest]
    return []


@functools.cache
def _runs(study: str) -> list[RunNote]:
    """The notes of a study's runs, the last one first."""
    notes = [RunNote.read(path) for path in sorted(runs_folder(study).glob("*.json"), reverse=True)]
    return [note for note in notes if note]


def accept(plan: Plan, names: Sequence[str], note: str | None) -> list[Job]:
    """Accepts the changes of all jobs of a plan, or of those of these rules and artefacts; returns them.

    All of them or, when one cannot be, none: raises PhrasemtError for names without changes and while a run is going,
    DamagedFileError for outputs that are not as they were made, MismatchError for outputs made of other inputs.
    """
    chosen = _chosen(plan, names)
    persistence = plan.workflow.persistence
    if persistence.locked:
        next_step = "wait until it has ended (`phrasemt status`), or run `phrasemt unlock`; then again"
        raise PhrasemtError("a run is going in this folder, or was killed here", where=plan.study, next_step=next_step)
    evidence = Evidence()
    sidecars = [_checked(job, evidence) for job in chosen]
    for job, sidecar in zip(chosen, sidecars, strict=True):
        _record(job, sidecar, note)
        if any(reason.why == TIMES for reason in job.reasons):
            _set_times(job)
        asyncio.run(persistence.finished(job.snakemakes))
    return chosen


def _chosen(plan: Plan, names: Sequence[str]) -> list[Job]:
    changed = [job for job in plan.jobs if any(change.why in COSMETIC for change in job.changes)]
    # Without names: the others run whatever is accepted.
    chosen = changed if names else [job for job in changed if all(change.why in COSMETIC for change in job.changes)]
    if not chosen:
        what = "nothing to accept: no output differs only by settings, code or times of files"
        raise PhrasemtError(what, where=plan.study, found="outputs that only a run can make" if plan.jobs else None)
    of_names = {name: [job for job in chosen if _is_named(job, name)] for name in names}
    if unknown := [name for name, jobs in of_names.items() if not jobs]:
        raise PhrasemtError(
            "nothing to accept of this rule or artefact",
            where=", ".join(unknown),
            expected=f"one of {', '.join(dict.fromkeys(job.planned.rule for job in chosen))}, or a file of theirs",
            next_step="`phrasemt plan` shows what is changed",
        )
    return [job for job in chosen if not names or any(_is_named(job, name) for name in names)]


def _is_named(job: Job, name: str) -> bool:
    return name == job.planned.rule or os.path.relpath(name) in job.planned.outputs


def _checked(job: Job, evidence: Evidence) -> Sidecar:
    """The sidecar of a job's outputs, after comparing all outputs and inputs with it."""
    sidecar = evidence.check_outputs(job.planned.outputs)
    path = job.planned.outputs[0]
    if other := next((reason for reason in job.reasons if reason.why == INPUTS), None):
        raise MismatchError("made of other inputs", where=path, found=other.what, next_step="run the study")
    if changed := evidence.changed_inputs(sidecar):
        raise MismatchError(
            "made of an input that has other contents now", where=path, found=changed[0],
            next_step="run the study; a changed input is no cosmetic change",
        )  # fmt: skip
    return sidecar


def _set_times(job: Job) -> None:
    """Make no output older than an input, so that Snakemake takes none of the inputs for newer."""
    inputs = [Path(path) for path in read_by(job.snakemakes)]
    newest = max((path.stat().st_mtime_ns for path in inputs if path.is_file()), default=0)  # intermediates are deleted
    for path in job.planned.outputs:
        if (status := Path(path).stat()).st_mtime_ns < newest:
            os.utime(path, ns=(status.st_atime_ns, newest))


def _record(job: Job, sidecar: Sidecar, note: str | None) -> None:
    params = job.snakemakes.params
    settings, code = json.loads(params.settings), params.code
    if sidecar.valid_for == (settings, code):
        return  # a changed entry of a registry, or an earlier `--accept` that was killed after this
    changes = [str(change) for change in job.changes]
    entry = Acceptance(when=now().isoformat(), changes=changes, settings=settings, code=code, note=note or None)
    accepted = sidecar.model_copy(update={"accepted": (*sidecar.accepted, entry)})
    for path in job.planned.outputs:
        accepted.write(sidecar_path(path))
