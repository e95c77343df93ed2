"""The cache of artefacts: what a stage has made once, for anybody, is copied and not made again.

    <cache>/stages/<stage>/<key>.json    an entry: what the stage read and did, and the sha256 of each file it made
    <cache>/files/<two digits>/<sha256>  these files

The key is a digest of what decides the outputs: of what their sidecars say, with the names of files but without the
folders that they lie in. Of a file that is fetched it is the registered checksum and nothing else.

Files never change, and are compared with their names whenever they are copied; an entry carries its own digest. So any
number of users share a cache without locks, on one machine or on a shared file system, and what is damaged is set
aside and made again. An entry is written after its files, and one whose files are gone counts as none. Results are
copies, so that no cleaning takes one away. A cache that cannot be used is told in one line, and ends no stage.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phrasemt.artefacts.sidecar import Origin
from phrasemt.files.digests import digest_bytes, digest_file
from phrasemt.files.shared import SECONDS_UNTIL_ABANDONED, Removals, new_file, set_aside
from phrasemt.stages.stage import Stage

log = logging.getLogger("phrasemt.workflow.cache")

CACHE = "PHRASEMT_CACHE"
_SHA256 = re.compile(r"[0-9a-f]{64}")

Files = dict[str, tuple[str, int]]  # of an entry, by role: sha256 and bytes


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
    """What a stage makes of what decides it, whether the cache has it or not. usable: the cache gave no error yet."""

    cache: Path
    stage: str
    deciding: Mapping[str, Any]
    usable: bool = field(default=True, init=False)

    @property
    def path(self) -> Path:
        return self.cache / "stages" / self.stage / f"{_digest(self.deciding)}.json"

    def take(self, outputs: Mapping[str, Path]) -> dict[str, str] | None:
        """Copies the files to `outputs` and returns their sha256; None, and no file, when not all are there, whole."""
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
        with suppress(OSError):  # the cache of somebody else
            os.utime(self.path)
        log.info("%s: from the cache, %s", self.stage, self.path)
        return digests

    def _copy(self, outputs: Mapping[str, Path]) -> dict[str, str] | None:
        files = _read(self.path)
        if files is None or files.keys() != outputs.keys():
            return None
        for role, (digest, _) in files.items():
            copied = _file(self.cache, digest)
            _copy_file(copied, outputs[role])
            if digest_file(outputs[role]) != digest:
                _check_file(copied)
                return None
        return {role: digest for role, (digest, _) in files.items()}

    def put(self, outputs: Mapping[str, Path], digests: Mapping[str, str]) -> None:
        """Keeps files of these sha256 for others; when another one was faster, theirs stay."""
        if not self.usable:
            return
        try:
            if self._is_kept():
                return
            for role, path in outputs.items():
                self._put_file(path, digests[role])
            content = {
                "made_of": self.deciding,
                "files": {role: [digests[role], path.stat().st_size] for role, path in outputs.items()},
            }
            with new_file(self.path, self.cache) as unfinished:
                text = json.dumps({**content, "digest": _digest(content)}, indent=1, sort_keys=True)
                unfinished.write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.usable = False
        log.warning("warning: the cache cannot be used (%s); %s goes on without it", error, self.stage)

    def _is_kept(self) -> bool:
        with suppress(FileNotFoundError):
            files = _read(self.path)
            return files is not None and all(_is_there(self.cache, *file) for file in files.values())
        return False

    def _put_file(self, path: Path, digest: str) -> None:
        if _is_there(self.cache, digest, path.stat().st_size):
            with suppress(OSError):  # for `clean`, which leaves young files to the entries that are still to come
                os.utime(_file(self.cache, digest))
            return
        with new_file(_file(self.cache, digest), self.cache) as unfinished:
            _copy_file(path, unfinished)
            if digest_file(unfinished) != digest:
                raise OSError(f"{path} changed while it was copied")


@dataclass(frozen=True)
class Kept:
    """What a cache holds of a stage: entries, bytes of their files, when one was used last (seconds since 1970)."""

    entries: int
    bytes: int
    used: float


@dataclass
class Cleaning(Removals):
    """What `clean` removed: entries, files and their bytes. young: files of no entry that stay for a day."""

    entries: int = 0
    files: int = 0
    bytes: int = 0
    young: int = 0


def contents(cache: Path) -> dict[str, Kept]:
    """What a cache holds, by stage."""
    found: dict[str, Kept] = {}
    for path, read in _entries(cache):
        if read is None:
            continue
        files, used = read
        one = found.get(path.parent.name, Kept(0, 0, 0))
        size = sum(size for _, size in files.values())
        found[path.parent.name] = Kept(one.entries + 1, one.bytes + size, max(one.used, used))
    return found


def verify(cache: Path) -> tuple[int, list[Path]]:
    """Reads all entries and files: how many files are whole, and what is not: damaged, and set aside, or unreadable."""
    bad = [path for path, read in _entries(cache) if read is None]
    files = _files(cache)
    bad_files = [path for path in files if not _check_file(path)]
    return len(files) - len(bad_files), bad + bad_files


def clean(cache: Path, unused: float = math.inf) -> Cleaning:
    """Removes what was set aside or left unfinished, files of no entry, and entries not used for so many seconds.

    May be called beside running stages: what they look for in vain they make themselves. What only others may read
    stays, and all files with it, as any of them may belong to that.
    """
    done = Cleaning()
    now = time.time()
    needed: set[str] = set()
    unreadable = False
    for path, read in _entries(cache):
        if read is None:
            unreadable |= path.exists()
            continue
        files, used = read
        try:
            whole = all(_is_there(cache, *file) for file in files.values())
        except OSError:
            unreadable = True
            continue
        if (whole and now - used <= unused) or not done.remove(path):
            needed.update(digest for digest, _ in files.values())
        else:
            done.entries += 1
    for path in [] if unreadable else _files(cache):
        with suppress(FileNotFoundError):
            status = path.stat()
            if path.name in needed:
                continue
            if now - status.st_mtime <= SECONDS_UNTIL_ABANDONED:  # its entry may still be to come
                done.young += 1
            elif done.remove(path):
                done.files += 1
                done.bytes += status.st_size
    for folder in ("stages", "files"):
        done.remove_leftovers(cache / folder)
    return done


def _entries(cache: Path) -> Iterator[tuple[Path, tuple[Files, float] | None]]:
    """All entries: files and the time of their last use; None for one that is damaged, and set aside, or unreadable."""
    for path in sorted((cache / "stages").glob("*/*.json")):
        try:
            files = _read(path)
            yield path, None if files is None else (files, path.stat().st_mtime)
        except FileNotFoundError:  # cleaned by somebody meanwhile
            continue
        except OSError as error:
            log.warning("warning: %s cannot be read (%s)", path, error.strerror)
            yield path, None


def _files(cache: Path) -> list[Path]:
    return [path for path in sorted((cache / "files").glob("??/*")) if _SHA256.fullmatch(path.name)]


def _read(path: Path) -> Files | None:
    """The files of an entry; None when it is damaged, and set aside. Raises OSError, when there is none too."""
    try:
        content = json.loads(path.read_bytes())
        if content.pop("digest") != _digest(content) or _digest(content["made_of"]) != path.stem:
            raise ValueError("its content is not what its digest says")
        files = {role: (digest, size) for role, (digest, size) in content["files"].items()}
        if not all(_SHA256.fullmatch(digest) for digest, _ in files.values()):
            raise ValueError("a file without a sha256")
        return files
    except (ValueError, KeyError, TypeError, AttributeError) as reason:
        log.warning("warning: %s is damaged (%s). %s; the stage runs again", path, reason, set_aside(path))
        return None


def _check_file(path: Path) -> bool:
    """Whether a file is what its name says, or gone; if not, it is set aside. False for one that is unreadable too."""
    try:
        if digest_file(path) != path.name:
            why = "its content is not what its name says"
            log.warning("warning: %s is damaged (%s). %s; it is made again", path, why, set_aside(path))
            return False
    except FileNotFoundError:
        return True
    except OSError as error:
        log.warning("warning: %s cannot be read (%s)", path, error.strerror)
        return False
    return True


def _is_there(cache: Path, digest: str, size: int) -> bool:
    with suppress(FileNotFoundError):
        return _file(cache, digest).stat().st_size == size
    return False


def _file(cache: Path, digest: str) -> Path:
    return cache / "files" / digest[:2] / digest


def _digest(content: Mapping[str, Any]) -> str:
    return digest_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())[:32]


def _copy_file(source: Path, target: Path) -> None:
    """Copies the bytes; where the file system can, both files share them until one changes."""
    with source.open("rb") as reader, target.open("wb") as writer:
        with suppress(OSError, AttributeError):  # two file systems, or an operating system without this
            while os.copy_file_range(reader.fileno(), writer.fileno(), 1 << 30):
                pass
        shutil.copyfileobj(reader, writer, 1 << 20)
