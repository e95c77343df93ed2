"""The check of a whole study: each artefact against its sidecar."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.runs.evidence import Evidence
from phrasemt.runs.plan import Plan


@dataclass
class Verified:
    """files: number of artefacts; errors: one for each artefact that differs from its sidecar, or from its inputs."""

    files: int = 0
    errors: list[PhrasemtError] = field(default_factory=list)


def verify(plan: Plan) -> Verified:
    """Compare the artefacts of a study with their sidecars.

    Outputs of finished jobs are compared with their inputs, too. An input that is itself an artefact with an error is
    reported once, and other jobs run anyway when their inputs have changed.
    """
    evidence, result, different = Evidence(), Verified(), set[str]()
    jobs = [*plan.finished, *(job.planned for job in plan.jobs)]
    for path in (path for job in jobs for path in job.outputs if Path(path).is_file()):
        result.files += 1
        try:
            evidence.check_output(path)
        except PhrasemtError as error:
            different.add(path)
            result.errors.append(error)
        except OSError as error:
            different.add(path)
            result.errors.append(
                DamagedFileError(
                    "cannot be read", where=path, found=error, next_step="repair it, or delete it and run the study"
                )
            )
    for job in plan.finished:
        outputs = [path for path in job.outputs if Path(path).is_file()]  # Snakemake deletes intermediates
        if not different.intersection(outputs):
            result.errors += _misfits(job.outputs, outputs, evidence, different)
    return result


def _misfits(
    declared: Sequence[str], outputs: Sequence[str], evidence: Evidence, different: Set[str]
) -> list[PhrasemtError]:
    """The outputs of a job that do not belong together, or not to the job's inputs; one error for each."""
    errors: list[PhrasemtError] = []
    for path in outputs:
        sidecar = evidence.check_output(path)
        changed = [one for one in evidence.changed_inputs(sidecar) if one not in different]
        if changed:
            what, found = "made of an input that has other contents now", ", ".join(changed)
        elif {file.path for file in sidecar.outputs.values()} != set(declared):
            what, found = "made for another place, or together with other files", sidecar.stage
        else:
            continue
        errors.append(MismatchError(what, where=path, found=found, next_step="delete it and run the study"))
    return errors
