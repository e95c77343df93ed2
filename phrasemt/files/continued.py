"""An output that is made in parts, one for each block of input lines: an interrupted command goes on where it was.

The finished parts are in `<output>.part`. `<output>.part.json` says how many lines they were made of, the sha256 of
these lines, and what else decided the output. Snakemake and caches of calls such as joblib's repeat an unfinished file
from its beginning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.files.exclusive import try_lock
from phrasemt.files.lines import check_replaceable, write_text

FORMAT = 1


@contextlib.contextmanager
def continued_output(path: Path, made_of: object) -> Iterator[ContinuedOutput]:
    """Give the output that an earlier command began, or a new one. It gets its name when the block ends without error.

    made_of: JSON value of what decides the output besides the input. Raises MismatchError when the finished parts were
    made of something else, PhrasemtError while another process makes this output and as `check_replaceable`.
    """
    check_replaceable(path)
    part, note = parts_of(path)
    begun = part.is_file() and note.is_file()
    with part.open("ab") as stream:
        if not try_lock(stream):
            next_step = "wait for it, or name another output"
            raise PhrasemtError("another process writes this file", where=part, next_step=next_step)
        output = ContinuedOutput(stream.fileno(), note, made_of)
        if begun:
            output.restore()
        os.ftruncate(stream.fileno(), output.size)
        yield output
        os.fsync(stream.fileno())
        part.replace(path)
        note.unlink(missing_ok=True)


def parts_of(path: Path) -> tuple[Path, Path]:
    """The finished parts of an output, and what they were made of."""
    return path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")


class ContinuedOutput:
    """An unfinished output, made by `continued_output`.

    lines: number of input lines whose output is there. size: of the output, in bytes.
    """

    def __init__(self, descriptor: int, note: Path, made_of: object) -> None:
        self._descriptor, self._note, self._made_of = descriptor, note, made_of
        self._read = hashlib.sha256()
        self._done = self._read.hexdigest()  # digest of the lines whose output is there
        self.lines = self.size = 0

    def restore(self) -> None:
        """Take over the parts of an earlier command. Raises MismatchError when they were made of something else."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            known = note["format"] == FORMAT and note["size"] <= os.fstat(self._descriptor).st_size
            known = known and note["made_of"] == self._made_of
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            raise self._mismatch("an unfinished output of another model or of other settings is here")
        self.lines, self.size, self._done = note["lines"], note["size"], note["input"]

    def left(self, blocks: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """The blocks of input without the lines whose output is there.

        Raises MismatchError when these lines are not the lines that the output was made of.
        """
        behind = self.lines
        for block in blocks:
            known, new = block[:behind], block[behind:]
            self._count(known)
            behind -= len(known)
            if not behind and known:
                self._check_input()
            if new:
                yield new
        if behind:
            self._check_input()

    def add(self, lines: Sequence[bytes], output: bytes) -> None:
        """Append the output of lines that `left` gave. After a kill the command goes on behind the last whole part."""
        self._count(lines)
        write_all(self._descriptor, output)
        os.fsync(self._descriptor)
        self.lines += len(lines)
        self.size += len(output)
        self._done = self._read.hexdigest()
        note = {"format": FORMAT, "lines": self.lines, "size": self.size, "input": self._done, "made_of": self._made_of}
        write_text(self._note, json.dumps(note, indent=1) + "\n")

    def _count(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._read.update(line + b"\n")

    def _check_input(self) -> None:
        if self._read.hexdigest() != self._done:
            raise self._mismatch(f"an unfinished output of other input is here; it has {self.lines} lines")

    def _mismatch(self, what: str) -> MismatchError:
        part = self._note.with_suffix("")
        return MismatchError(
            what, where=part, next_step=f"repeat the command that began it, or delete {part.name} and {self._note.name}"
        )


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes without a buffer, so that an error is raised here and not when Python ends."""
    while data:
        data = data[os.write(descriptor, data) :]
