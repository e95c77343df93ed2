"""The cache of artefacts: outputs that a stage has made once, in any study, are copied and not made again.

    <cache>/stages/<stage>/<key>.json    an entry: what the stage read and did, and the sha256 of each file it made
    <cache>/files/<two digits>/<sha256>  these files

The key is a digest of what decides the outputs: the content of their sidecars, with the names of files but without
their folders. The key of a fetched file is its registered checksum alone.

Entries and files are blobs (phrasemt/files/blobs.py); a damaged one is made again. Each copy of a file is compared with
the digest in its name, and an entry contains its own digest. An entry is written after its files, and counts as missing
when one of them is missing. Results are copies, so cleaning the cache removes no result. If the cache cannot be used,
the stage warns once and runs without it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from phrasemt.artefacts.sidecar import Origin
from phrasemt.files.blobs import Blobs, Cleaning, is_abandoned
from phrasemt.files.system import digest_bytes, digest_file
from phrasemt.stages.stage import Stage

log = logging.getLogger("phrasemt.workflow.cache")

CACHE = "PHRASEMT_CACHE"
DEFAULT_CACHE = Path("resources/cache")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Record(NamedTuple):
    """The content of an entry. files: sha256 and bytes, by role; used: time of the last use, in seconds since 1970."""

    files: dict[str, tuple[str, int]]
    used: float


def entry_of(origin: Origin, stage: Stage, outputs: Mapping[str, Path]) -> Entry | None:
    """The entry of the outputs that a stage is about to make; None when no cache keeps them.

    stage: the declaration with its settings.
    """
    folder = os.environ.get(CACHE)
    if not folder or not stage.cached:
        return None
    key = stage.cache_key(_deciding(origin, stage, outputs))
    return None if key is None else Entry(Path(folder), stage.stage_name(), key)


def _deciding(origin: Origin, stage: Stage, outputs: Mapping[str, Path]) -> dict[str, Any]:
    folder = Path(os.path.commonpath([path.absolute().parent for path in outputs.values()]))

    def name(role: str, file: str | Path) -> str:
        """A file's name, which readers look at for its ending, without its folder, unless the stage writes the path."""
        path = Path(file).absolute()
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
        return str(path) if role in stage.located else path.name

    return {
        **dict(origin),
        "inputs": {
            role: [[name(role, file.path), file.sha256] for file in files] for role, files in origin.inputs.items()
        },
        "outputs": {role: name(role, path) for role, path in outputs.items()},
    }


@dataclass
class Entry:
    """The outputs that a key decides, in the cache or not yet. usable: False after an error of the cache."""

    cache: Path
    stage: str
    deciding: Mapping[str, Any]
    usable: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self._blobs = blobs_of(self.cache)

    @property
    def path(self) -> Path:
        return self.cache / "stages" / self.stage / f"{_digest(self.deciding)}.json"

    def take(self, outputs: Mapping[str, Path]) -> dict[str, str] | None:
        """Copy the files to `outputs` and return their sha256. None, and no output, if one is missing or damaged."""
        digests = None
        try:
            digests = self._copy(outputs)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._give_up(error)
        if digests is None:
            for path in outputs.values():
                path.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # another user's cache
            os.utime(self.path)
        log.info("%s: from the cache, %s", self.stage, self.path)
        return digests

    def _copy(self, outputs: Mapping[str, Path]) -> dict[str, str] | None:
        record = self._blobs.load(self.path, _read)
        if record is None or record.files.keys() != outputs.keys():
            return None
        for role, (digest, _) in record.files.items():
            copied = _file(self.cache, digest)
            _copy_file(copied, outputs[role])
            if digest_file(outputs[role]) != digest:
                self._blobs.load(copied, _checked)
                return None
        return {role: digest for role, (digest, _) in record.files.items()}

    def put(self, outputs: Mapping[str, Path], digests: Mapping[str, str]) -> None:
        """Add files of these sha256, unless another process has added the entry meanwhile."""
        if not self.usable:
            return
        try:
            record = self._blobs.load(self.path, _read)
            if record is not None and _is_whole(self.cache, record):
                return
            for role, path in outputs.items():
                self._put_file(path, digests[role])
            content = {
                "made_of": self.deciding,
                "files": {role: [digests[role], path.stat().st_size] for role, path in outputs.items()},
            }
            with self._blobs.new(self.path) as unfinished:
                text = json.dumps({**content, "digest": _digest(content)}, indent=1, sort_keys=True)
                unfinished.write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.usable = False
        log.warning("warning: the cache cannot be used (%s); %s goes on without it", error, self.stage)

    def _put_file(self, path: Path, digest: str) -> None:
        if _is_there(self.cache, digest, path.stat().st_size):
            with suppress(OSError):  # `clean` keeps young files, whose entries may still be to come
                os.utime(_file(self.cache, digest))
            return
        with self._blobs.new(_file(self.cache, digest)) as unfinished:
            _copy_file(path, unfinished)
            if digest_file(unfinished) != digest:
                raise OSError(f"{path} changed while it was copied")


@dataclass(frozen=True)
class Contents:
    """The entries of a stage: their number, bytes of their files, time of the last use in seconds since 1970."""

    entries: int
    bytes: int
    used: float


@dataclass
class CacheCleaning(Cleaning):
    """What `clean` removed. entries: how many; blobs: files without an entry."""

    entries: int = 0


def blobs_of(cache: Path) -> Blobs:
    return Blobs(cache, effect="it is made again")


def contents(cache: Path) -> dict[str, Contents]:
    found: dict[str, Contents] = {}
    for path, record in blobs_of(cache).load_all(_entries(cache), _read):
        one = found.get(path.parent.name, Contents(0, 0, 0))
        size = sum(size for _, size in record.files.values())
        found[path.parent.name] = Contents(one.entries + 1, one.bytes + size, max(one.used, record.used))
    return found


def clean(cache: Path, unused: float = math.inf) -> CacheCleaning:
    """Remove leftovers, files without an entry, and entries not used for `unused` seconds.

    May be called while stages run: they make what they do not find. If an entry is unreadable, all files stay, because
    it may need any of them.
    """
    done = CacheCleaning()
    blobs = blobs_of(cache)
    now = time.time()
    needed: set[str] = set()
    unreadable = False
    for path, record in blobs.load_all(_entries(cache), _read):
        try:
            whole = _is_whole(cache, record)
        except OSError:
            unreadable = True
            continue
        if (whole and now - record.used <= unused) or not done.remove(path):
            needed.update(digest for digest, _ in record.files.values())
        else:
            done.entries += 1
    unreadable |= bool(blobs.unreadable) or any(path.exists() for path in blobs.damaged)
    for path in [] if unreadable else _files(cache):
        with suppress(FileNotFoundError):
            if path.name not in needed and is_abandoned(path):  # the entry of a young file may still be to come
                done.remove_blob(path)
    for folder in ("stages", "files"):
        done.remove_leftovers(cache / folder)
    return done


def _entries(cache: Path) -> list[Path]:
    return sorted((cache / "stages").glob("*/*.json"))


def _files(cache: Path) -> list[Path]:
    return [path for path in sorted((cache / "files").glob("??/*")) if _SHA256.fullmatch(path.name)]


def _read(path: Path) -> Record:
    """The content of an entry. Raises ValueError, with the reason, for a damaged one."""
    try:
        content = json.loads(path.read_bytes())
        if content.pop("digest") != _digest(content) or _digest(content["made_of"]) != path.stem:
            raise ValueError("its content is not what its digest says")
        files = {role: (digest, size) for role, (digest, size) in content["files"].items()}
        if not all(_SHA256.fullmatch(digest) for digest, _ in files.values()):
            raise ValueError("a file without a sha256")
    except (KeyError, TypeError, AttributeError) as reason:
        raise ValueError(repr(reason)) from None
    return Record(files, path.stat().st_mtime)


def _checked(path: Path) -> Path:
    """A file whose content has the digest of its name. Raises ValueError for another one."""
    if digest_file(path) != path.name:
        raise ValueError("its content is not what its name says")
    return path


def _is_whole(cache: Path, record: Record) -> bool:
    return all(_is_there(cache, *file) for file in record.files.values())


def _is_there(cache: Path, digest: str, size: int) -> bool:
    with suppress(FileNotFoundError):
        return _file(cache, digest).stat().st_size == size
    return False


def _file(cache: Path, digest: str) -> Path:
    return cache / "files" / digest[:2] / digest


def _digest(content: Mapping[str, Any]) -> str:
    return digest_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())[:32]


def _copy_file(source: Path, target: Path) -> None:
    """Copy the bytes, as a reflink where the file system can."""
    with source.open("rb") as reader, target.open("wb") as writer:
        with suppress(OSError, AttributeError):  # two file systems, or an operating system without this
            while os.copy_file_range(reader.fileno(), writer.fileno(), 1 << 30):
                pass
        shutil.copyfileobj(reader, writer, 1 << 20)
