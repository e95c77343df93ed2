"""Where an artefact comes from: digests of files, settings and code, and the sidecar beside every artefact.

A sidecar `<artefact>.meta.json` holds the digests of the inputs, the settings, the digest of the stage's code and the
versions of the libraries whose behaviour matters. It holds no clock and no host name: the same work, the same bytes.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
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
from phrasemt.lines import commit_file, temporary_beside, write_text

PACKAGE_FOLDER = Path(__file__).parent
_OF_A_SIDECAR = {"stage", "settings", "code", "versions", "inputs", "outputs"}
# Their effect on an artefact is wholly in the settings and digests themselves, in messages, or nil.
_MODULES_WITHOUT_EFFECT = {
    "phrasemt",
    "phrasemt.architectures",
    "phrasemt.config",
    "phrasemt.fields",
    "phrasemt.presets",
    "phrasemt.settings",
    "phrasemt.errors",
    "phrasemt.provenance",
    "phrasemt.stages",
    "phrasemt.launch",
    "phrasemt.journal",
    "phrasemt.shared_files",
    "phrasemt.train.reporting",
}


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path | str) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---------------------------------------------------------------------------------------------------------------- code


@functools.cache
def code_digest(*modules: str) -> str:
    """Digest of modules and all phrasemt modules they import, without comments, docstrings and layout.

    A page that a module fills in (`report.html` beside `report.py`) counts as its code.

    Snakemake sees only the command of a rule; with this among a rule's parameters, a changed formula reruns the stage
    and what follows, and a changed comment reruns nothing.
    """
    digest = hashlib.sha256()
    for module in sorted(_import_closure(modules)):
        digest.update(f"{module}\0".encode() + _code(module))
    return digest.hexdigest()[:16]


def module_digests(*modules: str) -> dict[str, str]:
    """The same of each of these modules by name, so that one that was edited can be named."""
    return {module: digest_bytes(_code(module))[:16] for module in sorted(_import_closure(modules))}


def module_file(module: str) -> str:
    """Where a module stands in the repository, for messages."""
    path = _module_path(module)
    return str(path.relative_to(PACKAGE_FOLDER.parent)) if path else module


def edited_since_read(*modules: str) -> list[str]:
    """Those of the modules whose file is another than the one that digests were taken from."""
    return [module for module in modules if module in _read and _read[module] != _source(module)]


def _module_path(module: str) -> Path | None:
    base = PACKAGE_FOLDER.joinpath(*module.split(".")[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _import_closure(modules: Sequence[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in found or module in _MODULES_WITHOUT_EFFECT or _module_path(module) is None:
            continue
        found.add(module)
        waiting.extend(_imports(module))
    missing = [module for module in modules if module not in found and module not in _MODULES_WITHOUT_EFFECT]
    assert not missing, f"no such modules: {missing}"
    return found


@functools.cache
def _imports(module: str) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("phrasemt")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("phrasemt"):
            assert node.module is not None
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


# What was read of each module.
_read: dict[str, bytes] = {}


def _source(module: str) -> bytes:
    path = _module_path(module)
    return path.read_bytes() if path is not None else b""


@functools.cache
def _tree(module: str) -> ast.Module:
    _read[module] = _source(module)
    return ast.parse(_read[module])


@functools.cache
def _code(module: str) -> bytes:
    """The code of a module without comments, docstrings and layout, and the page that it fills in."""
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                    node.body = rest or [ast.Pass()]
    path = _module_path(module)
    page = path.with_suffix(".html") if path else None
    return f"{ast.unparse(tree)}\0".encode() + (page.read_bytes() if page and page.is_file() else b"")


# ------------------------------------------------------------------------------------------------------------ sidecars


def sidecar_path(artefact: Path | str) -> Path:
    artefact = Path(artefact)
    return artefact.with_name(artefact.name + ".meta.json")


def read_sidecar(artefact: Path | str) -> dict[str, Any]:
    """The sidecar of an artefact.

    Raises DamagedFileError when it is missing, not readable or not whole.
    """
    path = sidecar_path(artefact)
    sidecar: dict[str, Any] = {}
    try:
        sidecar = json.loads(path.read_text(encoding="utf-8"))
        damage = None if isinstance(sidecar, dict) and sidecar.keys() >= _OF_A_SIDECAR else "other JSON"
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError) as error:
        damage = type(error).__name__
    if damage:
        raise DamagedFileError(
            "no readable sidecar", where=path, found=damage, next_step=f"delete {artefact} and run again"
        )
    return sidecar


def valid_for(sidecar: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Settings and digest of code that an artefact counts as made by: its own, or those it was last accepted for."""
    last = sidecar.get("accepted", [sidecar])[-1]
    return last["settings"], last["code"]


def library_versions(libraries: Sequence[str]) -> dict[str, str]:
    versions = {library: importlib.metadata.version(library) for library in libraries}
    return {"phrasemt": __version__, "python": platform.python_version(), **versions}


def origin(
    stage: str, *, inputs: Mapping[str, Sequence[Path]], settings: Settings, code: str, libraries: Sequence[str] = ()
) -> dict[str, Any]:
    """What outputs are made of, as their sidecars will say: all but the outputs themselves."""
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
    """Outputs under temporary names, and their sha256: of those that need not be read for it, in the end of all."""

    paths: dict[str, Path]
    digests: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def produce(made_of: Mapping[str, Any], outputs: Mapping[str, Path]) -> Iterator[Unfinished]:
    """Gives temporary paths for the outputs; when the block ends well they get their names and sidecars.

    When it fails nothing of the outputs is left. Leftovers of an earlier killed run of the same outputs are removed:
    the workflow runs one writer per output.
    """
    for path in outputs.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Twice temporary: a stage may write its (temporary) output atomically itself.
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
        for name, path in outputs.items():
            commit_file(unfinished.paths[name], path)
            write_text(sidecar_path(path), text)
    finally:
        for path in unfinished.paths.values():
            path.unlink(missing_ok=True)
