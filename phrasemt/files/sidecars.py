"""Sidecars: the file `<artefact>.meta.json` beside an artefact records how the artefact was made.

A sidecar holds the stage, its settings, the digests of its code and of its inputs, and the versions of the libraries
that affect the result. It holds no time and no host name, so equal work gives equal bytes.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from phrasemt import __version__
from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import commit_file, temporary_beside, write_text

SUFFIX = ".meta.json"


def sidecar_path(artefact: Path | str) -> Path:
    artefact = Path(artefact)
    return artefact.with_name(artefact.name + SUFFIX)


class RecordedFile(BaseModel, frozen=True):
    """A file as a stage read or wrote it."""

    path: str
    sha256: str


class Acceptance(BaseModel, frozen=True):
    """Other settings and code for which a person accepted an artefact (phrasemt/runs/accept.py)."""

    when: datetime
    changes: list[str]
    settings: dict[str, Any]
    code: str
    note: str | None


class Sidecar(BaseModel, frozen=True):
    """How an artefact was made. inputs and outputs: files by their roles."""

    stage: str
    settings: dict[str, Any]
    code: str
    versions: dict[str, str]
    inputs: dict[str, list[RecordedFile]]
    outputs: dict[str, RecordedFile]
    accepted: list[Acceptance] = []

    @classmethod
    def read(cls, artefact: Path | str) -> Self:
        """The sidecar of an artefact. Raises DamagedFileError if it is missing, unreadable or incomplete."""
        path = sidecar_path(artefact)
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            damage = "no such file"
        except ValidationError as error:
            damage = error.errors()[0]["msg"]
        raise DamagedFileError(
            "no readable sidecar", where=path, found=damage, next_step=f"delete {artefact} and run again"
        )

    def write(self, artefact: Path | str) -> None:
        content = self.model_dump(mode="json", exclude=None if self.accepted else {"accepted"})
        write_text(sidecar_path(artefact), json.dumps(content, indent=1, sort_keys=True) + "\n")

    @property
    def files_read(self) -> list[RecordedFile]:
        return [file for files in self.inputs.values() for file in files]

    @property
    def valid_for(self) -> tuple[dict[str, Any], str]:
        """The settings and the code digest that made the artefact, or those for which it was accepted last."""
        last = self.accepted[-1] if self.accepted else self
        return last.settings, last.code

    def check(self, path: Path, digest: str) -> None:
        """Raise DamagedFileError unless a file with this sha256 is the output of this name.

        Folders may be moved together with their sidecars, so only the name counts.
        """
        recorded = [file.sha256 for file in self.outputs.values() if Path(file.path).name == path.name]
        if digest not in recorded:
            raise DamagedFileError(
                f"not the file that {self.stage} wrote: edited, damaged, or copied from elsewhere",
                where=path,
                expected=f"sha256 {recorded[0][:12]}" if recorded else f"a sidecar of {path.name}",
                found=f"sha256 {digest[:12]}" if recorded else "a sidecar of another file",
                next_step="delete it and run the study again, which makes it again",
            )


def check_file(path: Path, digest: str) -> None:
    """`Sidecar.check` of a file that may be the user's, and then has no sidecar and passes."""
    if sidecar_path(path).is_file():
        Sidecar.read(path).check(path, digest)


def library_versions(libraries: Sequence[str]) -> dict[str, str]:
    versions = {library: importlib.metadata.version(library) for library in libraries}
    return {"phrasemt": __version__, "python": platform.python_version(), **versions}


def origin(
    stage: str,
    *,
    inputs: Mapping[str, Sequence[Path]],
    settings: Settings,
    code: str,
    libraries: Sequence[str] = (),
    programs: Mapping[str, str] | None = None,
) -> Sidecar:
    """The sidecar of a run of a stage, without its outputs. programs: versions of further ones that it runs."""
    return Sidecar(
        stage=stage,
        settings=settings.model_dump(mode="json"),
        code=code,
        versions=library_versions(libraries) | dict(programs or {}),
        inputs={
            name: [RecordedFile(path=str(path), sha256=digest_file(path)) for path in paths]
            for name, paths in sorted(inputs.items())
        },
        outputs={},
    )


@dataclass(frozen=True)
class Unfinished:
    """Outputs under their temporary paths. digests: sha256 of an output, by name; `produce` adds missing ones."""

    paths: dict[str, Path]
    digests: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def produce(made_of: Sidecar, outputs: Mapping[str, Path]) -> Iterator[Unfinished]:
    """Give temporary paths for the outputs. When the block ends without an error, rename them and write their sidecars.

    If the block raises an error, no output is left. Leftovers of killed runs of the same outputs are removed; the
    workflow never runs two jobs for one output.
    """
    for path in outputs.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        # The suffix may come twice: a stage may write its temporary path atomically, too.
        leftover = re.compile(rf"\.+{re.escape(path.name)}(\.meta\.json)?(\.\d+\.part)+")
        for entry in path.parent.iterdir():
            if leftover.fullmatch(entry.name):
                entry.unlink(missing_ok=True)
    unfinished = Unfinished({name: temporary_beside(path) for name, path in outputs.items()})
    try:
        yield unfinished
        digests = unfinished.digests
        digests.update({name: digest_file(path) for name, path in unfinished.paths.items() if name not in digests})
        files = {name: RecordedFile(path=str(path), sha256=digests[name]) for name, path in outputs.items()}
        sidecar = made_of.model_copy(update={"outputs": files})
        # Both sides of a monolingual text are outputs of one path, and one file.
        for path, name in {path: name for name, path in outputs.items()}.items():
            commit_file(unfinished.paths[name], path)
            sidecar.write(path)
    finally:
        for path in unfinished.paths.values():
            path.unlink(missing_ok=True)
