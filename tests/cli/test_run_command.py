"""`phrasemt run` in another folder than the checkout. tests/workflow/test_printed_commands.py runs whole studies."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from processes import PATIENCE, wait_until
from workplace import STUDY

from phrasemt.commands.run import _follow, _Progress, run
from phrasemt.errors import PhrasemtError

_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def _run(folder: Path, study: str) -> subprocess.CompletedProcess[str]:
    (folder / "my study.yaml").write_text(study)
    command = [sys.executable, "-m", "phrasemt", "run", "my study.yaml", "--profile", "profiles/local"]
    command += ["-n", "--cores", "1"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_a_study_runs_in_a_folder_without_the_code(tmp_path: Path) -> None:
    done = _run(tmp_path, STUDY)
    assert done.returncode == 0, done.stderr
    assert "make_table" in done.stdout + done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith(("Using profile", "Assuming"))]
    assert "every system is trained once" not in done.stderr, "the table says it"
    assert not (tmp_path / "results").exists()


def test_another_checkout_than_the_installed_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "phrasemt").mkdir()
    (tmp_path / "phrasemt" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PhrasemtError, match=r"belongs to another checkout .*make install here"):
        run(Namespace(study=tmp_path / "study.yaml"))


# In place of Snakemake: two trainings, one of which is done, and one that fails or saves at Ctrl-C.
_RUN = """
import os, signal, sys, time
sys.path.insert(0, {helpers!r})
from pathlib import Path
from invented_runs import begun, ago, job, report, stage
from phrasemt.commands.run import _follow
from phrasemt.runs import notes

def snakemake():
    run = notes.new_run("demo")
    os.environ.pop("SLURM_JOB_ID", None)
    jobs = [job("train_model", f"demo.en-de/{{name}}.1", outputs=[f"models/{{name}}/1/training.json"]) for name in "ab"]
    jobs.append(job("score_system", "a", 0))
    note = begun(*jobs, host=os.uname().nodename, started=ago(seconds=0), ended=None)
    note = note.model_copy(update={{"pid": os.getpid()}})
    def write(job, **changes):
        stage(job, run=run.name, **changes)
    write(jobs[0], state="finished")
    write(jobs[1], started=ago(seconds=0))
    training = Path("models/b/1/state/x/note.json")
    training.parent.mkdir(parents=True)
    of_training = notes.StageNote(stage="train_model", run=run.name, training=report(update=35, max_updates=225))
    of_training.write(training)
    try:
        note.write(run)
        time.sleep({PATIENCE} if sys.argv[2] == "stopped" else 3)
    except KeyboardInterrupt:
        of_training.model_copy(update={{"state": "stopped"}}).write(training)
    write(jobs[1], state=sys.argv[2], error="the disk is full")
    note.model_copy(update={{"state": sys.argv[2]}}).write(run)
    sys.exit(1)

if sys.argv[1] == "snakemake":
    snakemake()
code, signals = _follow([sys.executable, __file__, "snakemake", sys.argv[1]], Path("demo"))
sys.exit(128 + signals[0] if signals else code)
"""


def _start(folder: Path, end: str) -> subprocess.Popen[str]:
    script = folder / "run.py"
    script.write_text(_RUN.format(helpers=str(Path(__file__).parents[1] / "helpers"), PATIENCE=PATIENCE))
    return subprocess.Popen(
        [sys.executable, str(script), end], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@contextlib.contextmanager
def _handled(signum: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """What a process that starts within does at a signal."""
    before = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, before)


@pytest.mark.parametrize(
    "signum", [signal.SIGINT, *(pytest.param(signum, marks=pytest.mark.slow) for signum in _ENDING[1:])]
)
def test_a_signal_to_the_command_alone_stops_the_run(tmp_path: Path, signum: signal.Signals) -> None:
    with _handled(signum, signal.SIG_DFL):  # behind `nohup`, tests ignore SIGHUP
        run = _start(tmp_path, "stopped")
    wait_until(lambda: len(list(tmp_path.glob("logs/demo/runs/*.json"))) > 1, run)
    run.send_signal(signum)
    output, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 128 + signum
    assert output.splitlines()[-2:] == [
        "Stopped after 1 of 3 jobs. Saved: b.1 at update 35 of 225.",
        "Next: the same command resumes. `phrasemt status demo` shows where the run is.",
    ]


def test_a_run_behind_an_ampersand_ends_at_sigterm(tmp_path: Path) -> None:
    """A shell without job control lets what it starts behind `&` ignore SIGINT, by which the run stops Snakemake."""
    with _handled(signal.SIGINT, signal.SIG_IGN):
        run = _start(tmp_path, "stopped")
    wait_until(lambda: len(list(tmp_path.glob("logs/demo/runs/*.json"))) > 1, run)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)
    output, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 128 + signal.SIGTERM
    assert "Stopped after 1 of 3 jobs." in output


def test_a_mistake_of_the_display_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake has a process group of its own, so nobody would stop it any more."""
    seen = list[int]()

    def fail(progress: _Progress) -> None:
        seen.append(progress._process)
        raise ZeroDivisionError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_Progress, "look", fail)
    signals = {signum: signal.getsignal(signum) for signum in _ENDING}
    try:
        with pytest.raises(ZeroDivisionError):
            _follow([sys.executable, "-c", "import time; time.sleep(600)"], Path("demo"))
    finally:
        for signum, handler in signals.items():
            signal.signal(signum, handler)
    assert not psutil.pid_exists(seen[0])


def test_a_line_for_each_job_and_an_error_once(tmp_path: Path) -> None:
    run = _start(tmp_path, "failed")
    output, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1
    first, *lines, log, last = output.splitlines()
    assert first == "demo: 3 jobs on 2 cores; progress: phrasemt status demo --watch"
    assert [line.split("  ")[::2] for line in lines] == [
        ["1/3", "train_model demo.en-de/a.1"],
        ["failed: train_model demo.en-de/b.1: the disk is full"],
    ]
    assert log == "  log: logs/demo/train_model/demo.en-de/b.1.log"
    assert last.startswith("Next: fix the cause; the same command resumes.")
