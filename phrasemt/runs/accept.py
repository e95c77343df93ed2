"""Letting outputs count as made by the settings and code of now, because a person says that the change is cosmetic.

The sidecars keep how the outputs were made, and note beside it what they were accepted for, when and why. Snakemake's
record is written by Snakemake itself, as after a run. Sidecars come first, so a kill in between accepts nothing unsaid.
Outputs of which only the times differ, as after a copy of the folder, get later times and no note. `--touch` and
`--cleanup-metadata` of Snakemake compare no contents, and the sidecars would know nothing of it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.sidecar import Acceptance, Evidence, Sidecar, sidecar_path
from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.runs.notes import now
from phrasemt.runs.plan import COSMETIC, INPUTS, TIMES, Job, Plan, read_by


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
        _note(job, sidecar, note)
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


def _note(job: Job, sidecar: Sidecar, note: str | None) -> None:
    params = job.snakemakes.params
    settings, code = json.loads(params.settings), params.code
    if sidecar.valid_for == (settings, code):
        return  # a changed entry of a registry, or an earlier `--accept` that was killed after this
    changes = [str(change) for change in job.changes]
    entry = Acceptance(when=now().isoformat(), changes=changes, settings=settings, code=code, note=note or None)
    noted = sidecar.model_copy(update={"accepted": (*sidecar.accepted, entry)})
    for path in job.planned.outputs:
        noted.write(sidecar_path(path))
