"""Every registered corpus is extracted from small files with the registered names of members."""

from __future__ import annotations

import gzip
import html
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from stage_settings import extracting

from phrasemt.corpus.extract import extract_text
from phrasemt.files.lines import read_lines
from phrasemt.registry.corpora import ARCHIVE_SUFFIXES, Corpus, CorpusSide, load_registry

ROWS = 3
# Without parts that a selection makes (tests/unit/corpus/test_selection.py).
ARCHIVED = {
    entry.id: entry
    for entry in load_registry().values()
    if entry.parts and not any(part.selection for part in entry.parts.values())
}


def line(language: str, row: int) -> str:
    return f"{language} {row} &amp; ü"


def text(sides: list[tuple[str, CorpusSide]]) -> bytes:
    """A file in which these sides stand: one side, or the columns of a table."""
    _, first = sides[0]
    lines = []
    for row in range(ROWS):
        if first.format == "sgm":
            lines.append(f'<seg id="{row + 1}"> {line(sides[0][0], row)} </seg>')
        elif first.format == "tsv":
            columns = ["?"] * max(side.column or 0 for _, side in sides)
            for language, side in sides:
                columns[(side.column or 1) - 1] = line(language, row)
            lines.append(first.separator.join(columns))
        else:
            lines.append(line(sides[0][0], row))
    data = "".join(f"{one}\n" for one in lines)
    return f'<srcset setid="x">\n<doc>\n{data}</doc>\n</srcset>\n'.encode() if first.format == "sgm" else data.encode()


def contents(entry: Corpus) -> dict[str, bytes]:
    """The bytes of each file of a corpus."""
    places: dict[tuple[str, str | None], list[tuple[str, CorpusSide]]] = {}
    for part in entry.parts.values():
        for language, side in part.sides.items():
            for member in side.members:
                found = places.setdefault((side.file, member), [])
                if language not in dict(found):
                    found.append((language, side))
    files: dict[str, dict[str | None, bytes]] = {}
    for (file, member), sides in places.items():
        data = text(sides)
        files.setdefault(file, {})[member] = gzip.compress(data) if (member or file).endswith(".gz") else data
    return {name: pack(name, members) for name, members in files.items()}


def pack(name: str, members: dict[str | None, bytes]) -> bytes:
    if not name.endswith(ARCHIVE_SUFFIXES):
        return members[None]
    packed = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(packed, "w") as archive:
            for member, data in members.items():
                archive.writestr(str(member), data)
    else:
        with tarfile.open(fileobj=packed, mode="w" if name.endswith(".tar") else "w:gz") as tar:
            for member, data in members.items():
                entry = tarfile.TarInfo(str(member))
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


@pytest.mark.parametrize("name", ARCHIVED)
def test_the_layout_of_a_corpus(name: str, tmp_path: Path) -> None:
    entry = ARCHIVED[name]
    for file, data in contents(entry).items():
        (tmp_path / file).write_bytes(data)
    for part_name, part in entry.parts.items():
        for language, side in part.sides.items():
            expected = [line(language, row) for row in range(ROWS)] * len(side.members)
            expected = [*map(html.unescape, expected)] if side.format == "sgm" else expected
            settings = extracting(name, part_name, language).model_copy(update={"lines": len(expected)})
            extract_text(settings=settings, cores=1, files=[tmp_path / side.file], text=tmp_path / "text")
            assert list(read_lines(tmp_path / "text")) == expected, (part_name, language)
