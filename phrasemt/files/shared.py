"""Files in a folder to which several users, processes and machines write at the same time, without locks.

A file appears by a rename, when it is complete, and never changes. A damaged file is renamed, so that it can be looked
at and written anew. Files and subfolders get the permissions of the shared folder.
"""

from __future__ import annotations

import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from phrasemt.files.lines import commit_file

# An unfinished file that has not changed for so long was left by a killed process.
SECONDS_UNTIL_ABANDONED = 86_400


@contextmanager
def new_file(path: Path, root: Path) -> Iterator[Path]:
    """Give a temporary path to write to; the file becomes `path` when the block ends without an error.

    root: the shared folder. The bytes are on disk when the file appears. If several processes write the same path, the
    last file stays.
    """
    _make_folder(path.parent, root)
    # A random name: processes on different machines may have the same process number.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield temporary
        _share(temporary, root, execute=False)
        commit_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def set_aside(path: Path) -> str:
    """Rename a damaged file to `<name>.damaged`; returns a sentence for the log about the result."""
    try:
        path.replace(path.with_name(f"{path.name}.damaged"))
    except FileNotFoundError:  # another reader was faster
        pass
    except OSError as error:  # a folder that only others may write to
        return f"It cannot be set aside ({error.strerror})"
    return f"It is set aside as {path.name}.damaged"


@dataclass
class Removals:
    """Counts of removed files. leftovers: damaged or abandoned files; refused: files that this user may not remove."""

    leftovers: int = 0
    refused: int = 0

    def remove(self, path: Path) -> bool:
        """Remove a file; returns False if it is already gone or this user may not remove it."""
        try:
            path.unlink()
        except FileNotFoundError:  # another process was faster
            return False
        except OSError:
            self.refused += 1
            return False
        return True

    def remove_leftovers(self, folder: Path) -> None:
        """Remove damaged files that were set aside, and unfinished files that have not changed for a day."""
        now = time.time()
        for path in [*folder.rglob("*.damaged"), *folder.rglob(".*.part")]:
            with suppress(OSError):  # the file is gone, or this user may not enter its folder
                if path.suffix == ".damaged" or now - path.stat().st_mtime > SECONDS_UNTIL_ABANDONED:
                    self.leftovers += self.remove(path)


def _make_folder(folder: Path, root: Path) -> None:
    if folder == root:
        folder.mkdir(parents=True, exist_ok=True)
        return
    _make_folder(folder.parent, root)
    folder.mkdir(exist_ok=True)
    _share(folder, root, execute=True)  # an existing folder too: its maker may have been killed before this line


def _share(path: Path, root: Path, *, execute: bool) -> None:
    """Give a file or folder the permissions of the root, whatever the umask of this process."""
    root_mode = stat.S_IMODE(root.stat().st_mode)
    mode = root_mode if execute else root_mode & 0o666
    if stat.S_IMODE(path.stat().st_mode) != mode:
        with suppress(OSError):  # the folder of another user, or a file system without permissions
            path.chmod(mode)
