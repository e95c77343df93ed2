"""`phrasemt unlock`: it removes the lock of a run that is dead, and of no other, whoever and wherever that is."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from invented_runs import RUN, ago, begun, gone, job, keep_silent, stage
from workplace import STUDY

from phrasemt.commands.unlock import LOCKS, unlock
from phrasemt.errors import PhrasemtError
from phrasemt.runs.notes import CLAIMS, StageNote, queue_name
from phrasemt.runs.start import refuse_same_outputs

LOCK = LOCKS / "0.output.lock"
TRAINING = job("train_model", "max")
HERE = {"host": platform.node()}
LONG = timedelta(minutes=11)


@pytest.fixture(autouse=True)
def _locked(here: Path) -> None:
    LOCKS.mkdir(parents=True)
    LOCK.write_text("results/demo/table.md\n")


def _claimed(**changes: Any) -> None:
    StageNote(stage="snakemake", **changes).write(CLAIMS / "one.json")


def _killed() -> None:
    begun(TRAINING, **HERE, pid=gone())
    _claimed(**HERE, pid=gone())


def _killed_before_its_note() -> None:
    _claimed(**HERE, pid=gone())


def _silent_elsewhere() -> None:
    begun(TRAINING)
    _claimed(host="elsewhere")
    keep_silent(CLAIMS / "one.json", LONG)
    keep_silent(RUN, LONG)


def _running_elsewhere() -> None:
    begun(TRAINING, pid=17)


def _other_study_running_elsewhere() -> None:
    begun(job("train_model", "two", outputs=[LOCK.read_text().strip()]), pid=17).write(Path("logs/other/runs/one.json"))
    _killed()


def _in_a_container_of_this_name() -> None:
    begun(TRAINING, **HERE, pid=gone(), pid_namespace="pid:[1]")


def _stage_elsewhere() -> None:
    _killed()
    stage(TRAINING, host="node7", pid=17)


def _stage_of_another_user_here() -> None:
    """Its working folder would not be told, but its number is."""
    _killed()
    stage(TRAINING, **HERE, pid=os.getppid(), started=ago(seconds=-5))


def _beginning_elsewhere() -> None:
    """A run that has not come to its note, after one that was killed."""
    _killed()
    StageNote(stage="snakemake", host="elsewhere", pid=18).write(CLAIMS / "other.json")


def _not_ours() -> None:
    """A lock that no run of phrasemt made."""


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        (_killed, None),
        (_killed_before_its_note, None),
        (_silent_elsewhere, None),
        (_running_elsewhere, "another run goes on here: snakemake (process 17 on elsewhere). A study that makes"),
        (_other_study_running_elsewhere, "another run goes on here: snakemake (process 17 on elsewhere)"),
        (_in_a_container_of_this_name, "another run goes on here: snakemake (process "),
        (_stage_elsewhere, "the lock remains, because train_model (process 17 on node7) still runs here"),
        (_stage_of_another_user_here, f"because train_model (process {os.getppid()} on {platform.node()}) still runs"),
        (_beginning_elsewhere, "another run goes on here: snakemake (process 18 on elsewhere)"),
        (_not_ours, "the lock remains, because no run of phrasemt was killed here"),
    ],
)
def test_only_the_lock_of_a_dead_run_is_removed(
    situation: Callable[[], None], message: str | None, phrasemt: Callable[..., Any]
) -> None:
    situation()
    said = phrasemt("unlock")
    assert (said.code, said.out) == (0, "")
    assert LOCK.exists() == bool(message)
    assert (message or "unlock: removed the lock") in said.err


def test_the_lock_of_another_user_remains(phrasemt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _killed()
    monkeypatch.setattr(os, "getuid", lambda: LOCK.stat().st_uid + 1)
    assert "the lock remains, because it belongs to another user" in phrasemt("unlock").err
    assert LOCK.exists()


OTHER = Path("logs/other/runs/20260101T000000-2.json")


class Queue:
    """Slurm's queue. jobs: their names by their numbers."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}

    def end(self, jobs: Iterable[str]) -> None:
        for number in list(jobs):
            del self.jobs[number]


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    monkeypatch.setattr("phrasemt.runs.notes.jobs_here", lambda: dict(queue.jobs))
    monkeypatch.setattr("phrasemt.commands.unlock.end_jobs", queue.end)
    return queue


def test_jobs_that_a_run_on_another_login_node_waits_for_are_not_cancelled(
    queue: Queue, phrasemt: Callable[..., Any]
) -> None:
    queue.jobs = {"5": queue_name(RUN)}
    _running_elsewhere()
    stage(TRAINING, host="node7", queue_job="5")
    said = phrasemt("unlock", "--cancel")
    assert said.code == 2
    assert "nothing was cancelled (found 5)" in said.err
    assert queue.jobs
    _killed()
    assert phrasemt("unlock", "--cancel").code == 0
    assert not LOCK.exists(), "a job that Slurm has ended is dead, even if it could not say so"


def test_jobs_and_lock_of_a_killed_run_beside_one_of_another_study(queue: Queue, phrasemt: Callable[..., Any]) -> None:
    """Jobs of the dead run are named and cancelled; those of the living one, and its lock, stay."""
    queue.jobs = {"5": queue_name(RUN), "6": queue_name(OTHER), "7": "a job of somebody"}
    _killed()
    stage(TRAINING, host="node7", queue_job="5")
    begun(job("train_model", "two", outputs=["results/other/table.md"]), study="other", pid=17).write(OTHER)
    begun(TRAINING, **HERE, pid=gone())
    of_other = [LOCKS / f"1.{kind}.lock" for kind in ("input", "output")]
    for lock in of_other:
        lock.write_text("results/other/table.md\n")
    refuse_same_outputs([job("train_model", "another")])
    with pytest.raises(PhrasemtError, match=r"Slurm jobs of a run that ended still write in this folder \(found 5\)"):
        refuse_same_outputs([TRAINING])
    assert "a run in this folder have not ended: 5. Nothing was done. Next: `phrasemt unlock --cancel`" in (
        phrasemt("unlock").err
    )
    assert unlock(study="other"), "it may run"
    assert not unlock(study="demo")
    said = phrasemt("unlock", "--cancel").err
    assert "unlock: cancelled Slurm jobs 5" in said
    assert "removed the lock" in said
    assert queue.jobs.keys() == {"6", "7"}
    assert set(LOCKS.iterdir()) == set(of_other)
    refuse_same_outputs([TRAINING])


def test_only_jobs_of_runs_are_theirs(queue: Queue, phrasemt: Callable[..., Any]) -> None:
    """Snakemake itself, and this command, may run in a job of this folder."""
    queue.jobs = {"7": "make study"}
    _killed()
    assert phrasemt("unlock", "--cancel").code == 0
    assert not LOCK.exists()


def test_a_study_may_run_beside_jobs_that_another_one_left(queue: Queue) -> None:
    """Snakemake compares its files with the lock, which stays."""
    queue.jobs = {"5": queue_name(RUN)}
    _killed()
    stage(TRAINING, host="node7", queue_job="5")
    assert unlock(study="other")
    assert LOCK.exists()


def test_no_run_begins_beside_one_that_makes_the_same_files() -> None:
    """Also when somebody has removed the lock."""
    own = job("score_system", "max")
    _killed()
    refuse_same_outputs([TRAINING, own])
    _running_elsewhere()
    refuse_same_outputs([own])
    with pytest.raises(PhrasemtError, match=r"train_model/max: another run makes the same files .*17 on elsewhere"):
        refuse_same_outputs([own, TRAINING])


# Snakemake, killed when it opens a file of which this is a part of the path.
_KILLED = """
import os, runpy, sys
part = sys.argv.pop(1)
sys.addaudithook(lambda event, arguments: (
    event == "open" and part in str(arguments[0]) and arguments[2] & os.O_WRONLY and os.kill(os.getpid(), 9)))
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "part",
    [
        ".snakemake/locks/",
        *(pytest.param(part, marks=pytest.mark.slow) for part in (".snakemake/claims/", "logs/tiny/runs/")),
    ],
)
def test_a_run_that_is_killed_at_its_start_leaves_nothing_in_the_way(
    part: str, repository: Path, phrasemt: Callable[..., Any]
) -> None:
    LOCK.unlink()
    Path("study.yaml").write_text(STUDY)
    snakemake = ["--snakefile", str(repository / "workflow/Snakefile"), "--cores", "1", "--configfile", "study.yaml"]
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, part, *snakemake], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = phrasemt("unlock")
    assert "the lock remains" not in said.err
    assert not list(LOCKS.iterdir())
    assert not list(CLAIMS.glob("*.json"))
