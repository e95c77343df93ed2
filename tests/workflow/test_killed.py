"""Killing a stage, then Snakemake itself, and running the same command again ends with the same table."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from processes import PATIENCE, wait_until
from workplace import Workplace


def _processes(stage: str, workplace: Workplace) -> list[psutil.Process]:
    """The processes `python -m phrasemt STAGE` in the workplace, without the shells around them."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "cwd"])
        if process.info["cwd"] == str(workplace.folder) and (process.info["cmdline"] or [])[2:4] == ["phrasemt", stage]
    ]


def _wait_for(stage: str, workplace: Workplace, run: subprocess.Popen[str]) -> psutil.Process:
    """The process of a stage, as soon as the run has started it."""
    wait_until(lambda: _processes(stage, workplace), run)
    return _processes(stage, workplace)[0]


def _start(workplace: Workplace) -> subprocess.Popen[str]:
    return subprocess.Popen(
        workplace.command(), cwd=workplace.folder, env=workplace.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def _unlock(workplace: Workplace) -> str:
    done = workplace.phrasemt("unlock")
    assert done.returncode == 0
    return done.stderr


def _results(workplace: Workplace) -> dict[str, bytes]:
    names = ("table.json", "table.md", "table.tex", "table.csv")
    return {name: (workplace.results / name).read_bytes() for name in names}


def _unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


@pytest.mark.slow
def test_killed_anywhere_the_same_command_ends_with_the_same_table(finished: Workplace) -> None:
    expected = _results(finished)
    killable = replace(finished, warm=None)
    model = finished.results / "demo.en-de" / "models" / "max" / "1"
    shutil.rmtree(model)
    for name in expected:
        (finished.results / name).unlink()

    # A stage is killed: Snakemake says so, and keeps nothing of it.
    run = _start(killable)
    _wait_for("train_model", killable, run).kill()
    output, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1
    assert "Error in rule train_model:" in output
    assert not (model / "training.json").exists()

    # Snakemake is killed: its stage goes on without it, so the lock is not taken away under it.
    run = _start(killable)
    orphan = _wait_for("train_model", killable, run)
    orphan.suspend()  # a long training
    run.kill()
    run.wait(PATIENCE)
    message = _unlock(finished)
    assert f"the lock remains, because train_model (process {orphan.pid}) still runs here" in message
    orphan.kill()
    orphan.wait(PATIENCE)

    # A lock without anybody at work.
    locked = finished.snakemake()
    assert locked.returncode == 1
    assert "--unlock" in locked.stdout + locked.stderr
    assert _unlock(finished) == "unlock: removed the lock of a killed run\n"
    assert _unlock(finished) == ""

    done = finished.snakemake()
    assert done.returncode == 0, done.stderr
    assert _results(finished) == expected
    assert not _unfinished(finished.results)
