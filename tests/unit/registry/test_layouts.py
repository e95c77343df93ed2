"""Every registered corpus is fetched from a server and extracted, from small files with the registered member names."""

from __future__ import annotations

import functools
import gzip
import hashlib
import html
import http.server
import io
import os
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stage_settings import extracting, fetching

from phrasemt.cli import main
from phrasemt.corpus.extract import extract_text
from phrasemt.corpus.fetch import fetch_corpus
from phrasemt.files.lines import read_lines
from phrasemt.registry import corpora as registry
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which its files are served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    folder = tmp_path_factory.mktemp("server")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ARCHIVED)
def test_the_layout_of_a_corpus(
    name: str, server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PHRASEMT_MIRROR", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder, address = server
    entry = ARCHIVED[name]
    values = entry.model_dump()
    (folder / name).mkdir()
    made = contents(entry)
    for file in values["files"]:
        data = made[file["name"]]
        (folder / name / file["name"]).write_bytes(data)
        file |= {"url": f"{address}/{name}/{file['name']}", "bytes": len(data), "md5": None, "by_hand": None}
        file |= {"sha256": hashlib.sha256(data).hexdigest(), "mirrors": ()}
    for part_name, part in entry.parts.items():
        values["parts"][part_name]["lines"] = ROWS * len(next(iter(part.sides.values())).members)
    small = Corpus.model_validate(values)
    monkeypatch.setattr(registry, "load_registry", lambda: {name: small})
    for file in small.files:
        fetch_corpus(settings=fetching(name, file.name), cores=1, file=tmp_path / file.name)
    for part_name, part in small.parts.items():
        for language, side in part.sides.items():
            settings = extracting(name, part_name, language)
            extract_text(settings=settings, cores=1, files=[tmp_path / side.file], text=tmp_path / "text")
            expected = [line(language, row) for row in range(ROWS)] * len(side.members)
            expected = [*map(html.unescape, expected)] if side.format == "sgm" else expected
            assert list(read_lines(tmp_path / "text")) == expected, (part_name, language)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_full_disk_during_the_extraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("this container mounts no file system")
    try:
        big = "".join(f"{number}\n" for number in range(50_000)).encode()
        settings = extracting("europarl-v7", "de-en", "de").model_copy(update={"lines": None})
        archive = tmp_path / settings.side.file
        archive.write_bytes(pack(archive.name, {settings.side.members[0]: big}))
        command = ["extract_text", "--settings", settings.canonical_json(), "--files", str(archive)]
        capfd.readouterr()
        assert main([*command, "--text", str(disk / "text")]) == 2
        assert capfd.readouterr().err == (
            "phrasemt extract_text: error: the disk is full; nothing half-written was kept. "
            "Next: free space and run again\n"
        )
        assert list(disk.iterdir()) == [], "something half-written is left"
        assert main([*command, "--text", str(tmp_path / "text")]) == 0  # with space it goes through
        assert (tmp_path / "text").read_bytes() == big
    finally:
        subprocess.run(["umount", str(disk)], check=True)
