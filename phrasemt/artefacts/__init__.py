"""All kinds of files (phrasemt/artefacts/artefact.py), by name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from phrasemt.artefacts.artefact import Artefact
from phrasemt.artefacts.plain import PLAIN_KINDS
from phrasemt.errors import MismatchError


@functools.cache
def kinds() -> dict[str, type[Artefact]]:
    """The classes of all kinds by name. The first call imports NumPy and Arrow, which some of them read with."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    found = {one.__name__: one for one in classes if issubclass(one, Artefact) and hasattr(one, "pattern")}
    return found | {name: type(name, (Artefact,), {}, pattern=pattern) for name, pattern in PLAIN_KINDS.items()}


@functools.cache
def by_attribute() -> dict[str, type[Artefact]]:
    """The classes by their name in rules: TrainingRecord is training_record."""
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind for name, kind in kinds().items()}


def kind_of(path: Path) -> type[Artefact]:
    """The kind of a file by its path: the one whose pattern has the most letters of its own."""
    return next((kind for kind in _most_letters_first() if kind.pattern.fits(path)), kinds()["UserFile"])


def by_kind(paths: Iterable[Path], declared: Iterable[str]) -> dict[type[Artefact], list[Path]]:
    """Files by their kind, in their order. declared: the kinds of such an input of a stage.

    Raises MismatchError for a file of another kind.
    """
    expected = " | ".join(declared)
    found = defaultdict[type[Artefact], list[Path]](list)
    for path in paths:
        kind = kind_of(path)
        if kind.__name__ not in expected.split(" | "):
            what = "a file of a kind that this stage does not read"
            raise MismatchError(what, where=path, expected=expected, found=kind.__name__)
        found[kind].append(path)
    return found


@functools.cache
def _most_letters_first() -> list[type[Artefact]]:
    return sorted(kinds().values(), key=lambda kind: len(kind.pattern.glob), reverse=True)
