"""The errors a user can cause. Each is shown as one line that says where, what, expected, found and what to do next.

Everything else that is raised is a mistake of ours and keeps its traceback.
"""

from __future__ import annotations

import errno


class PhrasemtError(Exception):
    """Base of all errors that end in one line and exit code 2, without a traceback."""

    exit_code = 2

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        found: object = None,
        next_step: str | None = None,
    ) -> None:
        self.what, self.where, self.expected, self.found, self.next_step = what, where, expected, found, next_step
        super().__init__(self._line())

    def _line(self) -> str:
        line = f"{self.where}: {self.what}" if self.where is not None else self.what
        details = [
            f"{name} {value}"
            for name, value in (("expected", self.expected), ("found", self.found))
            if value is not None
        ]
        if details:
            line += f" ({', '.join(details)})"
        if self.next_step:
            line += f". Next: {self.next_step}"
        return line.replace("\n", "\\n")


class StudyError(PhrasemtError):
    """A study file with mistakes: all of them at once, one line each."""

    def __init__(self, where: object, problems: list[str]) -> None:
        self.problems = problems
        super().__init__(f"{len(problems)} mistake{'s' if len(problems) > 1 else ''} in the study", where=where)

    def __str__(self) -> str:
        return "\n".join([self._line(), *(f"  - {problem}" for problem in self.problems)])


class DataError(PhrasemtError):
    """Input text, corpora or annotations that cannot be used as they are."""


class DownloadError(PhrasemtError):
    """A corpus that could not be fetched, or is not the one the registry describes."""


class DamagedFileError(PhrasemtError):
    """An artefact of ours that is incomplete, altered or of another format version."""


class MismatchError(PhrasemtError):
    """Two artefacts that do not belong together: a checkpoint of another study, a vocabulary of another data set."""


class StoppedError(PhrasemtError):
    """Work that stopped on request and saved its state: no mistake, but not finished; the same command goes on."""

    exit_code = 85


def message_of(error: BaseException) -> str:
    """What a user is told of an error that ended a command, with the next step."""
    if isinstance(error, PhrasemtError):
        return str(error)
    if isinstance(error, OSError):
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return f"{error}. Next: mend this and run again"
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}the disk is full; nothing half-written was kept. Next: free space and run again"
    if isinstance(error, Exception):
        return f"a mistake in phrasemt, not of yours: {error!r}. Next: report it, with the log"
    return repr(error)
