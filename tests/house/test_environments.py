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
from pathlib import Path

import pytest
import yaml

import phrasemt.models
from phrasemt.provenance import _import_closure
from phrasemt.stages import STAGES, _family, _segmenter
from phrasemt.syntax import segmenters

SEGMENTERS = [f"{segmenters.__name__}.{module.name}" for module in pkgutil.iter_modules(segmenters.__path__)]
FAMILIES = [f"phrasemt.models.{module.name}" for module in pkgutil.iter_modules(phrasemt.models.__path__)]


@functools.cache
def _loaded_by_the_command_line() -> frozenset[str]:
    """Top-level names of all modules there are once the command line has read its arguments."""
    code = "import sys; from phrasemt.cli import _parser; _parser(); print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split()) - set(sys.stdlib_module_names) - {"phrasemt"}


def _imports(repository: Path, module: str) -> set[str]:
    base = repository.joinpath(*module.split("."))
    path = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"phrasemt"}


@pytest.mark.parametrize("stage", STAGES)
def test_an_environment_has_what_its_stages_import(repository: Path, stage: str) -> None:
    rules = "\n".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    environment = re.search(rf'^rule {stage}:$.*?conda:\s+"\.\./(envs/\w+\.yaml)"', rules, flags=re.M | re.S)
    assert environment is not None
    packages = yaml.safe_load((repository / environment.group(1)).read_text())["dependencies"][-1]["pip"]
    available = {package.split("==")[0] for package in packages}

    chosen = {None: [], _family: FAMILIES, _segmenter: SEGMENTERS}[STAGES[stage].chosen]
    modules = [STAGES[stage].module, *chosen]
    imported = {name for module in _import_closure(modules) for name in _imports(repository, module)}
    distributions = importlib.metadata.packages_distributions()
    loaded = {name for name in _loaded_by_the_command_line() if name in distributions}
    needed = {distributions[name][0].lower().replace("_", "-") for name in imported | loaded}
    # What our packages need themselves comes with them.
    ours = set(tomllib.loads((repository / "pyproject.toml").read_text())["project"]["dependencies"])
    assert needed & ours <= available
