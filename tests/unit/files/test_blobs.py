"""Blobs survive killed writers, full and read-only disks, damage, and other users. Witness: what lies in the folder."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import wait_until

from phrasemt.files.blobs import Blobs
from phrasemt.files.system import digest_bytes


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "shared", effect="it is made again")


def put(blobs: Blobs, data: bytes) -> Path:
    path = blobs.root / digest_bytes(data)[:2] / digest_bytes(data)
    with blobs.new(path) as unfinished:
        unfinished.write_bytes(data)
    return path


def read(path: Path) -> bytes:
    if digest_bytes(data := path.read_bytes()) != path.name:
        raise ValueError("its content is not what its name says")
    return data


def present(blobs: Blobs) -> list[str]:
    return sorted(path.name for path in blobs.root.rglob("*") if path.is_file())


def put_many(root: Path) -> None:
    for number in range(10**9):
        put(Blobs(root, ""), b"%d" % (number % 500) * 20_000)


def test_a_killed_writer_leaves_whole_blobs_only(blobs):
    code = f"import sys; sys.path[:] = {sys.path!r}\nimport test_blobs; from pathlib import Path\n"
    writer = subprocess.Popen([sys.executable, "-c", f"{code}test_blobs.put_many(Path({str(blobs.root)!r}))"])
    try:
        wait_until(lambda: len(list(blobs.root.glob("??/*"))) > 60, writer)
    finally:
        writer.kill()
        writer.wait()
    found = [path for path in blobs.root.glob("??/*") if not path.name.startswith(".")]
    assert len(list(blobs.load_all(found, read))) == len(found) >= 60
    assert blobs.damaged == []
    left = {path.name for path in blobs.root.rglob("*") if path.is_file()} - {path.name for path in found}
    assert all(name.endswith(".part") for name in left)


def test_a_full_disk(blobs):
    """A limit on the size of files ends the bytes in the middle of a write, as the end of a disk does."""
    whole = put(blobs, b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            put(blobs, bytes(300_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert present(blobs) == [whole.name]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [flip, lambda data: data[:-1], lambda data: b"", lambda data: data + b"\0"])
def test_a_damaged_blob_is_set_aside(blobs, caplog, damage: Callable[[bytes], bytes]):
    path = put(blobs, b"content")
    path.write_bytes(damage(b"content"))
    assert blobs.load(path, read) is None
    assert (blobs.damaged, present(blobs)) == ([path], [f"{path.name}.damaged"])
    assert [record.message for record in caplog.records] == [
        f"warning: {path} is damaged (its content is not what its name says). "
        f"It is set aside as {path.name}.damaged; it is made again"
    ]
    put(blobs, b"content")
    assert blobs.load(path, read) == b"content"


def test_a_blob_that_is_whole_again_stays(blobs):
    path = put(blobs, b"content")
    path.write_bytes(flip(b"content"))

    def read_before_another_process_writes(path: Path) -> bytes:
        try:
            return read(path)
        finally:
            path.write_bytes(b"content")

    assert blobs.load(path, read_before_another_process_writes) == b"content"
    assert (blobs.damaged, present(blobs)) == ([], [path.name])


def test_an_unreadable_blob(blobs, caplog):
    paths = [put(blobs, b"mine"), put(blobs, b"of another user")]

    def refuse(path: Path) -> bytes:
        if path == paths[1]:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    with pytest.raises(PermissionError):
        blobs.load(paths[1], refuse)
    assert list(blobs.load_all([*paths, blobs.root / "missing"], refuse)) == [(paths[0], b"mine")]
    assert (blobs.damaged, blobs.unreadable) == ([], [paths[1]])
    assert f"warning: {paths[1]} cannot be read (Permission denied); it is made again" in caplog.text


def test_everybody_who_may_write_to_the_folder_may_write_to_all_of_it(blobs):
    blobs.root.mkdir()
    blobs.root.chmod(0o2770)
    before = os.umask(0o077)
    try:
        (blobs.root / digest_bytes(b"content")[:2]).mkdir()  # by a writer that was killed right then
        path = put(blobs, b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o2770
