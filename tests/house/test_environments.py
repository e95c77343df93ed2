"""A conda environment has what its stages import; nobody notices otherwise before a cluster does."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import phrasemt.models
from phrasemt.stages import STAGES
from phrasemt.stages.stage import ModelStage
from phrasemt.workflow.code import OUR_PACKAGES, import_closure

ENVIRONMENTS = sorted(path.name for path in (Path(__file__).parents[2] / "envs").glob("*.yaml"))
FAMILIES = [f"phrasemt.models.{module.name}" for module in pkgutil.iter_modules(phrasemt.models.__path__)]


@functools.cache
def _loaded_by_the_command_line() -> frozenset[str]:
    """Top-level names of all modules there are once the command line has read its arguments."""
    code = "import sys; from phrasemt.cli import _parser; _parser(); print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split()) - set(sys.stdlib_module_names) - set(OUR_PACKAGES)


_distributions = functools.cache(importlib.metadata.packages_distributions)


@functools.cache
def _imports(repository: Path, module: str) -> set[str]:
    base = repository.joinpath(*module.split("."))
    path = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - set(OUR_PACKAGES)


@dataclass(frozen=True)
class Environment:
    """A file of envs/: its Python, and the versions that pip installs."""

    python: str
    packages: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Environment:
        content = yaml.safe_load(path.read_text())
        assert content.keys() == {"channels", "dependencies"}
        assert content["channels"] == ["conda-forge", "nodefaults"], "your own channels must not count"
        python, pip, packages = content["dependencies"]
        assert pip == "pip"
        assert python.startswith("python=")
        return cls(python.removeprefix("python="), dict(package.split("==") for package in packages["pip"]))


def _project(repository: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return project


def _with_what_they_need(names: Iterable[str], python: str, pins: dict[str, str]) -> set[str]:
    """The packages and all that they need under this Python, which the pinned versions must satisfy."""
    place = {"python_version": python, "python_full_version": f"{python}.0"}
    waiting, seen = [Requirement(name) for name in names], set()
    while waiting:
        package = waiting.pop()
        name = canonicalize_name(package.name)
        if (name, *sorted(package.extras)) in seen:
            continue
        seen.add((name, *sorted(package.extras)))
        for text in importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            extras = package.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({**place, "extra": extra}) for extra in extras):
                pin = pins.get(canonicalize_name(needed.name))
                assert pin, f"{name} needs {needed}, which constraints.txt does not pin"
                assert needed.specifier.contains(pin), f"{name} needs {needed}, constraints.txt has {pin}"
                waiting.append(needed)
    return {name for name, *_ in seen}


def _environment(repository: Path, stage: str) -> str:
    """The file that the rule of a stage names."""
    rules = "\n".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    rule = re.split(r"^rule ", rules.split(f"\nrule {stage}:\n")[1], flags=re.MULTILINE)[0]
    environment = re.search(r'^    conda:\n        "\.\./envs/(\w+\.yaml)"$', rule, flags=re.MULTILINE)
    assert environment is not None, f"the rule {stage} names no environment"
    return environment.group(1)


def _chosen(stage: str) -> list[str]:
    """The modules among which the study chooses for a stage."""
    return FAMILIES if issubclass(STAGES[stage], ModelStage) else []


@pytest.mark.parametrize("stage", STAGES)
def test_an_environment_has_what_its_stages_import(repository: Path, stage: str) -> None:
    available = Environment.read(repository / "envs" / _environment(repository, stage)).packages.keys()
    modules = [STAGES[stage].module, *_chosen(stage)]
    imported = {name for module in import_closure(modules) for name in _imports(repository, module)}
    distributions = _distributions()
    loaded = {name for name in _loaded_by_the_command_line() if name in distributions}
    needed = {distributions[name][0].lower().replace("_", "-") for name in imported | loaded}
    assert needed & set(_project(repository)["dependencies"]) <= available


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_has_all_versions_of_the_constraints(repository: Path, pins: dict[str, str], name: str) -> None:
    environment = Environment.read(repository / "envs" / name)
    assert name in {_environment(repository, stage) for stage in STAGES}, "no rule names it"
    direct = environment.packages.keys() & set(_project(repository)["dependencies"])
    assert environment.packages == {
        package: pins[package] for package in _with_what_they_need(direct, environment.python, pins)
    }


@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_the_constraints_pin_all_that_is_installed(repository: Path, pins: dict[str, str], python: str) -> None:
    project = _project(repository)
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    direct = [*project["dependencies"], *extras]
    assert _with_what_they_need(direct, python, pins) <= pins.keys()


def test_all_recipes_have_one_python(repository: Path) -> None:
    pythons = {Environment.read(repository / "envs" / name).python for name in ENVIRONMENTS}
    pythons |= set(
        re.findall(r"^FROM python:(\d+\.\d+)-", (repository / "Containerfile").read_text(), flags=re.MULTILINE)
    )
    assert len(pythons) == 1
    assert SpecifierSet(_project(repository)["requires-python"]).contains(pythons.pop())
