"""The programs of Moses: where they are, which ones they are, and how they are run.

The variable PHRASEMT_MOSES names a folder with `bin/` and `scripts/`, as `make moses` builds it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.files.system import digest_file

log = logging.getLogger("phrasemt.moses")

MOSES = "PHRASEMT_MOSES"
VERSION_FILE = "VERSION"  # of `make moses`: a line `<repository> <commit>` for each source
_NEXT = f"build it (`make moses`, 25 minutes) and name its folder in {MOSES}; see docs/howto/moses.md"
# Moses' scripts paste paths into shell commands, and moses.ini separates its values by blanks.
_PLAIN_PATH = re.compile(r"[\w./+,=@%:-]+", re.ASCII)
# Shell pipelines inside Moses' scripts end well although a part of them failed, so messages count as failures, too.
_FAILED = re.compile(
    "No space left on device|Disk quota exceeded|write failed|write error|[Cc]annot allocate memory|std::bad_alloc"
    "|Segmentation fault|^Died at "
)


def moses_folder() -> Path:
    """The folder of Moses, absolute. Raises PhrasemtError if none is named, and if it is no such folder."""
    named = os.environ.get(MOSES)
    if not named:
        raise PhrasemtError("this stage needs Moses, and no folder of it is named", where=MOSES, next_step=_NEXT)
    folder = Path(named).resolve()
    if not (folder / "bin").is_dir() or not (folder / "scripts").is_dir():
        raise PhrasemtError(
            "no installation of Moses", where=f"{MOSES}={named}", expected="a folder with bin/ and scripts/",
            found="another folder" if folder.is_dir() else "no such folder", next_step=_NEXT,
        )  # fmt: skip
    return folder


def program(name: str) -> Path:
    """A program of Moses by its path in the folder, such as bin/lmplz. Raises PhrasemtError if it is missing."""
    folder = moses_folder()
    path = folder / name
    if not os.access(path, os.X_OK) or not path.is_file():
        what = f"this Moses has no {name} that can be executed"
        next_step = f"{_NEXT}. Packages of Moses are often without KenLM's lmplz and fast_align"
        raise PhrasemtError(what, where=f"{MOSES}={folder}", next_step=next_step)
    return path


def program_versions(names: Sequence[str]) -> dict[str, str]:
    """What sidecars record of the programs that a stage runs: the commits, and the sha256 of each program.

    Raises PhrasemtError as `program`, so that a stage with a missing program ends before it works.
    """
    if not names:
        return {}
    digests = {name: f"sha256 {digest_file(program(name))}" for name in names}
    versions = moses_folder() / VERSION_FILE
    commits = versions.read_text(encoding="utf-8").split("\n") if versions.is_file() else []
    return dict(line.split(" ", 1) for line in commits if " " in line) | digests


def run(
    name: str,
    *arguments: object,
    work: Path,
    stdin: Path | None = None,
    stdout: Path | None = None,
    kept_open: Sequence[int] = (),
) -> str:
    """Run a program of Moses to its end; returns its messages: what it wrote to stderr, and to stdout without a file.

    work: the folder for the file of its messages. kept_open: file descriptors that it inherits. Paths are made
    absolute, LC_ALL is C. All processes that the program starts end with this one.
    Raises PhrasemtError for a failure, whose last messages are logged.
    """
    messages = work / f"{Path(name).stem}.messages"
    command = [str(_plain(program(name))), *(str(_plain(a) if isinstance(a, Path) else a) for a in arguments)]
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
        errors = stack.enter_context(messages.open("wb"))
        target = stack.enter_context(stdout.open("wb")) if stdout else errors
        # A session of its own, so that the programs that a script starts can be ended together with it.
        with subprocess.Popen(
            command, stdin=source, stdout=target, stderr=errors, env={**os.environ, "LC_ALL": "C"},
            start_new_session=True, pass_fds=tuple(kept_open),
        ) as process:  # fmt: skip
            try:
                code = process.wait()
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    output = messages.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in output.split("\n")]
    failures = [line for line in lines if _FAILED.search(line)]
    if code or failures:
        for line in lines[-20:]:
            log.error("%s: %s", Path(name).stem, line[:500])
        reason = (failures or [line for line in lines if line] or ["no message"])[-1]
        next_step = "see the lines above in the log of this stage"
        raise PhrasemtError(f"{name} of Moses failed", found=f"exit code {code}, {reason[:300]!r}", next_step=next_step)
    return output


def _plain(path: Path) -> Path:
    absolute = path.absolute()
    if not _PLAIN_PATH.fullmatch(str(absolute)):
        what = "Moses reads no path with blanks or special characters of the shell"
        raise PhrasemtError(what, where=absolute, next_step="run the study in a folder with a plain name")
    return absolute
