"""Documents name things that exist: paths, decisions, and the rooms of the package in the order of the contract."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "config").glob("*.md"),
        *(REPOSITORY / "profiles").glob("*.md"),
        *(REPOSITORY / "tests" / "benchmarks").glob("*.md"),
    ]
)
# Folders at the top level of the repository. A path in a document begins with one of them.
TOP = "phrasemt|docs|tests|studies|profiles|slurm|rules|workflow|config|envs"
SOURCES = ("*.py", "*.yaml", "*.smk", "*.html", "*.md", "*.json")
WRITTEN = {"slurm/site.yaml"}  # by `phrasemt slurm`; git ignores it
DECISION = r"[XANCS]\d{1,2}"


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def _paths(document: Path) -> set[str]:
    """Paths in backticks; a placeholder such as <family> stands for any name."""
    spans = re.findall(r"`([^`\n]+)`", document.read_text())
    words = {word.rstrip(".,:;") for span in spans for word in span.split()}
    return {word for word in words if re.fullmatch(rf"(?:{TOP})/[\w./<>*-]*", word)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_every_path_in_a_document_exists(document: Path) -> None:
    missing = [
        path
        for path in _paths(document) - WRITTEN
        if not list(REPOSITORY.glob(re.sub(r"<[^>]*>", "*", path).rstrip("/")))
    ]
    assert not missing, f"{_name(document)} names {missing}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    named = re.findall(r"`(?:tests/[\w/]+/)?(test_\w+\.py)(?:::|`: `)(test_\w+)`", document.read_text())
    tests = REPOSITORY / "tests"
    assert not [
        name for file, name in named if not any(f"def {name}(" in path.read_text() for path in tests.rglob(file))
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_every_link_in_a_document_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    assert not [link for link in links if "://" not in link and not (document.parent / link).exists()]


def test_every_row_about_code_in_the_table_of_reruns_is_tested() -> None:
    rows = re.findall(r"^\| code of (.*?) \|", (REPOSITORY / "docs" / "reruns.md").read_text(), flags=re.MULTILINE)
    modules = {module for row in rows for module in re.findall(r"`phrasemt/([\w/]+\.py)`", row)}
    tests = (REPOSITORY / "tests" / "workflow" / "test_reruns.py").read_text()
    assert modules
    assert not {module for module in modules if f'"{module}": ' not in tests}


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [REPOSITORY / name for name in listed.stdout.split("\0") if name]


def test_every_document_that_the_sources_name_exists() -> None:
    named = {
        (_name(path), document)
        for path in _tracked(*SOURCES)
        for document in re.findall(r"(?<![\w/])(?:docs|profiles|config)/[\w/-]+\.(?:md|svg)", path.read_text())
    }
    assert ("phrasemt/models/biscale.py", "docs/decisions.md") in named
    assert not {(path, document) for path, document in named if not (REPOSITORY / document).is_file()}


def _numbered() -> set[str]:
    """The numbers in the first column of the tables of docs/decisions.md."""
    numbers = re.findall(
        rf"^\| ({DECISION}) \|", (REPOSITORY / "docs" / "decisions.md").read_text(), flags=re.MULTILINE
    )
    assert len(numbers) == len(set(numbers)), "a decision has two rows"
    return set(numbers)


def test_every_decision_that_the_sources_name_is_listed() -> None:
    """Numbers in a line with the word "decision", and numbers in brackets."""
    found = set()
    for path in _tracked("phrasemt/*.py", "tests/*.py", "studies/*.yaml", "docs/*.md", "workflow/*.json"):
        for line in path.read_text().splitlines():
            found |= {(_name(path), number) for number in re.findall(rf"[(;] ?({DECISION})(?=[),])", line)}
            if "decision" in line.lower():
                found |= {(_name(path), number) for number in re.findall(rf"\b({DECISION})\b", line)}
    assert ("phrasemt/decoding/contrasts.py", "X18") in found
    numbers = _numbered()
    assert not {(path, number) for path, number in found if number not in numbers}


def _layers_of_the_contract() -> list[str]:
    """Layers from top to bottom, as import-linter reads them."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return list(layers)


def _first_column(heading: str) -> list[list[str]]:
    """The names in the first column of the table below a heading of docs/architecture.md, row by row."""
    section = (REPOSITORY / "docs" / "architecture.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    return [re.findall(r"`([\w.]+)`", row) for row in rows]


def test_the_table_of_training_has_every_module() -> None:
    modules = {path.stem for path in (REPOSITORY / "phrasemt" / "training").glob("*.py")} - {"__init__"}
    assert {name for row in _first_column("How a training runs") for name in row} == modules


def test_the_table_of_layers_is_the_import_contract() -> None:
    documented = _first_column("Layers")
    assert documented == [re.findall(r"phrasemt\.([\w.]+)", layer) for layer in _layers_of_the_contract()]
