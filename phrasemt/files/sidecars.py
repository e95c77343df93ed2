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
from pathlib import Path
from typing import Any

from phrasemt import __version__
from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import commit_file, temporary_beside, write_text

SUFFIX = ".meta.json"
_KEYS = {"stage", "settings", "code", "versions", "inputs", "outputs"}


def sidecar_path(artefact: Path | str) -> Path:
    artefact = Path(artefact)
    return artefact.with_name(artefact.name + SUFFIX)


def read_sidecar(artefact: Path | str) -> dict[str, Any]:
    """The sidecar of an artefact. Raises DamagedFileError if it is missing, unreadable or incomplete."""
    path = sidecar_path(artefact)
    sidecar: dict[str, Any] = {}
    try:
        sidecar = json.loads(path.read_text(encoding="utf-8"))
        damage = None if isinstance(sidecar, dict) and sidecar.keys() >= _KEYS else "other JSON"
        if damage is None:
            for file in (*sidecar["outputs"].values(), *(one for files in sidecar["inputs"].values() for one in files)):
                _ = file["path"], file["sha256"]
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        damage = type(error).__name__
    if damage:
        raise DamagedFileError(
            "no readable sidecar", where=path, found=damage, next_step=f"delete {artefact} and run again"
        )
    return sidecar


def check_file(path: Path, digest: str) -> None:
    """Check that an artefact with this sha256 is the file that its stage wrote. A file without a sidecar passes.

    Files without a sidecar are the user's. Raises DamagedFileError for other contents, for the sidecar of a file of
    another name, and for an unreadable sidecar.
    """
    if not sidecar_path(path).is_file():
        return
    sidecar = read_sidecar(path)
    # Folders may be moved together with their sidecars, so only the name counts.
    recorded = [file["sha256"] for file in sidecar["outputs"].values() if Path(file["path"]).name == path.name]
    if digest not in recorded:
        raise DamagedFileError(
            f"not the file that {sidecar['stage']} wrote: edited, damaged, or copied from elsewhere",
            where=path,
            expected=f"sha256 {recorded[0][:12]}" if recorded else f"a sidecar of {path.name}",
            found=f"sha256 {digest[:12]}" if recorded else "a sidecar of another file",
            next_step="delete it and run the study again, which makes it again",
        )


def valid_for(sidecar: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The settings and the code digest for which an artefact is valid.

    These are the settings and code that made it, or those for which `phrasemt accept` accepted it last.
    """
    last = sidecar.get("accepted", [sidecar])[-1]
    return last["settings"], last["code"]


def library_versions(libraries: Sequence[str]) -> dict[str, str]:
    versions = {library: importlib.metadata.version(library) for library in libraries}
    return {"phrasemt": __version__, "python": platform.python_version(), **versions}


def origin(
    stage: str, *, inputs: Mapping[str, Sequence[Path]], settings: Settings, code: str, libraries: Sequence[str] = ()
) -> dict[str, Any]:
    """The content of the sidecars of a run of a stage, without its outputs."""
    return {
        "stage": stage,
        "settings": settings.model_dump(mode="json"),
        "code": code,
        "versions": library_versions(libraries),
        "inputs": {
            name: [{"path": str(path), "sha256": digest_file(path)} for path in paths]
            for name, paths in sorted(inputs.items())
        },
    }


@dataclass(frozen=True)
class Unfinished:
    """Outputs under their temporary paths. digests: sha256 of an output, by name; `produce` adds missing ones."""

    paths: dict[str, Path]
    digests: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def produce(made_of: Mapping[str, Any], outputs: Mapping[str, Path]) -> Iterator[Unfinished]:
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
        record = {
            **made_of,
            "outputs": {name: {"path": str(path), "sha256": digests[name]} for name, path in sorted(outputs.items())},
        }
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        # Both sides of a monolingual text are outputs of one path, and one file.
        for path, name in {path: name for name, path in outputs.items()}.items():
            commit_file(unfinished.paths[name], path)
            write_text(sidecar_path(path), text)
    finally:
        for path in unfinished.paths.values():
            path.unlink(missing_ok=True)
