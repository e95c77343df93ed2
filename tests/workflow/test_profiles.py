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
