"""What sidecars prove: that files are the files that stages wrote, and made of the inputs that are there now.

Times of files prove nothing: a copy of a folder has other times, and an edit can keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.files.digests import digest_file
from phrasemt.files.sidecars import Sidecar
from phrasemt.runs.notes import PlannedJob


class Evidence:
    """Compares artefacts with their sidecars. It reads each file once, so files must not change meanwhile."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def check_output(self, path: str) -> Sidecar:
        """The sidecar of an artefact that is the file that its stage wrote. Raises DamagedFileError for another."""
        sidecar = Sidecar.read(path)
        sidecar.check(Path(path), self._digest(path))
        return sidecar

    def check_outputs(self, paths: Sequence[str]) -> Sidecar:
        """The sidecar of all outputs of a job.

        Raises DamagedFileError as `check_output`, and MismatchError if they were made together with other files.
        """
        for path in paths:
            sidecar = self.check_output(path)
            if {file.path for file in sidecar.outputs.values()} != set(paths):
                raise MismatchError(
                    "made for another place, or together with other files",
                    where=path,
                    found=sidecar.stage,
                    next_step="delete it and run the study",
                )
        return sidecar

    def changed_inputs(self, sidecar: Sidecar) -> list[str]:
        """The inputs that have other contents than when the artefact was made. Deleted inputs do not count."""
        there = [file for file in sidecar.files_read if Path(file.path).is_file()]
        return [file.path for file in there if self._digest(file.path) != file.sha256]

    def made_of(self, sidecar: Sidecar, inputs: Iterable[str]) -> bool:
        """Whether an artefact was made of these inputs with these contents."""
        return {file.path for file in sidecar.files_read} == set(inputs) and not self.changed_inputs(sidecar)

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = digest_file(path)
        return self._digests[path]


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
            elif {file.path for file in sidecar.outputs.values()} != set(job.outputs):
                what, found = "made for another place, or together with other files", sidecar.stage
            else:
                continue
            errors[path] = MismatchError(what, where=path, found=found, next_step="delete it and run the study")
    return len(outputs), list(errors.values())
