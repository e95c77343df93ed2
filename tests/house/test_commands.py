"""The commands that the README promises, the versions they install, and what must stay out of the repository."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

import phrasemt
from phrasemt.stages import STAGES


def _direct(repository: Path) -> list[str]:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(name for extra in project["optional-dependencies"].values() for name in extra)]


def test_every_direct_dependency_is_pinned_with_a_reason(repository: Path, pins: dict[str, str]) -> None:
    text = (repository / "constraints.txt").read_text()
    for name in _direct(repository):
        assert name in pins, f"constraints.txt does not pin {name}"
        line = next(line for line in text.splitlines() if line.startswith(f"{name}=="))
        assert "  # " in line, f"constraints.txt does not say why {name} is there"


def test_documents_repeat_the_version_of_the_package(repository: Path) -> None:
    version = phrasemt.__version__
    repeated = {"CITATION.cff": f"\nversion: {version}\n", "docs/citing.md": f"  version = {{{version}}}\n"}
    for path, line in (repeated | {"CHANGELOG.md": f"\n## {version}, "}).items():
        assert line in (repository / path).read_text(), path


def test_make_refuses_a_misspelt_variable(repository: Path) -> None:
    command = ["make", "--no-print-directory", "study", "study=studies/multi30k.yaml"]
    done = subprocess.run(command, cwd=repository, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no such variable: study. Next: use one of PYTHON STUDY PAPER PROFILE OPTIONS MOSES" in done.stderr
    assert done.stdout == ""


def test_make_fetch_runs_the_rules_that_need_a_network(repository: Path) -> None:
    """Those run where Snakemake runs, and are the only ones that do."""
    (fetched,) = re.findall(r"--until (.+)$", (repository / "Makefile").read_text(), flags=re.MULTILINE)
    rules = "".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    local = re.findall(r"^localrules:\n((?:    \w+,\n)+)", rules, flags=re.MULTILINE)
    assert set(fetched.split()) == set(re.findall(r"\w+", "".join(local)))


def test_profiles_hold_the_machine_and_nothing_of_the_study(repository: Path) -> None:
    assert not (repository / "profiles" / "default").exists(), "Snakemake would lay it over every other profile"
    explained = (repository / "profiles" / "README.md").read_text()
    for key in yaml.safe_load((repository / "profiles" / "local" / "profile.yaml").read_text()):
        assert f"`{key}" in explained, f"profiles/README.md does not explain {key}"
    for path in (repository / "slurm" / "profile.yaml", *(repository / "profiles").glob("*/profile.yaml")):
        profile = yaml.safe_load(path.read_text())
        assert STAGES.keys() >= profile["set-resources"].keys() | profile.get("set-threads", {}).keys(), path
        assert not {"config", "configfile"} & profile.keys()
        assert profile["rerun-triggers"] == ["mtime", "params", "input"]
        assert profile["rerun-incomplete"] is True
