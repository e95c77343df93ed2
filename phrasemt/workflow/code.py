"""Digests of code: they decide, with settings and inputs, whether a finished artefact is still valid."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FOLDER_OF_PACKAGES = Path(__file__).parents[2]
OUR_PACKAGES = ("phrasemt", "democorpus")
# Modules, and packages of modules, that code digests leave out, each with the reason why an edit changes no artefact.
WITHOUT_EFFECT = {
    "phrasemt": "it holds the version, which every sidecar names",
    "phrasemt.study": "stages read values of settings, which are part of the rerun key, and run no code of settings",
    "phrasemt.stages": "as for phrasemt.study; a value that a declaration computes is a setting of the stage",
    "phrasemt.artefacts.paths": "stages get paths from their commands; outputs at other paths are other files",
    "phrasemt.fields": "it is the base of settings, whose text is part of the rerun key",
    "phrasemt.errors": "it forms messages; a stage that raises an error leaves no artefact",
    "phrasemt.workflow.code": "it computes the digests; another way to compute them changes all digests",
    "phrasemt.runs.notes": "it writes notes for people, beside logs",
    "phrasemt.machine": "it starts processes and chooses GPUs; the record of a training has the number of processes",
    "phrasemt.training.reporting": "it writes progress for people, beside the state of a training",
}


@functools.cache
def code_digest(*modules: str) -> str:
    """Digest of modules and all modules of our packages that they import, without comments, docstrings and layout.

    A template, style, script or table beside a module (`page.css` and `page.table.html` beside `page.py`) counts as its
    code.

    Snakemake sees only the command of a rule; with this among a rule's parameters, a changed formula reruns the stage
    and what follows, and a changed comment reruns nothing.
    """
    digest = hashlib.sha256()
    for module in sorted(import_closure(modules)):
        digest.update(f"{module}\0".encode() + _code(module))
    return digest.hexdigest()[:16]


@functools.cache
def module_path(module: str) -> Path | None:
    base = FOLDER_OF_PACKAGES.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def import_closure(modules: Sequence[str]) -> set[str]:
    """These modules and all modules of our packages that they import, without those of WITHOUT_EFFECT."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in found or _is_left_out(module) or module_path(module) is None:
            continue
        found.add(module)
        waiting.extend(_imports(module))
    missing = [module for module in modules if module not in found and not _is_left_out(module)]
    assert not missing, f"no such modules: {missing}"
    return found


def _is_left_out(module: str) -> bool:
    parts = module.split(".")
    return module == "phrasemt" or any(
        ".".join(parts[:length]) in WITHOUT_EFFECT for length in range(2, len(parts) + 1)
    )


@functools.cache
def _imports(module: str) -> frozenset[str]:
    found: set[str] = set()
    for node in _statements(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith(OUR_PACKAGES)}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OUR_PACKAGES):
            assert node.module is not None
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


@functools.cache
def _tree(module: str) -> ast.Module:
    path = module_path(module)
    return ast.parse(path.read_bytes() if path is not None else b"")


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node, at any depth. Expressions hold none, and they are nine tenths of a tree."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from _statements(child)


@functools.cache
def _code(module: str) -> bytes:
    """The code of a module without comments, docstrings and layout, and the files of its name beside it."""
    tree = _tree(module)
    for node in (tree, *_statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                    node.body = rest or [ast.Pass()]
    path = module_path(module)
    beside = sorted(path.parent.glob(f"{path.stem}.*")) if path else []
    parts = [part.read_bytes() for part in beside if part.suffix in (".html", ".css", ".js", ".tsv")]
    words: list[str] = []
    _add_words(tree, words)
    return "\0".join([*words, ""]).encode() + b"".join(parts)


def _add_words(value: Any, words: list[str]) -> None:
    """Add a tree as words that every version of Python agrees on, as on `ast.unparse` and `ast.dump` they do not.

    Left out are empty fields, because newer versions have more of them, empty parts of an f-string, which some versions
    make, and whether a name is read or assigned, which follows from its place.
    """
    if isinstance(value, ast.AST):
        words.append(type(value).__name__)
        for field in value._fields:
            part = getattr(value, field, None)
            if isinstance(value, ast.JoinedStr):
                part = [one for one in value.values if not (isinstance(one, ast.Constant) and one.value == "")]
            if field != "ctx" and part not in (None, []):
                words.append(field)
                _add_words(part, words)
    elif isinstance(value, list):
        words.append(str(len(value)))
        for item in value:
            _add_words(item, words)
    else:
        words.append(ascii(value))
