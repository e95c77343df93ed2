"""Sidecars: the file `<artefact>.meta.json` beside an artefact records how the artefact was made.

A sidecar holds the stage, its settings, the digests of its code and of its inputs, and the versions of the libraries
that affect the result. It holds no time and no host name, so equal work gives equal bytes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from phrasemt import __version__
from phrasemt.artefacts.artefact import JsonFile
from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.lines import commit_files, temporary_beside
from phrasemt.files.system import check_file, digest_file

SUFFIX = ".meta.json"
_PLACE = re.compile(r"(?:.*/)?(?:results/[^/]+|resources)/(.+)")


class DigestedFile(Settings):
    """A file as it was: its path and the sha256 of its bytes."""

    path: str
    sha256: str


class Origin(Settings):
    """What decides the outputs of a run of a stage. inputs: files by role."""

    stage: str
    settings: dict[str, Any]
    code: str
    versions: dict[str, str]
    inputs: dict[str, list[DigestedFile]]

    @classmethod
    def of(
        cls,
        stage: str,
        *,
        inputs: Mapping[str, Sequence[Path]],
        settings: Settings,
        code: str,
        versions: Mapping[str, str] | None = None,
    ) -> Self:
        """Read all inputs once. versions: of libraries and programs."""
        return cls(
            stage=stage,
            settings=settings.model_dump(mode="json"),
            code=code,
            versions=dict(versions or library_versions()),
            inputs={
                role: [DigestedFile(path=str(path), sha256=digest_file(path)) for path in paths]
                for role, paths in sorted(inputs.items())
            },
        )

    @property
    def files_read(self) -> list[DigestedFile]:
        return [file for files in self.inputs.values() for file in files]


class Sidecar(JsonFile, Origin):
    """The sidecar of all outputs of a run of a stage. outputs: by role."""

    again: ClassVar[str] = "delete the file that it belongs to, and run again"

    outputs: dict[str, DigestedFile]

    @classmethod
    def beside(cls, artefact: Path | str) -> Self:
        """The sidecar of an artefact. Raises DamagedFileError if it is missing or unreadable."""
        if not sidecar_path(artefact).is_file():
            raise DamagedFileError("has no sidecar", where=artefact, next_step=f"delete {artefact} and run again")
        return cls.read(sidecar_path(artefact))

    def check(self, artefact: Path, digest: str) -> None:
        """Check that an artefact with this sha256 is the file that the stage wrote. Raises DamagedFileError if not."""
        recorded = [file.sha256 for file in self.outputs.values() if _is_place_of(file.path, artefact)]
        again = "delete it and run the study again, which makes it again"
        what = f"not the file that {self.stage} wrote: edited, damaged, or copied from elsewhere"
        if not recorded:
            first = min(file.path for file in self.outputs.values())
            expected, found = f"a sidecar of {artefact}", f"a sidecar of {first}"
            raise DamagedFileError(what, where=artefact, expected=expected, found=found, next_step=again)
        check_file(artefact, digest if digest in recorded else recorded[0], what, next_step=again, found=digest)


def _is_place_of(recorded: str, artefact: Path) -> bool:
    """Whether a file has the place where its stage wrote it, such as the system and the seed in its path.

    Folders may be moved together with their sidecars, and a study may have another name there.
    """
    places = [match[1] if (match := _PLACE.fullmatch(path)) else Path(path).name for path in (recorded, str(artefact))]
    return places[0] == places[1]


class Evidence:
    """What sidecars prove: that files are those that stages wrote. Each file is read once."""

    def __init__(self) -> None:
        self.digest = functools.cache(digest_file)
        self.check_output = functools.cache(self._check_output)

    def _check_output(self, path: Path | str) -> Sidecar:
        """The sidecar of an artefact that is the file that its stage wrote. Raises DamagedFileError for another."""
        sidecar = Sidecar.beside(path)
        sidecar.check(Path(path), self.digest(path))
        return sidecar

    def check(self, path: Path) -> None:
        """`check_output` of a file that a stage may have made or a user given: one without a sidecar passes."""
        if sidecar_path(path).is_file():
            self.check_output(path)


def sidecar_path(artefact: Path | str) -> Path:
    artefact = Path(artefact)
    return artefact.with_name(artefact.name + SUFFIX)


def library_versions(libraries: Sequence[str] = ()) -> dict[str, str]:
    """The versions of phrasemt, Python and these distributions."""
    versions = {library: importlib.metadata.version(library) for library in libraries}
    return {"phrasemt": __version__, "python": platform.python_version(), **versions}


@contextlib.contextmanager
def produce(origin: Origin, outputs: Mapping[str, Path]) -> Iterator[dict[str, Path]]:
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
    # Both sides of a monolingual text are outputs of one path, and one file.
    temporary = {path: temporary_beside(path) for path in outputs.values()}
    unfinished = {name: temporary[path] for name, path in outputs.items()}
    finals: dict[Path, Path] = {}  # of temporary files
    try:
        yield unfinished
        digests = {name: digest_file(path) for name, path in unfinished.items()}
        written = {name: DigestedFile(path=str(path), sha256=digests[name]) for name, path in sorted(outputs.items())}
        sidecar = Sidecar(**dict(origin), outputs=written)
        for path, unnamed in temporary.items():
            finals[unnamed] = path
            finals[beside := temporary_beside(sidecar_path(path))] = sidecar_path(path)
            beside.write_text(sidecar.text, encoding="utf-8")
        commit_files(finals)
    finally:
        for path in (*temporary.values(), *finals):
            path.unlink(missing_ok=True)
