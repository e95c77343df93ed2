"""What becomes of jobs that the plugin for Slurm reports as failed. The real one is in tests/cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invented_runs import RUN, begun, job, stage

from phrasemt.cli import _begin_log
from phrasemt.runs.notes import StageNote, stage_note
from phrasemt.runs.start import _prepare_slurm
from phrasemt.runs.status import failures, status_of

TRAINING = job("train_model", "max")
# As Slurm 22.05 and plugin 2.8.0 say it.
REFUSED = (
    "SLURM sbatch failed. The error message was 'sbatch: error: {}\nsbatch: error: Batch job submission failed: {}'.\n"
)
CALL = '    sbatch call:\n        sbatch --parsable --wrap="python -m snakemake ..."\n'
ENDED = (
    "SLURM-job '7' failed, SLURM status is: '{}'. Detailed failure reason unavailable (status command is not 'sacct')."
)


class Plugin:
    """Of it, what phrasemt changes and calls. submitted: jobs that were submitted again; failed: messages."""

    run_uuid = "a uuid"

    def __init__(self) -> None:
        self.submitted, self.failed = list[Any](), list[str]()
        self._job_submission_executor = SimpleNamespace(submit=lambda run, job: run(job))

    def run_job(self, job: Any) -> None:
        self.submitted.append(job)

    def report_job_error(self, info: Any, msg: str | None = None, **kwargs: Any) -> None:
        self.failed.append(msg or "")

    def reports(self, message: str, number: str | None = None) -> None:
        failed = SimpleNamespace(
            rule=SimpleNamespace(name="train_model"), log=[TRAINING.log], resources={"mem_mb": 400}
        )
        self.report_job_error(SimpleNamespace(job=failed, external_jobid=number), msg=message)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    monkeypatch.chdir(tmp_path)
    begun(TRAINING, cores=None)
    plugin = Plugin()
    monkeypatch.setenv("SBATCH_OPEN_MODE", "")
    monkeypatch.delenv("SBATCH_OPEN_MODE")
    _prepare_slurm(plugin, RUN)
    return plugin


def _told() -> str:
    return next(iter(failures(status_of(RUN, datetime.now(UTC))))).partition("\n")[0]


def test_jobs_have_the_name_of_their_run(plugin: Plugin) -> None:
    assert plugin.run_uuid == f"demo_{RUN.stem}"


def test_a_full_queue_fails_no_job(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = list[float]()

    def timer(seconds: float, call: Callable[..., Any], arguments: list[Any]) -> Any:
        waits.append(seconds)
        return SimpleNamespace(start=lambda: call(*arguments))

    monkeypatch.setattr("threading.Timer", timer)
    reason = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    for limit in ("AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit"):
        plugin.reports(REFUSED.format(limit, reason) + CALL)
    assert waits == [60] * 3
    assert len(plugin.submitted) == 3
    assert not plugin.failed
    assert capsys.readouterr().out.count("Slurm takes no more jobs now (AssocMaxSubmitJobLimit)") == 1
    plugin.reports(REFUSED.format("QOSMaxWallDurationPerJobLimit", reason) + CALL)
    assert len(plugin.failed) == 1, "no other job makes room for a time limit that is too long"


def test_a_refusal_is_one_line_with_the_words_of_slurm(plugin: Plugin) -> None:
    plugin.reports(
        REFUSED.format("Memory specification can not be satisfied", "Requested node ... not available") + CALL
    )
    line = (
        "sbatch refused the job: Memory specification can not be satisfied Batch job submission failed: Requested node "
        "... not available"
    )
    assert plugin.failed == [line]
    assert _told() == f"failed: train_model max: {line}"
    status = status_of(RUN, datetime.now(UTC))
    assert [one.what(status.now) for one in status.of_state("failed")] == [line]


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "FAILED"])
def test_a_job_that_slurm_killed_for_its_memory_says_so(state: str, plugin: Plugin) -> None:
    """Slurm names the state only where it uses cgroups."""
    log = Path("logs/slurm/rule_train_model/max/7.log")
    log.parent.mkdir(parents=True)
    log.write_text("slurmstepd: error: Step 7.0 exceeded memory limit (433152 > 409600), being killed\n")
    stage(TRAINING, "epoch 1\n", host="node7", queue_job="7")
    plugin.reports(ENDED.format(state), "7")
    line = "Slurm killed job 7, which needs more memory than its mem_mb: 400"
    assert _told() == f"failed: train_model max: {line}"
    status = status_of(RUN, datetime.now(UTC))
    assert [one.what(status.now) for one in status.of_state("failed")] == [line], "the log of the stage does not say it"


def test_a_job_that_said_why_it_failed_keeps_its_words(plugin: Plugin) -> None:
    stage(TRAINING, host="node7", queue_job="7", state="failed", error="the disk is full")
    plugin.reports(ENDED.format("FAILED"), "7")
    assert _told() == "failed: train_model max: the disk is full"


def test_a_job_that_never_began_has_failed(plugin: Plugin) -> None:
    """Its note is of the try before."""
    stage(TRAINING, host="node7", queue_job="6", state="failed", error="the disk is full")
    plugin.reports(ENDED.format("TIMEOUT"), "7")
    assert _told() == "failed: train_model max: Slurm ended job 7: TIMEOUT"
    note = StageNote.read(stage_note(TRAINING.log or ""))
    assert note is not None
    assert note.queue_job == "7"


def test_the_log_of_a_job_that_was_in_the_queue_again_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake removes it before each part of the job."""
    monkeypatch.chdir(tmp_path)
    log = Path("train.log")

    def part(number: str, text: str) -> str:
        monkeypatch.setenv("SLURM_JOB_ID", number)
        log.unlink(missing_ok=True)
        _begin_log(log, keep=True)
        StageNote(stage="train_model").write(stage_note(log))
        with log.open("a") as stream:
            stream.write(text)
        return log.read_text()

    assert part("7", "one ") == "one "
    assert part("7", "two ") == "one two "
    assert part("7", "three ") == "one two three "
    assert part("8", "a second try") == "a second try"
