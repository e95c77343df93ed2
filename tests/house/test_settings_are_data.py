"""Settings are data: no stage runs code of phrasemt/study and phrasemt/stages, which digests of code omit.

After an edit of a property that a stage calls, the stage would give another result, and Snakemake would run nothing
again. Computed values are part of the rerun key: `test_another_computation_of_settings_reruns_what_it_changes`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import phrasemt.models
from phrasemt.fields import Settings
from phrasemt.stages import STAGES
from phrasemt.study.architectures import Architecture
from phrasemt.workflow.code import WITHOUT_EFFECT, import_closure, module_path

# Stages may use these: the text of settings, the modules for digests of code, and the files of a stage.
ALLOWED = {"canonical_json", "code_modules", "stage_files"}


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def _reached(annotation: Any) -> Iterator[type[Settings]]:
    """The classes of settings that stand in an annotation, and in the fields of these classes."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield from (found for found in annotation.__mro__ if issubclass(found, Settings))
        for field in annotation.model_fields.values():
            yield from _reached(field.annotation)
    for argument in typing.get_args(annotation):
        yield from _reached(argument)


def _computed() -> set[str]:
    """Names of properties, of methods and of constants of families, of all settings that a stage can reach."""
    left_out = ("phrasemt.study.", "phrasemt.stages.")
    classes = {found for stage in STAGES.values() for found in _reached(stage) if found.__module__.startswith(left_out)}
    names = {
        name
        for found in classes
        for name, value in vars(found).items()
        if isinstance(value, property | classmethod) or inspect.isfunction(value)
    }
    names |= Architecture.__class_vars__
    return {name for name in names if not name.startswith("_")} - {"model_post_init"} - ALLOWED


def _of_stages() -> list[str]:
    """All modules whose code decides results."""
    families = [module.__name__ for module in _modules(phrasemt.models) if hasattr(module, "build")]
    return sorted(import_closure([*(stage.module for stage in STAGES.values()), *families]))


def _tree(module: str) -> ast.Module:
    path = module_path(module)
    assert path is not None
    return ast.parse(path.read_text())


def test_stages_use_no_computed_attribute_of_settings() -> None:
    computed = _computed()
    assert {"learning_rate_width", "source_phrases", "source_begins_with_bos", "from_study"} <= computed
    for module in _of_stages():
        tree = _tree(module)
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not used & computed, f"{module} uses {used & computed}"


def test_stages_import_no_function_of_settings_modules() -> None:
    for module in _of_stages():
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                ("phrasemt.study.", "phrasemt.stages.")
            ):
                imported = [getattr(importlib.import_module(node.module), alias.name) for alias in node.names]
                assert not [value for value in imported if inspect.isroutine(value)], f"{module}: {ast.unparse(node)}"


def test_modules_without_effect_exist_and_say_why() -> None:
    for module, reason in WITHOUT_EFFECT.items():
        importlib.import_module(module)
        assert len(reason) > 20, module
