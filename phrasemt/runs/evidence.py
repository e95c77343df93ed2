"""What sidecars prove: that files are the files that stages wrote, and made of the inputs that are there now.

Times of files prove nothing: a copy of a folder has other times, and an edit can keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from phrasemt.errors import MismatchError
from phrasemt.files.digests import digest_file
from phrasemt.files.sidecars import Sidecar


class Evidence:
    """Compares artefacts with their sidecars. It reads each file once, so files must not change meanwhile."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """The sha256 of a file."""
        if path not in self._digests:
            self._digests[path] = digest_file(path)
        return self._digests[path]

    def check_output(self, path: str) -> Sidecar:
        """The sidecar of an artefact that is the file that its stage wrote. Raises DamagedFileError for another."""
        sidecar = Sidecar.read(path)
        sidecar.check(Path(path), self.digest(path))
        return sidecar

    def check_outputs(self, paths: Sequence[str]) -> Sidecar:
        """The sidecar of all outputs of a job.

        Raises DamagedFileError as `check_output`, and MismatchError if they were made together with other files.
        """
        for path in paths:
            sidecar = self.check_output(path)
            if {file.path for file in sidecar.outputs.values()} != set(paths):
                raise MismatchError("made together with other files than now", where=path, next_step="run the study")
        return sidecar

    def changed_inputs(self, sidecar: Sidecar) -> list[str]:
        """The inputs that have other contents than when the artefact was made. Deleted inputs do not count."""
        there = [file for file in sidecar.files_read if Path(file.path).is_file()]
        return [file.path for file in there if self.digest(file.path) != file.sha256]

    def made_of(self, sidecar: Sidecar, inputs: Iterable[str]) -> bool:
        """Whether an artefact was made of these inputs with these contents."""
        return {file.path for file in sidecar.files_read} == set(inputs) and not self.changed_inputs(sidecar)
