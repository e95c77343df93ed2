"""The check of a whole study: each artefact against its sidecar, and against its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.sidecar import Evidence
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.runs.notes import PlannedJob


def verify(finished: Sequence[PlannedJob], others: Sequence[PlannedJob]) -> tuple[int, list[PhrasemtError]]:
    """The number of outputs of some jobs, and an error for each that differs from its sidecar or from its inputs.

    Outputs of finished jobs are compared with their inputs, too. An input that is itself an artefact with an error is
    reported once. The others run anyway when their inputs have changed.
    """
    evidence = Evidence()
    outputs = [path for job in (*finished, *others) for path in job.outputs if Path(path).is_file()]
    errors: dict[str, PhrasemtError] = {}
    for path in outputs:
        try:
            evidence.check_output(path)
        except PhrasemtError as error:
            errors[path] = error
        except OSError as error:
            next_step = "repair it, or delete it and run the study"
            errors[path] = DamagedFileError("cannot be read", where=path, found=error, next_step=next_step)
    different = frozenset(errors)
    for job in finished:
        # Snakemake deletes intermediates.
        there = [path for path in job.outputs if Path(path).is_file()]
        for path in there if different.isdisjoint(there) else ():
            sidecar = evidence.check_output(path)
            changed = [one for one in evidence.changed_inputs(sidecar) if one not in different]
            if changed:
                what, found = "made of an input that has other contents now", ", ".join(changed)
            elif sidecar.files_written != set(job.outputs):
                what, found = "made for another place, or together with other files", sidecar.stage
            else:
                continue
            errors[path] = MismatchError(what, where=path, found=found, next_step="delete it and run the study")
    return len(outputs), list(errors.values())
