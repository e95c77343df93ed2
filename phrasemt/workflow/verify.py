"""The check of a whole study: each artefact against its sidecar."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.workflow.evidence import Evidence
from phrasemt.workflow.plan import Plan


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
    for job in plan.finished:
        path = job.outputs[0]
        if path in different:
            continue
        for changed in evidence.changed_inputs(evidence.check_output(path)):
            if changed not in different:
                result.errors.append(
                    MismatchError(
                        "made of an input that has other contents now",
                        where=path,
                        found=changed,
                        next_step="delete it and run the study",
                    )
                )
    return result
