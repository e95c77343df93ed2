"""Killing a stage, then Snakemake itself, and running the same command again ends with the same table."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
from workplace import Workplace

PATIENCE = 600  # seconds; only a broken workflow takes so long


def _wait_for(stage: str, workplace: Workplace) -> psutil.Process:
    """The process of a stage in the workplace, as soon as there is one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for process in psutil.process_iter(["cmdline", "cwd"]):
            command = process.info["cmdline"] or []
            # python -m phrasemt STAGE ..., not the shell around it
            if process.info["cwd"] == str(workplace.folder) and command[2:4] == ["phrasemt", stage]:
                return process
        time.sleep(0.02)
    raise AssertionError(f"{stage} has not begun")


def _start(workplace: Workplace) -> subprocess.Popen[str]:
    return subprocess.Popen(
        workplace.command(), cwd=workplace.folder, env=workplace.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def _unlock(workplace: Workplace) -> str:
    done = workplace.run(sys.executable, "-m", "phrasemt", "unlock")
    assert done.returncode == 0
    return done.stderr


def _results(workplace: Workplace) -> dict[str, bytes]:
    names = ("table.json", "table.md", "table.tex")
    return {name: (workplace.results / name).read_bytes() for name in names}


def _unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


def test_killed_anywhere_the_same_command_ends_with_the_same_table(finished: Workplace) -> None:
    expected = _results(finished)
    model = finished.results / "demo.en-de" / "models" / "max" / "1"
    shutil.rmtree(model)
    for name in expected:
        (finished.results / name).unlink()

    # A stage is killed: Snakemake says so, and keeps nothing of it.
    run = _start(finished)
    _wait_for("train_model", finished).kill()
    output, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1
    assert "failed: Train max on demo, seed 1\n    gone without a word: killed, or out of memory\n" in output
    assert not (model / "training.json").exists()

    # Snakemake is killed: its stage goes on without it, so the lock is not taken away under it.
    run = _start(finished)
    orphan = _wait_for("train_model", finished)
    orphan.suspend()  # a long training
    run.kill()
    run.wait(PATIENCE)
    message = _unlock(finished)
    assert f"the lock stays, because train_model (process {orphan.pid}) still works here" in message
    orphan.kill()
    orphan.wait(PATIENCE)

    # A lock without anybody at work.
    locked = finished.snakemake()
    assert locked.returncode == 1
    assert "--unlock" in locked.stdout + locked.stderr
    assert _unlock(finished) == "unlock: removed the lock of a run that was killed\n"
    assert _unlock(finished) == ""

    done = finished.snakemake()
    assert done.returncode == 0, done.stderr
    assert _results(finished) == expected
    assert not _unfinished(finished.results)
