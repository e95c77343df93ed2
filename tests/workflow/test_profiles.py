"""The profiles of this machine and of Slurm work right after the installation that README.md describes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from workplace import Workplace


@pytest.mark.parametrize("profile", ["profiles/local", "slurm"])
def test_a_profile_plans_a_study(repository: Path, tmp_path: Path, profile: str) -> None:
    workplace = replace(Workplace.new(repository, tmp_path), profile=profile)
    done = workplace.snakemake("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "results/tiny/report.html" in done.stdout
    assert list(workplace.folder.glob("results/*")) == []


def test_a_run_that_is_promised_gpus_does_not_train_on_the_cpu(repository: Path, tmp_path: Path) -> None:
    workplace = Workplace.new(repository, tmp_path)
    done = workplace.snakemake("results/tiny/demo.en-de/raw/dev.en", "--resources", "gpu=99")
    assert done.returncode == 2, done.stderr
    assert "phrasemt: error: --resources gpu=99: this machine has fewer GPUs" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (workplace.results / "demo.en-de").exists()
