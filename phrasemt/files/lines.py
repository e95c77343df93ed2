"""Text files: all reading and writing of text in the project.

A line ends only at "\\n". `str.splitlines` also splits at form feeds, U+0085 and U+2028, which shifts one side of a
parallel corpus against the other. A byte order mark at the beginning of a file is no text, and no line is longer than
1 MiB. The sides of a corpus are read in strict pairs. Files are written under a temporary name in the same folder and
then renamed, so a reader sees the old file or the new one, never a part of it.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import functools
import gzip
import io
import itertools
import os
import re
import secrets
import select
import shutil
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from phrasemt.errors import DataError, PhrasemtError

# Bytes. No sentence is as long. Without a limit, a file without line breaks would fill the memory.
LONGEST_LINE = 1 << 20
_BLOCK = 1 << 18  # bytes
# A pipe is asked again for this long before its lines count as a block: `cat` needs less to refill it, and somebody
# who waits for an answer does not notice.
_PATIENCE = 0.05  # seconds
_PIECE = 1 << 20  # bytes
_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENODEV)
_SILENCE = 3600  # seconds without a write. Locks of some mounts (local_lock of NFS) do not reach other machines.


@contextlib.contextmanager
def open_binary(path: Path | str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; a file whose name ends in `.gz` is unpacked.

    Raises DataError if the file is missing or cannot be read, or if its compression is broken.
    """
    path = Path(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise DataError("no such file", where=path, next_step="check the path") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            "the compressed file is damaged or cut off", where=path, found=error, next_step="fetch the file again"
        ) from None
    except (IsADirectoryError, PermissionError) as error:
        raise DataError(
            "cannot be read", where=path, found=error.strerror, next_step="name a file that you may read"
        ) from None


def bounded_lines(stream: IO[bytes], where: object) -> Iterator[bytes]:
    """The lines of a stream with their "\\n". where: name of the stream. Raises DataError for a line over 1 MiB."""
    lines = iter(functools.partial(stream.readline, LONGEST_LINE + 1), b"")  # a longer line comes in pieces
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            check_length(line, where, number)
        yield line


def check_length(line: bytes, where: object, number: int) -> None:
    """Raise DataError if a line is longer than 1 MiB. where: name of the stream; number: of the line."""
    if len(line.removesuffix(b"\n")) > LONGEST_LINE:
        what, next_step = "this line is too long for a sentence", "give text with one sentence per line"
        raise DataError(
            what, where=f"{where}, line {number}", expected=f"at most {LONGEST_LINE:,} bytes", next_step=next_step
        )


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file (or `.gz`) without their "\\n". A last line without "\\n" counts as a line.

    Raises DataError, with file and line, for bytes that are not UTF-8 and for a line of more than 1 MiB.
    """
    for block in read_blocks(path):
        yield from block.lines()


@dataclass(frozen=True)
class LineBlock:
    """Consecutive lines of a file as bytes, cheap to send to another process. first: number of the first line."""

    path: Path | str
    first: int
    data: bytes

    def lines(self) -> list[str]:
        """The lines without their "\\n". Raises DataError, with file and line, for bytes that are not UTF-8."""
        data = self.data.removeprefix(codecs.BOM_UTF8) if self.first == 1 else self.data
        try:
            return data.removesuffix(b"\n").decode("utf-8").split("\n")
        except UnicodeDecodeError:
            return list(decode_lines(io.BytesIO(self.data), self.path, first=self.first))  # raises


def read_blocks(path: Path | str) -> Iterator[LineBlock]:
    """The lines of a file (or `.gz`) in blocks of at least 256 KiB; the last block may be smaller.

    Raises DataError, with file and line, for a line of more than 1 MiB.
    """
    first = 1
    with open_binary(path) as stream:
        while data := stream.read(_BLOCK):
            data += stream.readline(LONGEST_LINE + 1)
            if len(data) > LONGEST_LINE:
                check_length(data[data.rfind(b"\n", 0, _BLOCK) + 1 :], path, first + data.count(b"\n", 0, _BLOCK))
            yield LineBlock(path, first, data)
            first += data.count(b"\n")


def blocks_of_lines(descriptor: int, where: object, *, lines: int) -> Iterator[list[bytes]]:
    """The lines of a file, a pipe or a keyboard without their "\\n", at most `lines` in a block.

    A block ends early when the stream has no more lines yet, so a program that writes a line and waits for an answer
    gets one; Python's own buffered reader waits for a full block, or gives one line at a time. The blocks of a file are
    full, apart from the last. A last line without "\\n" counts as a line.
    descriptor: of the stream. Raises DataError, with the name `where` of the stream, for a line of more than 1 MiB.
    """
    block: list[bytes] = []
    rest, count, ended = b"", 0, False
    while not ended:
        if block and not select.select([descriptor], [], [], _PATIENCE)[0]:
            yield block
            block = []
        piece = os.read(descriptor, _PIECE)
        ended = not piece
        *whole, rest = (rest + piece).split(b"\n")
        if ended and rest:
            whole, rest = [rest], b""
        for number, line in enumerate((*whole, rest), start=count + 1):
            check_length(line, where, number)
        count += len(whole)
        block += whole
        while len(block) >= lines:
            yield block[:lines]
            block = block[lines:]
    if block:
        yield block


def decode_lines(lines: Iterable[bytes], where: object, *, first: int = 1) -> Iterator[str]:
    """Decode the lines of a binary stream and strip their "\\n", and a byte order mark in front of line 1.

    first: number of the first line.

    Raises DataError, with the name `where` of the stream and the line, for bytes that are not UTF-8.
    """
    for number, line in enumerate(lines, start=first):
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        try:
            yield line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                "not UTF-8",
                where=f"{where}, line {number}, byte {error.start + 1}",
                expected="UTF-8 text",
                found=f"bytes {line[error.start : error.start + 4].hex(' ')}",
                next_step="convert the file to UTF-8 (iconv) or remove the line on both sides",
            ) from None


def read_parallel(*paths: Path | str) -> Iterator[tuple[str, ...]]:
    """The lines of several files as tuples.

    Raises DataError, with the numbers of lines, if the files have unequal numbers of lines.
    """
    for blocks in read_parallel_blocks(*paths, lines=1000):
        yield from zip(*(block.lines() for block in blocks), strict=True)


def read_parallel_blocks(*paths: Path | str, lines: int) -> Iterator[tuple[LineBlock, ...]]:
    """The lines of several files in tuples of blocks of `lines` lines; the last blocks may be shorter.

    Raises DataError, with the numbers of lines, if the files have unequal numbers of lines, and as `read_lines`.
    """
    with contextlib.ExitStack() as stack:
        # Each file is opened and read in a generator of its own, so that the error about it names it.
        sides = [stack.enter_context(contextlib.closing(_lines_of(path))) for path in paths]
        for first in itertools.count(1, lines):
            parts = [b"".join(itertools.islice(side, lines)) for side in sides]
            if len({part.count(b"\n") + (part[-1:] not in (b"", b"\n")) for part in parts}) > 1:
                counts = {str(path): count_lines(path) for path in paths}
                raise DataError(
                    "the sides of a parallel text have unequal numbers of lines",
                    where=", ".join(counts),
                    expected="the same number of lines in each file",
                    found=" and ".join(str(count) for count in counts.values()),
                    next_step="restore the missing line; phrasemt never cuts the longer side",
                )
            if not parts[0]:
                return
            yield tuple(LineBlock(path, first, part) for path, part in zip(paths, parts, strict=True))


def _lines_of(path: Path | str) -> Generator[bytes]:
    with open_binary(path) as stream:
        yield from bounded_lines(stream, path)


def sentence_name(split: str, row: int) -> str:
    """The name of a sentence for readers, who count from 1: `test:18` is in row 17, counted from 0."""
    return f"{split}:{row + 1}"


def count_lines(path: Path | str) -> int:
    """Number of lines of a file (or `.gz`). A last line without "\\n" counts as a line."""
    count, last = 0, b"\n"
    with open_binary(path) as stream:
        while block := stream.read(1 << 20):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def temporary_beside(path: Path | str) -> Path:
    """A new temporary name for an unfinished file or folder, in the folder of its path."""
    path = Path(path)
    return path.with_name(f".{path.name}.{secrets.randbelow(10**12)}.part")


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left of a file or folder under temporary names. Living ones write or have locks."""
    leftover, entries = re.compile(rf"\.{re.escape(path.name)}\.\d+\.part"), list[Path]()
    with contextlib.suppress(OSError):  # no folder, or one that may not be listed
        entries = [entry for entry in path.parent.iterdir() if leftover.fullmatch(entry.name)]
    for entry in entries:
        with contextlib.suppress(OSError):  # locked, gone, of another user, or a file system without locks
            if time.time() - entry.stat().st_mtime > _SILENCE:
                with _locked(os.open(entry, os.O_RDONLY)):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@contextlib.contextmanager
def _locked(file: int) -> Iterator[None]:
    """Lock an open file or folder in the block, and close it. Raises OSError if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def final_name(path: Path | str) -> Path:
    """The path whose temporary name (`temporary_beside`) is given; any other path is returned unchanged."""
    path = Path(path)
    unfinished = re.fullmatch(r"\.(.+)\.\d+\.part", path.name)
    return path.with_name(unfinished[1]) if unfinished else path


def check_replaceable(path: Path | str) -> None:
    """Raise PhrasemtError for a folder and for a device such as /dev/null, which root could replace by a file."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise PhrasemtError(
            "a finished file would replace what is here",
            where=path,
            expected="a file, or a free name",
            found="a folder" if path.is_dir() else "a device or a pipe",
            next_step="name another output; without --output, commands write to standard output",
        )


def commit_files(finals: Mapping[Path, Path]) -> None:
    """Write temporary files through to the disk, then rename them to their final paths: all or, on errors, none.

    A full disk shows itself before the first file has its name. Raises PhrasemtError as `check_replaceable`.
    """
    for temporary, path in finals.items():
        check_replaceable(path)
        flush_to_disk(temporary)
    renamed = []
    try:
        for temporary, path in finals.items():
            temporary.replace(path)
            renamed.append(path)
    except OSError:
        for path in renamed:
            path.unlink(missing_ok=True)
        raise


def flush_to_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


@contextlib.contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Name this file in errors of the system about writing and mapping it, which name none themselves."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _NAMELESS:
            error.filename = str(final_name(path))
        raise


@contextlib.contextmanager
def write_atomic(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a binary stream for writing. The file appears as `path` when the block ends without an error.

    Raises PhrasemtError as `check_replaceable`.
    """
    path = Path(path)
    check_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        with errors_of(path), temporary.open("wb") as stream:
            with contextlib.suppress(OSError):  # no locks here
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield stream
        commit_files({temporary: path})
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder, which gets its name when the block ends without an error.

    Raises PhrasemtError if the folder is there already.
    """
    if folder.exists():
        raise PhrasemtError("the folder is there already", where=folder, next_step="name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(folder)
    temporary.mkdir()
    try:
        with contextlib.ExitStack() as lock:
            with contextlib.suppress(OSError):  # no locks here
                lock.enter_context(_locked(os.open(temporary, os.O_RDONLY)))
            yield temporary
            for path in temporary.rglob("*"):
                if path.is_file():
                    flush_to_disk(path)
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path | str, text: str) -> None:
    with write_atomic(path) as stream:
        stream.write(text.encode("utf-8"))


def write_lines(path: Path | str, lines: Iterable[str]) -> int:
    """Write lines as UTF-8, each with "\\n" at its end, atomically; returns the number of lines.

    Raises ValueError for a line that contains "\\n": it would shift all later lines.
    """
    count = 0
    with write_atomic(path) as stream:
        for line in lines:
            if "\n" in line:
                raise ValueError(f"line {count + 1} for {path} holds a line break: {line[:80]!r}")
            stream.write(line.encode("utf-8") + b"\n")
            count += 1
    return count
