"""The only reader and writer of text in the project.

A line ends at "\\n" and nowhere else: `str.splitlines` would also cut at form feeds, U+0085 and U+2028 and so shift one
side of a parallel corpus against the other. Sides are read in strict pairs. Files are written beside their final name
and renamed, so that a reader sees the old file or the new one, never half of it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from phrasemt.errors import DataError


@contextlib.contextmanager
def open_binary(path: Path | str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked when its name ends in `.gz`.

    Raises DataError when the file is missing or its compression is broken.
    """
    path = Path(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise DataError("no such file", where=path, next_step="check the path in the study") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            "the compressed file is damaged or cut off", where=path, found=error, next_step="fetch the file again"
        ) from None


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file (`.gz` too) without their "\\n"; a last line without one counts as a line.

    Raises DataError naming file and line for bytes that are not UTF-8.
    """
    for block in read_blocks(path):
        yield from block.lines()


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file, still bytes: cheap to send to another process. `first` is the number of the first one."""

    path: Path | str
    first: int
    data: bytes

    def lines(self) -> list[str]:
        """The lines without their "\\n". Raises DataError naming file and line for bytes that are not UTF-8."""
        try:
            return self.data.removesuffix(b"\n").decode("utf-8").split("\n")
        except UnicodeDecodeError:
            return list(decode_lines(io.BytesIO(self.data), self.path, first=self.first))  # raises


def read_blocks(path: Path | str) -> Iterator[LineBlock]:
    """A file (`.gz` too) in blocks of at least a quarter of a megabyte, the last one excepted."""
    first = 1
    with open_binary(path) as stream:
        while data := stream.read(1 << 18):
            data += stream.readline()
            yield LineBlock(path, first, data)
            first += data.count(b"\n")


def decode_lines(lines: Iterable[bytes], where: object, *, first: int = 1) -> Iterator[str]:
    """Lines of bytes, as a binary stream gives them, as text without their "\\n".

    `where` names the stream in errors, `first` is the number of its first line. Raises DataError naming the stream and
    the line for bytes that are not UTF-8.
    """
    for number, line in enumerate(lines, start=first):
        try:
            yield line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
            bad = line[error.start : error.start + 4]
            raise DataError(
                "not UTF-8",
                where=f"{where}, line {number}, byte {error.start + 1}",
                expected="UTF-8 text",
                found=f"bytes {bad.hex(' ')}",
                next_step="convert the file to UTF-8 (iconv) or remove the line on both sides",
            ) from None


def read_parallel(*paths: Path | str) -> Iterator[tuple[str, ...]]:
    """The lines of several files side by side.

    Raises DataError when one file ends before another, naming both with their line counts.
    """
    for blocks in read_parallel_blocks(*paths, lines=1000):
        yield from zip(*(block.lines() for block in blocks), strict=True)


def read_parallel_blocks(*paths: Path | str, lines: int) -> Iterator[tuple[LineBlock, ...]]:
    """Several files side by side in blocks of `lines` lines; the last ones may be shorter. Errors as above."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open_binary(path)) for path in paths]
        for first in itertools.count(1, lines):
            parts = [b"".join(itertools.islice(stream, lines)) for stream in streams]
            if len({part.count(b"\n") + (part[-1:] not in (b"", b"\n")) for part in parts}) > 1:
                counts = {str(path): count_lines(path) for path in paths}
                raise DataError(
                    "the sides of a parallel text have unequal numbers of lines",
                    where=", ".join(counts),
                    expected="the same number of lines in each file",
                    found=" and ".join(str(count) for count in counts.values()),
                    next_step="restore the line that is missing; phrasemt never cuts the longer side",
                )
            if not parts[0]:
                return
            yield tuple(LineBlock(path, first, part) for path, part in zip(paths, parts, strict=True))


def count_lines(path: Path | str) -> int:
    """Number of lines of a file (`.gz` too); an unfinished last line counts."""
    count, last = 0, b"\n"
    with open_binary(path) as stream:
        while block := stream.read(1 << 20):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def temporary_beside(path: Path | str) -> Path:
    """A name in the same folder for the unfinished file, different for each process."""
    path = Path(path)
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def final_name(path: Path | str) -> Path:
    """The name that an unfinished file of `temporary_beside` will get; any other path as it is."""
    path = Path(path)
    unfinished = re.fullmatch(r"\.(.+)\.\d+\.part", path.name)
    return path.with_name(unfinished[1]) if unfinished else path


def commit_file(temporary: Path, path: Path | str) -> None:
    """Give a finished temporary file its name, after its bytes have reached the disk."""
    flush_to_disk(temporary)
    temporary.replace(path)


def flush_to_disk(path: Path) -> None:
    """Returns when the bytes of a file have reached the disk."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


@contextlib.contextmanager
def write_atomic(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary stream that becomes `path` when the block ends well and vanishes when it does not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        with temporary.open("wb") as stream:
            yield stream
        commit_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Write a whole small file at once, atomically."""
    with write_atomic(path) as stream:
        stream.write(text.encode("utf-8"))


def write_lines(path: Path | str, lines: Iterable[str]) -> int:
    """Write lines as UTF-8, each ended by "\\n", atomically; returns their number.

    Raises ValueError for a line that holds a "\\n": it would shift every line after it.
    """
    count = 0
    with write_atomic(path) as stream:
        for line in lines:
            if "\n" in line:
                raise ValueError(f"line {count + 1} for {path} holds a line break: {line[:80]!r}")
            stream.write(line.encode("utf-8") + b"\n")
            count += 1
    return count
