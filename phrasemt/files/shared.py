"""Files in a folder that several people, processes and machines write to at once, without locks.

A file appears whole, by a rename, and never changes. One that turns out damaged is set aside under another name, so
that it can be looked at and made again. Who may write to the folder itself may write to all that is put below it.
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

# An unfinished file that nobody has written to for a day belongs to nobody.
SECONDS_OF_A_WRITER = 86_400


@contextmanager
def new_file(path: Path, root: Path) -> Iterator[Path]:
    """An unfinished file to write to, which becomes `path`, below the shared folder `root`, when the block ends well.

    Its bytes are on disk then. Of several writers of the same file the last one stays.
    """
    _make_folder(path.parent, root)
    # A process number would not do: writers on other machines have the same ones.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield temporary
        _share(temporary, root, execute=False)
        commit_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def set_aside(path: Path) -> str:
    """Renames a damaged file to `<name>.damaged`; returns the sentence that says so, or why it stays."""
    try:
        path.replace(path.with_name(f"{path.name}.damaged"))
    except FileNotFoundError:  # another reader was faster
        pass
    except OSError as error:  # a folder that only others may write to
        return f"It cannot be set aside ({error.strerror})"
    return f"It is set aside as {path.name}.damaged"


@dataclass
class Removals:
    """What was removed. leftovers: files set aside or unfinished; refused: those that only others may remove."""

    leftovers: int = 0
    refused: int = 0

    def remove(self, path: Path) -> bool:
        """Removes a file; False when it is gone already, or not for this user to remove."""
        try:
            path.unlink()
        except FileNotFoundError:  # somebody else cleans too
            return False
        except OSError:
            self.refused += 1
            return False
        return True

    def remove_leftovers(self, folder: Path) -> None:
        """Removes what was set aside, and what was left unfinished more than a day ago."""
        now = time.time()
        for path in [*folder.rglob("*.damaged"), *folder.rglob(".*.part")]:
            with suppress(OSError):  # gone meanwhile, or in a folder that only others may enter
                if path.suffix == ".damaged" or now - path.stat().st_mtime > SECONDS_OF_A_WRITER:
                    self.leftovers += self.remove(path)


def _make_folder(folder: Path, root: Path) -> None:
    if folder == root:
        folder.mkdir(parents=True, exist_ok=True)
        return
    _make_folder(folder.parent, root)
    folder.mkdir(exist_ok=True)
    _share(folder, root, execute=True)  # one that is there too: who made it may have been killed before this


def _share(path: Path, root: Path, *, execute: bool) -> None:
    """Gives a file or folder the permissions of the root, whatever the umask of its writer."""
    root_mode = stat.S_IMODE(root.stat().st_mode)
    mode = root_mode if execute else root_mode & 0o666
    if stat.S_IMODE(path.stat().st_mode) != mode:
        with suppress(OSError):  # another writer's folder, or a file system without permissions
            path.chmod(mode)
