"""`phrasemt run` in another folder than the checkout. tests/workflow/test_printed_commands.py runs whole studies."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from workplace import STUDY

from phrasemt.commands.run import run
from phrasemt.errors import PhrasemtError


def _run(folder: Path, study: str) -> subprocess.CompletedProcess[str]:
    (folder / "my study.yaml").write_text(study)
    command = [sys.executable, "-m", "phrasemt", "run", "my study.yaml", "--profile", "profiles/local"]
    command += ["--snakemake", "--dry-run"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def test_a_study_runs_in_a_folder_without_the_code(tmp_path: Path) -> None:
    done = _run(tmp_path, STUDY)
    assert done.returncode == 0, done.stderr
    assert "make_table" in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


def test_another_checkout_than_the_installed_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "phrasemt").mkdir()
    (tmp_path / "phrasemt" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PhrasemtError, match=r"belongs to another checkout .*make install here"):
        run(Namespace(study=tmp_path / "study.yaml"))
