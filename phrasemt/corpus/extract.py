"""The stage `extract_text`: one side of one part of a corpus, as a plain text file.

The stage reads an archive as a stream, once and from front to back, even if it has gigabytes and the side fills
many members. It checks that lines are UTF-8, adds a missing "\\n" at the end, and keeps lines unchanged otherwise.
The number of lines must equal the registered number, so that a wrong member or a cut-off archive is noticed.

A Bible in the format of the SWORD project (driver zText) is compressed texts with two indexes. A testament (`ot`, `nt`)
is three files. `.bzz` holds blocks compressed by zlib, one for each book. `.bzs` has 12 bytes for each block: its
offset in `.bzz`, its size there and its size unpacked. `.bzv` has 10 bytes for each entry: the number of its block, its
offset in the unpacked block and its length in bytes. Numbers are little-endian. Entries follow the versification of the
module, with an empty entry for each title, so entry i of two modules with one versification is the same verse. (SWORD's
sources describe the format, src/modules/common/zverse.cpp.)
"""

from __future__ import annotations

import contextlib
import gzip
import html
import logging
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from phrasemt.errors import DataError
from phrasemt.files.lines import bounded_lines, decode_lines, write_lines
from phrasemt.files.system import digest_file
from phrasemt.registry.corpora import CorpusPart, CorpusSide, RowSelection
from phrasemt.stages.corpus import ExtractText

log = logging.getLogger("phrasemt.corpus.extract")

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)
_SEGMENT = re.compile(r"<seg.*?>(.*)</seg>")
_ENTITY = re.compile(r"&#?\w+;")


def extract_text(*, settings: ExtractText, cores: int, files: list[Path], text: Path) -> None:
    """Write the lines of a part in a language to `text`. files: those that `files_of` of the registry names.

    Raises DataError for a damaged archive, a missing member or column, bytes that are not UTF-8, and a number of lines
    or a checksum that differs from the registered one.
    """
    given = {path.name: path for path in files}
    count = write_lines(text, _text(settings, given))
    wrong = None
    if settings.lines not in (None, count):
        wrong = f"{settings.lines} lines", f"{count} lines"
    elif settings.sha256 and (digest := digest_file(text)) != settings.sha256:
        wrong = f"a text with sha256 {settings.sha256}", digest
    if wrong:
        text.unlink()
        raise DataError(
            "not the text that the registry describes",
            where=", ".join(_place(path, settings.side.members[0]) for path in files[:3]),
            expected=wrong[0],
            found=wrong[1],
            next_step="fetch the file again; if that does not help, report the registry entry",
        )
    log.info("extract_text: %s %s.%s: %d lines", settings.corpus, settings.part, settings.language, count)


def _text(settings: ExtractText, given: Mapping[str, Path]) -> Iterator[str]:
    """The lines of the side, of the rows that the selection of the part takes. given: the files by name."""

    def lines(side: CorpusSide) -> Iterator[str]:
        return _lines(side, given[side.file])

    def rows(part: CorpusPart) -> Iterator[Row]:
        # A longer side loses its end, which the checksum of the text shows.
        return zip(*(lines(side) for side in part.sides.values()), strict=False)

    part = settings.parts.get(settings.part)
    if part is None or (part.selection and part.selection.parts and settings.side.file in given):
        return lines(settings.side)
    column = list(part.sides).index(settings.language)
    return (row[column] for row in select_rows(part, settings.parts, rows))


def _place(path: Path, member: str | None) -> str:
    return f"{path}, member {member}" if member else str(path)


def tsv_column(lines: Iterable[str], column: int, where: str, separator: str = "\t") -> Iterator[str]:
    """One column of separated lines, counted from 1. Raises DataError, with the line, if a line has fewer."""
    for number, line in enumerate(lines, start=1):
        fields = line.split(separator, column)
        if len(fields) < column:
            expected, found = f"{column} columns separated by {separator!r}", f"{len(fields)}: {line[:60]!r}"
            place, next_step = f"{where}, line {number}", "check the column in the registry entry"
            raise DataError("a column is missing", where=place, expected=expected, found=found, next_step=next_step)
        yield fields[column - 1]


def sgm_segments(lines: Iterable[str]) -> Iterator[str]:
    """The segments of a WMT test set from before 2021. Such files are line-based and not valid SGML.

    Like sacreBLEU (sacrebleu/dataset/fake_sgml.py), take the text of each line that starts with `<seg `, and reduce
    runs of white space to one space. Character entities become their characters: sacreBLEU leaves them to BLEU's 13a
    tokenizer, but models, chrF and TER would read `&quot;`.
    """
    for line in lines:
        if line.startswith("<seg "):
            text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), _SEGMENT.sub(r"\1", line))
            yield " ".join(text.split())


def _lines(side: CorpusSide, path: Path) -> Iterator[str]:
    """Yield the lines of a side. Raises DataError for damage of any kind and for members missing from the archive.

    Members of a zip archive come in the order of the registry, those of a tar archive in the order of the archive,
    which is unpacked once.
    """
    where = _place(path, side.members[0])
    try:
        if side.format == "sword":
            yield from decode_lines(_verses(path, cast(str, side.member)), where)
            return
        for opened, member in _opened(path, side.members):
            where = _place(path, member)
            with contextlib.ExitStack() as stack:
                stream = stack.enter_context(opened)
                if (member or path.name).endswith(".gz"):
                    stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=stream)))
                lines = decode_lines(bounded_lines(stream, where), where)
                if side.column is not None:
                    lines = tsv_column(lines, side.column, where, side.separator)
                yield from sgm_segments(lines) if side.format == "sgm" else lines
    except _DAMAGED as error:
        what = "the file is damaged or cut off" if side.members[0] is None else "the archive is damaged or cut off"
        next_step = "delete it and fetch it again"
        raise DataError(what, where=where, found=f"{type(error).__name__}: {error}", next_step=next_step) from None


def _opened(path: Path, members: Sequence[str | None]) -> Iterator[tuple[IO[bytes], str | None]]:
    if members[0] is None:
        yield path.open("rb"), None
        return
    wanted = dict.fromkeys(member for member in members if member is not None)
    yield from (_of_zip if path.suffix == ".zip" else _of_tar)(path, wanted)


def _of_zip(path: Path, wanted: Iterable[str]) -> Iterator[tuple[IO[bytes], str]]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for member in wanted:
            if member not in names:
                raise _no_member(path, member, names)
            yield archive.open(member), member


def _of_tar(path: Path, wanted: dict[str, None]) -> Iterator[tuple[IO[bytes], str]]:
    names = []
    with tarfile.open(path, "r|*") as archive:  # "|": as a stream, which cannot go back
        for entry in archive:
            names.append(entry.name)
            member = entry.name.removeprefix("./")
            if member in wanted and (stream := archive.extractfile(entry)) is not None:
                del wanted[member]
                yield stream, member
                if not wanted:
                    return
    raise _no_member(path, next(iter(wanted)), names)


def _no_member(path: Path, member: str, names: list[str]) -> DataError:
    found = f"{len(names)} members, such as {', '.join(names[:3]) or 'none'}"
    next_step = "fetch the file again, or correct the member in the registry entry"
    return DataError("the archive has no such member", where=path, expected=member, found=found, next_step=next_step)


_TESTAMENTS = ("ot", "nt")
_BLOCK, _ENTRY = struct.Struct("<III"), struct.Struct("<IIH")
_NOTE_OR_TAG = re.compile(rb"<note.*?</note>|<[^>]*>", re.DOTALL)


def _verses(path: Path, folder: str) -> Iterator[bytes]:
    """Yield the entries of the Old, then the New Testament as UTF-8, without notes and tags, white space joined.

    folder: of the module inside the archive. Raises zipfile.BadZipFile if the indexes do not fit the text, and
    zlib.error for a damaged block.
    """
    for testament in _TESTAMENTS:
        members = [f"{folder}/{testament}.{kind}" for kind in ("bzs", "bzv", "bzz")]
        blocks, entries, packed = (stream.read() for stream, _ in _of_zip(path, members))
        try:
            places = [*_BLOCK.iter_unpack(blocks)]
            texts = [zlib.decompress(packed[start : start + size]) for start, size, _ in places]
            if [len(text) for text in texts] != [unpacked for _, _, unpacked in places]:
                raise zipfile.BadZipFile(f"{testament}.bzs does not fit {testament}.bzz")
            for block, start, length in _ENTRY.iter_unpack(entries):
                if length and start + length > len(texts[block]):
                    raise zipfile.BadZipFile(f"{testament}.bzv names a verse beyond the end of block {block}")
                yield b" ".join(_NOTE_OR_TAG.sub(b"", texts[block][start : start + length] if length else b"").split())
        except (struct.error, IndexError) as error:
            raise zipfile.BadZipFile(f"the indexes of {testament} are cut off: {error}") from None


# The sentences of one row, in the order of the sides of its part.
Row = tuple[str, ...]


def select_rows(
    part: CorpusPart, parts: dict[str, CorpusPart], rows_of: Callable[[CorpusPart], Iterator[Row]]
) -> Iterator[Row]:
    """Yield the rows of a part that its selection takes, in their order.

    parts: by name, with those from which the part stays apart. rows_of: all rows of the sides of a part.
    """
    rule = part.selection
    if rule is None:
        yield from rows_of(part)
        return
    taken: dict[str, set[str]] = {language: set() for language in part.sides}  # sentences that no row may have
    for name in rule.apart_from:
        for row in select_rows(parts[name], parts, rows_of):
            for language, sentence in zip(parts[name].sides, row, strict=True):
                taken[language].add(sentence)
    sources = [parts[name] for name in rule.parts] or [part]
    rows: Iterable[Row] = (row for source in sources for row in rows_of(source))
    if rule.distinct:
        rows = dict.fromkeys(rows)
    for number, row in enumerate(row for row in rows if _fits(row, rule)):
        if rule.blocks and number // rule.blocks.size % rule.blocks.period not in rule.blocks.numbers:
            continue
        if not any(sentence in taken[language] for language, sentence in zip(part.sides, row, strict=True)):
            yield row


def _fits(row: Row, rule: RowSelection) -> bool:
    characters = [*map(len, row)]
    return all(len(sentence.split()) >= rule.min_words for sentence in row) and (
        rule.ratio_below is None or max(characters) < rule.ratio_below * min(characters)
    )
