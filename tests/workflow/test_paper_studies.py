"""Each study of a paper is planned for a cluster, and runs at the size micro to its table, scorecard and report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from nist_texts import write_nist_texts
from workplace import Workplace

from phrasemt.cli import main
from phrasemt.study.claims import claims
from phrasemt.study.reading import load_study

STUDIES = sorted(Path(__file__).parents[2].glob("studies/*20[0-9][0-9]-*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_dry_run_on_slurm_plans_every_training(path: Path, repository: Path, tmp_path: Path) -> None:
    workplace = replace(Workplace.new(repository, tmp_path, path.read_text()), profile="slurm")
    write_nist_texts(tmp_path / "data")
    done = workplace.snakemake("--dry-run", "--quiet", "host")
    assert done.returncode == 0, done.stderr[-5000:]
    study = load_study(path)
    trainings = len(study.trained) * len(study.seeds) * len(study.datasets)
    assert re.search(rf"^train_model +{trainings}$", done.stdout + done.stderr, re.MULTILINE)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_of_a_paper_runs_to_its_table(
    path: Path, repository: Path, tmp_path: Path, warm: dict[str, str]
) -> None:
    assert main(["scale", str(path), "micro", "--output", str(tmp_path / "micro.yaml")]) == 0
    cold = Workplace.new(repository, tmp_path, (tmp_path / "micro.yaml").read_text())
    workplace = replace(cold, variables=warm)
    done = workplace.snakemake()
    assert done.returncode == 0, done.stderr[-5000:]
    study = load_study(tmp_path / "study.yaml")
    results = tmp_path / "results" / study.study
    table = json.loads((results / "table.json").read_text())
    of_systems = {system.title for system in study.systems.values()}
    rows = [line for line in (results / "table.md").read_text().splitlines() if line.startswith("| ")]
    assert of_systems <= {row.split("|")[1].strip() for row in rows}
    # Each printed figure that the study stands for has a line beside ours.
    expected = [(claim.system, claim.place) for claim in claims(study)]
    assert sorted((line["system"], line["place"]) for line in table["scorecard"]["entries"]) == sorted(expected)
    assert "</html>" in (results / "report.html").read_text()
