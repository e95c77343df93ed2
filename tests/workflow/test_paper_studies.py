"""Each study of a paper is planned for a cluster, and runs at the size micro to its table, scorecard and report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from micro_studies import OF_MOSES, STUDIES, assert_finished, micro
from nist_texts import write_nist_texts
from warm_python import WarmPython
from workplace import Workplace

from phrasemt.files.source_file import MIRROR
from phrasemt.study.reading import load_study

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.slow  # `make test-cluster` runs one of them, too


@pytest.mark.parametrize("path", [*STUDIES, *OF_MOSES], ids=lambda path: path.stem)
def test_a_dry_run_on_slurm_plans_every_training(path: Path, repository: Path, tmp_path: Path) -> None:
    workplace = replace(Workplace.new(repository, tmp_path, path.read_text()), profile="slurm")
    write_nist_texts(tmp_path / "data")
    done = workplace.snakemake("--dry-run", "--quiet", "host")
    assert done.returncode == 0, done.stderr[-5000:]
    study = load_study(path)
    trainings = len(study.models) * len(study.seeds) * len(study.datasets)
    jobs = f"train_model +{trainings}" if trainings else "tune_moses +1"
    assert re.search(rf"^{jobs}$", done.stdout + done.stderr, re.MULTILINE)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_of_a_paper_runs_to_its_table(
    path: Path, repository: Path, tmp_path: Path, warm: WarmPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    corpora = REPOSITORY.parent / "shared" / "data"
    if corpora.is_dir():
        monkeypatch.setenv(MIRROR, str(corpora))  # of the chunks
        text = micro(path, tmp_path, corpora)
    else:
        text = micro(path, tmp_path)
    workplace = Workplace.new(repository, tmp_path, text, warm)
    done = workplace.snakemake()
    assert done.returncode == 0, done.stderr[-5000:]
    assert_finished(tmp_path)
