"""All kinds of files (phrasemt/artefacts/artefact.py), by name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re

from phrasemt.artefacts.artefact import Artefact


@functools.cache
def kinds() -> dict[str, type[Artefact]]:
    """The classes of all kinds by name. The first call imports NumPy and Arrow, which some of them read with."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return {
        value.__name__: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Artefact) and hasattr(value, "pattern")
    }


@functools.cache
def by_attribute() -> dict[str, type[Artefact]]:
    """The classes by their name in rules: TrainingRecord is training_record."""
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind for name, kind in kinds().items()}
