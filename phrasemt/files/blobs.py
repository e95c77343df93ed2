"""Blobs: files in a folder to which several users, processes and machines write at the same time, without locks.

A blob appears by a rename, when it is complete, and never changes. It carries the digest of its content, in its name or
in itself; a reader that finds another content renames it to `<name>.damaged`. Blobs and subfolders get the permissions
of the shared folder. SQLite and the libraries on it (diskcache, for example) need locks, which shared file systems may
not have.

Annotations of sentences (phrasemt/syntax/store.py) and trained parsers (phrasemt/workflow/run_stage.py) are blobs.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from phrasemt.files.lines import commit_files, temporary_beside

log = logging.getLogger("phrasemt.files.blobs")

Content = TypeVar("Content")

CACHE = "PHRASEMT_CACHE"  # names the folder that studies and users share
DEFAULT_CACHE = Path("resources/cache")


@dataclass
class Blobs:
    """Writes and checks the blobs of a shared folder.

    effect: what follows when a blob is damaged or unreadable, for the log. damaged, unreadable: blobs that this object
    found so.
    """

    root: Path
    effect: str
    damaged: list[Path] = field(default_factory=list)
    unreadable: list[Path] = field(default_factory=list)

    @contextmanager
    def new(self, path: Path) -> Iterator[Path]:
        """Give a temporary path to write to; the file becomes `path` when the block ends without an error.

        The bytes are on disk when the file appears. If several processes write the same path, the last file stays.
        """
        self._make_folder(path.parent)
        temporary = temporary_beside(path)
        try:
            yield temporary
            self._set_permissions(temporary, execute=False)
            commit_files({temporary: path})
        finally:
            temporary.unlink(missing_ok=True)

    def load(self, path: Path, read: Callable[[Path], Content]) -> Content | None:
        """What `read` returns for a blob; None for a blob that is missing, or damaged and therefore set aside.

        read: raises ValueError, with the reason, for a damaged blob. Raises OSError for a blob that cannot be read.
        """
        for again in (False, True):
            try:
                return read(path)
            except FileNotFoundError:
                return None
            except ValueError as reason:
                # Read a second time before the rename: meanwhile another process may have set the blob aside, and a
                # third one may have written it anew.
                if again:
                    self.damaged.append(path)
                    result = _set_aside(path)
                    log.warning("warning: %s is damaged (%s). %s; %s", path, reason, result, self.effect)
        return None

    def load_all(self, paths: Iterable[Path], read: Callable[[Path], Content]) -> Iterator[tuple[Path, Content]]:
        """The whole blobs among these, one at a time; for an unreadable one a warning."""
        for path in paths:
            try:
                content = self.load(path, read)
            except OSError as error:
                self.unreadable.append(path)
                log.warning("warning: %s cannot be read (%s); %s", path, error.strerror, self.effect)
                continue
            if content is not None:
                yield path, content

    def _make_folder(self, folder: Path) -> None:
        if folder == self.root:
            folder.mkdir(parents=True, exist_ok=True)
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        # An existing folder too: its maker may have been killed before this.
        self._set_permissions(folder, execute=True)

    def _set_permissions(self, path: Path, *, execute: bool) -> None:
        """Give a file or folder the permissions of the root, whatever the umask of this process."""
        mode = stat.S_IMODE(self.root.stat().st_mode) & (0o7777 if execute else 0o666)
        if stat.S_IMODE(path.stat().st_mode) != mode:
            with suppress(OSError):  # the folder of another user, or a file system without permissions
                path.chmod(mode)


def _set_aside(path: Path) -> str:
    """Rename a damaged blob; returns a sentence for the log about the result."""
    try:
        path.replace(path.with_name(f"{path.name}.damaged"))
    except FileNotFoundError:  # another reader was faster
        pass
    except OSError as error:  # a folder that only others may write to
        return f"It cannot be set aside ({error.strerror})"
    return f"It is set aside as {path.name}.damaged"
