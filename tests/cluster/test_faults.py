"""What goes wrong on clusters, while a training runs there: each time the study ends with the table of a quiet run.

Only the training is put into the queue. What follows it runs here, without the cluster. Marked slow are faults that are
rare, or that phrasemt and its profile handle in the same way as another one: `pytest tests/cluster` runs them, too.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from one_host_slurm import ask, file_system, kill_node, restarts, start_node, wait_until
from site_of_tests import PATIENCE, STUDY, Site, has_heard, resume
from workplace import Workplace

from phrasemt.machine.slurm import ran_out_of_memory
from phrasemt.runs.notes import CLAIMS, queue_name


def _ends_as(untouched: Site, site: Site) -> None:
    """The same table, nobody left in the queue, and no process left in the folder."""
    assert not site.jobs("running,pending,completing")
    wait_until(lambda: not site.processes(), "end of all processes")
    site.finish_here()
    assert site.table() == untouched.table()


def _unlock(site: Site, *options: str) -> str:
    done = site.run(sys.executable, "-m", "phrasemt", "unlock", *options)
    assert done.returncode == 0
    return done.stderr


def test_a_job_that_fails_is_tried_again(site: Site, untouched: Site) -> None:
    run = site.start(site.record)
    (training,) = site.hold_training()
    training.kill()
    assert "Error in rule train_model" in site.finish(run)
    assert len(site.jobs("failed")) == 1
    assert len(site.jobs()) == 2
    _ends_as(untouched, site)


@pytest.mark.slow
def test_a_job_that_fails_again_ends_the_run(site: Site, untouched: Site) -> None:
    examples = site.results / "demo.en-de/examples/train.arrow"
    whole, times = examples.read_bytes(), examples.stat()
    examples.write_bytes(b"damaged")
    os.utime(examples, ns=(times.st_atime_ns, times.st_mtime_ns))
    site.finish(site.start("results/tiny/table.md"), code=1)
    assert len(site.jobs("failed")) == len(site.jobs()) == 2, "tried once more, not ten times"
    assert not (site.folder / site.record).exists()
    examples.write_bytes(whole)
    os.utime(examples, ns=(times.st_atime_ns, times.st_mtime_ns))
    _ends_as(untouched, site)


def test_a_job_out_of_memory_gets_more(site: Site, untouched: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.finish(site.start(site.record, "--set-resources", "train_model:mem_mb=attempt * 400"))
    first, second = sorted(site.jobs(), key=int)
    assert list(site.jobs("failed")) == [first]
    with monkeypatch.context() as there:
        there.chdir(site.folder)
        assert [ran_out_of_memory(job) for job in (first, second)] == [True, False]
    note = max(site.folder.glob("logs/tiny/runs/*.json"))
    assert ask("squeue", "-h", "-t", "all", "-j", first, "-o", "%j").strip() == queue_name(note)
    assert [ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%m").strip() for job in (first, second)] == [
        "400M",
        "800M",
    ]
    _ends_as(untouched, site)


def test_a_full_queue_fails_no_job(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit needs Slurm's database, so a stand-in for sbatch says it, once. The profile allows one retry."""
    site.instead_of(
        "sbatch",
        monkeypatch,
        "[ -e asked ] || { : > asked; echo 'sbatch: error: AssocMaxSubmitJobLimit'"
        " >&2; echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy' >&2; exit 1; }",
    )
    messages = site.finish(site.start(site.record))
    assert "Slurm takes no more jobs now (AssocMaxSubmitJobLimit)" in messages
    assert "Error in rule" not in messages
    assert len(site.jobs()) == 1


def test_a_training_whose_time_is_up_saves_and_comes_back(site: Site, untouched: Site) -> None:
    run = site.start(site.record)
    training = site.hold_training()
    job = site.training_job()
    ask(
        "scontrol", "update", f"JobId={job}", "EndTime=now+5minutes"
    )  # the profile asks for a warning 300 seconds before
    wait_until(lambda: has_heard(training[0], signal.SIGUSR1), "the warning before the end", PATIENCE)
    ask("scontrol", "update", f"JobId={job}", "TimeLimit=60")  # for when it comes back
    resume(training)
    assert "Error in rule" not in site.finish(run)
    assert list(site.jobs()) == [job]
    assert restarts(job) == 1
    (of_slurm,) = site.folder.glob(f"logs/slurm/*/*/{job}.log")
    assert of_slurm.read_text().count("Building DAG") == 4, "two Snakemakes for each of two parts"
    (of_stage,) = site.folder.glob("logs/tiny/train_model/**/base.1.log")
    assert "the Slurm job comes back\n" in of_stage.read_text(), "the second part does not begin it anew"
    _ends_as(untouched, site)


def test_a_job_whose_node_fails_goes_on_elsewhere(site: Site, untouched: Site, cluster: Path) -> None:
    run = site.start(site.record)
    site.hold_training()
    job = site.training_job()
    node = ask("squeue", "-h", "-j", job, "-o", "%N").strip()
    kill_node(node, cluster)
    try:
        assert "Error in rule" not in site.finish(run)
    finally:
        start_node(node, cluster)
    assert list(site.jobs()) == [job]
    assert restarts(job) == 1
    assert ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%N").strip() != node
    _ends_as(untouched, site)


@pytest.mark.parametrize(
    "asking", [pytest.param(False, id="waiting"), pytest.param(True, id="asking", marks=pytest.mark.slow)]
)
def test_ctrl_c_leaves_neither_jobs_nor_processes(
    site: Site, untouched: Site, monkeypatch: pytest.MonkeyPatch, asking: bool
) -> None:
    """Also while Snakemake asks for the states of its jobs: it knows none to cancel then."""
    asked = site.slow_states(monkeypatch) if asking else None
    run = site.start(site.record)
    site.hold_training()
    if asked:
        asked.unlink(missing_ok=True)
        wait_until(asked.exists, "question for states")
    run.send_signal(signal.SIGINT)
    site.finish(run, code=1)
    wait_until(lambda: not site.jobs("running,pending,completing"), "end of the jobs")
    wait_until(lambda: not site.processes(), "end of all processes")
    site.finish(site.start(site.record))
    _ends_as(untouched, site)


@pytest.mark.slow
def test_sigterm_ends_a_run_whose_jobs_wait_for_ever(site: Site) -> None:
    late = ["--set-resources", "train_model:slurm_extra='--begin=now+1hour'"]
    command = [sys.executable, "-m", "phrasemt", "run", "study.yaml", "--profile", "slurm"]
    with (site.folder / "messages").open("w") as messages:
        run = subprocess.Popen(
            [*command, "--snakemake", site.record, *late], cwd=site.folder, env=site.environment,
            stdout=messages, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    wait_until(lambda: site.jobs("pending"), "the job", PATIENCE)
    assert "waiting in Slurm's queue: 1 BeginTime\n" in site.phrasemt("status", "tiny").stdout
    run.terminate()
    assert "the same command resumes" in site.finish(run, code=128 + signal.SIGTERM)
    assert not site.jobs("running,pending,completing")


def test_a_killed_run_is_cleared_away_before_another_begins(site: Site, untouched: Site) -> None:
    run = site.start(site.record)
    training = site.hold_training()
    job = site.training_job()
    run.kill()
    run.wait(PATIENCE)

    advice = f"Slurm jobs of a killed run still write here: {job}. Next: `phrasemt unlock --cancel`"
    said = site.finish(site.start(site.record), code=1)
    assert said.index(advice) < said.index("LockException") < said.index("--unlock")
    said = _unlock(site)
    assert f"Slurm jobs of a run in this folder have not ended: {job}. Nothing was done" in said
    assert "Next: `phrasemt unlock --cancel`" in said
    # Also for those who unlock as Snakemake proposes.
    assert site.run(*site.command("--unlock")).returncode == 0
    refused = site.finish(site.start(site.record), code=2)
    assert f"Slurm jobs of a run that ended still write in this folder (found {job})" in refused
    assert site.training_processes() == training

    assert f"unlock: cancelled Slurm jobs {job}" in _unlock(site, "--cancel")
    assert not site.training_processes()
    assert _unlock(site) == ""
    site.finish(site.start(site.record))
    _ends_as(untouched, site)


@pytest.mark.slow
def test_a_killed_run_is_cleared_away_beside_a_run_of_another_study(site: Site, untouched: Site) -> None:
    run = site.start(site.record)
    site.hold_training()
    job = site.training_job()
    run.kill()
    run.wait(PATIENCE)
    (site.folder / "two.yaml").write_text(STUDY.replace("study: tiny", "study: two"))
    late = ("--set-resources", "generate_demo:slurm_extra='--begin=now+1hour'")
    command = site.command("results/two/demo.en-de/raw/dev.en", *late)
    command[command.index("study.yaml")] = "two.yaml"
    with (site.folder / "messages of two").open("w") as messages:
        other = subprocess.Popen(
            command, cwd=site.folder, env=site.environment, stdout=messages, stderr=subprocess.STDOUT
        )
    wait_until(lambda: site.jobs("pending"), "the job of the other study", PATIENCE)
    waiting = site.jobs("pending")

    assert f"a killed run still write here: {job}. Next" in site.finish(site.start(site.record), code=1)
    said = _unlock(site, "--cancel")
    assert f"unlock: cancelled Slurm jobs {job}\n" in said
    assert "removed the lock of a killed run" in said
    assert site.jobs("pending") == waiting
    assert not site.training_processes()
    site.finish(site.start(site.record))
    other.send_signal(signal.SIGINT)
    other.wait(PATIENCE)
    _ends_as(untouched, site)


# Another login node: the files are the same; the name, and the processes that can be seen, are not.
_NAMED = 'hostname login2; exec "$@"'
SECOND_LOGIN_NODE = ("unshare", "--pid", "--fork", "--mount-proc", "--uts", "sh", "-c", _NAMED, "sh")


@pytest.mark.slow
def test_a_second_login_node_leaves_a_run_its_lock(site: Site, untouched: Site) -> None:
    """A run without Slurm, which the other node knows only from its notes."""
    assert not list((site.folder / CLAIMS).iterdir())  # the run that made the copy has ended
    here = Workplace(site.folder)
    with (site.folder / "messages").open("w") as messages:
        run = subprocess.Popen(
            here.command(site.record), cwd=site.folder, env=here.environment, stdout=messages, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
    training = site.hold_training()
    unlocked = site.run(*SECOND_LOGIN_NODE, sys.executable, "-m", "phrasemt", "unlock")
    assert f"another run goes on here: snakemake (process {run.pid} on {platform.node()})" in unlocked.stderr
    refused = site.run(*SECOND_LOGIN_NODE, *here.command(site.record))
    assert (refused.returncode, "--unlock" in refused.stderr) == (1, True), refused.stderr
    # Also for those who unlock as Snakemake proposes.
    assert site.run(*SECOND_LOGIN_NODE, *here.command("--unlock")).returncode == 0
    refused = site.run(*SECOND_LOGIN_NODE, *here.command(site.record))
    assert refused.returncode == 2
    assert "another run makes the same files" in refused.stderr
    resume(training)
    site.finish(run)
    _ends_as(untouched, site)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_space_lets_it_go_on(site: Site, untouched: Site) -> None:
    with file_system(site.model.parent, "100k"):
        messages = site.finish(site.start(site.record), code=1)
        assert "the disk is full" in messages
        assert not (site.folder / site.record).exists()
        subprocess.run(["mount", "-o", "remount,size=100m", site.model.parent], check=True)
        site.finish(site.start(site.record))
        _ends_as(untouched, site)
