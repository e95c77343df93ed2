"""Errors that a user can cause. The command line prints each one as one line: where, what, expected, found, next step.

Any other exception is a bug in phrasemt and keeps its traceback.
"""

from __future__ import annotations

import difflib
import errno
import signal
import traceback
from collections.abc import Iterable


class PhrasemtError(Exception):
    """Base of the errors that end a command with one line and exit code 2, without a traceback."""

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
        details = [f"{name} {value}" for name, value in (("expected", expected), ("found", found)) if value is not None]
        line = what if where is None else f"{where}: {what}"
        if details:
            line += f" ({', '.join(details)})"
        if next_step:
            line += f"{'' if line.endswith('?') else '.'} Next: {next_step}"
        super().__init__(line.replace("\n", "\\n"))


class StudyError(PhrasemtError):
    """A study file with mistakes; the message lists all of them, one line each."""

    def __init__(self, where: object, problems: list[str]) -> None:
        self.problems = problems
        super().__init__(f"{len(problems)} mistake{'s' if len(problems) > 1 else ''} in the study", where=where)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  - {problem}" for problem in self.problems)])


class DataError(PhrasemtError):
    """Texts, corpora or annotations of your own that phrasemt cannot use."""


class DownloadError(PhrasemtError):
    """A download that failed, or brought another file than the registry describes."""


class DamagedFileError(PhrasemtError):
    """A file that phrasemt wrote and that is incomplete, altered or of another format version."""


class MismatchError(PhrasemtError):
    """Artefacts that do not belong together, such as weights and a vocabulary of different data sets."""


def check_equal(expected: object, found: object, what: str, *, where: object = None, next_step: str) -> None:
    """Raise MismatchError (`what`) unless what was found equals what is expected."""
    if found != expected:
        raise MismatchError(what, where=where, expected=expected, found=found, next_step=next_step)


def check_digest(expected: str | None, found: str | None, what: str, *, where: object, next_step: str) -> None:
    """Raise MismatchError (`what`) unless two sha256 are equal. The message holds their first 12 digits."""
    if found != expected:
        expected, found = (f"sha256 {digest[:12]}" if digest else "none" for digest in (expected, found))
        raise MismatchError(what, where=where, expected=expected, found=found, next_step=next_step)


class StoppedError(PhrasemtError):
    """Work that stopped on request after it saved its state. The same command continues it."""

    exit_code = 85


def lacks_memory(error: BaseException) -> bool:
    """Whether memory ran out, of this machine or of a GPU: errors of Python, of the system, and of torch."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    names = {kind.__name__ for kind in type(error).__mro__}
    return (
        isinstance(error, MemoryError)
        or "OutOfMemoryError" in names
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


own_code: set[str] = set()
"""The files of families of your own that this process has imported."""


def in_own_code(error: BaseException) -> str | None:
    """The file and line of your own code at which an error arose; None for an error elsewhere."""
    if isinstance(error, SyntaxError) and error.filename in own_code:
        return f"{error.filename}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own_code]
    return f"{frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else None


def did_you_mean(name: str, allowed: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: the nearest of the allowed names, or nothing if none is near."""
    near = difflib.get_close_matches(name.lower(), allowed, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


_NEXT_STEPS = {
    errno.ENOENT: "check the name",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "name a folder",
    errno.ENAMETOOLONG: "name a file with a shorter name",
    errno.EACCES: "ask the owner for the permission, or name another place",
    errno.EPERM: "ask the owner for the permission, or name another place",
    errno.EROFS: "name a place that can be written to",
}


def message_of(error: BaseException) -> str:
    """The message of an error that ended a command, with the next step."""
    if isinstance(error, PhrasemtError):
        return str(error)
    if lacks_memory(error):
        said = str(error).split("\n", 1)[0]
        return f"memory ran out{f' ({said})' if said else ''}. Next: run again with fewer cores or more memory"
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what, next_step = "the disk is full; nothing half-written was kept", "free space and run again"
        else:
            what = (error.strerror or str(error)).lower()
            next_step = _NEXT_STEPS.get(error.errno or 0, "fix this and run again")
        return str(PhrasemtError(what, where=error.filename or None, next_step=next_step))
    if place := in_own_code(error):
        next_step = "correct it; `phrasemt check STUDY` tries the model"
        return str(PhrasemtError(f"{type(error).__name__}: {error}", where=place, next_step=next_step))
    if isinstance(error, Exception):
        return f"a mistake in phrasemt, not of yours: {error!r}. Next: report it, with the log"
    code = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else getattr(error, "code", None)
    names = {128 + signum: signum.name for signum in signal.Signals}
    return f"stopped by {names[code]}. Next: the same command" if code in names else repr(error)
