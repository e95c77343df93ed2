"""`phrasemt status` on invented runs: what it counts, what it shows, and when it expects the end."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from invented_runs import RUN, ago, begun, gone, job, keep_silent, report, stage, took

from phrasemt.artefacts.training import Evaluation, EvaluationReport, Metrics, TrainingRecord, UpdateReport
from phrasemt.runs.notes import PlannedJob, StageNote
from phrasemt.runs.status import failures, status_of, trainings_of

pytestmark = pytest.mark.usefixtures("here")
Status = Callable[..., tuple[int, str, str]]


@pytest.fixture
def status(here: Path, phrasemt: Status, monkeypatch: pytest.MonkeyPatch) -> Status:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return functools.partial(phrasemt, "status")


def rows(out: str) -> dict[str, str]:
    """Each row of the table, with single spaces."""
    found = {
        line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if re.match(r"  \w+ [ \d]+$", line)
    }
    heading = next(line for line in out.splitlines() if line.split()[0] in ("done", "running", "waiting"))
    return {"": " ".join(heading.split())} | found


def test_each_job_is_in_one_state(status: Status) -> None:
    jobs = [job("translate_examples", f"{number}") for number in range(8)]
    begun(*jobs, done={"translate_examples": 30, "clean_pairs": 3})
    stage(jobs[0], state="finished", ended=ago(seconds=1))
    stage(jobs[1])
    stage(jobs[2], state="failed", ended=ago(seconds=1))
    stage(jobs[3], pid=gone())
    stage(jobs[4], host="elsewhere", silent=timedelta(minutes=9))
    stage(jobs[5], host="elsewhere", silent=timedelta(minutes=11))
    stage(jobs[6], state="finished", run="of-an-earlier-run.json")
    states = [one.state for one in status_of(RUN, datetime.now(UTC)).jobs]
    assert states == ["done", "running", "failed", "failed", "running", "failed", "waiting", "waiting"]
    code, out, err = status("demo")
    assert (code, err) == (0, "")
    assert re.match(rf"demo: running, since 20.*, process {os.getpid()} on elsewhere\n", out)
    # What is all done has no row.
    assert rows(out) == {"": "done running waiting failed", "translate_examples": "31 2 2 3", "all": "34 2 2 3"}


def test_what_waits_for_a_failure_is_blocked_and_takes_no_time(status: Status) -> None:
    failed, going = (job("train_model", name, outputs=[f"results/{name}/training.json"]) for name in ("a", "b"))
    after, last, free = (
        job("translate_examples", "a", 0),
        job("score_system", "a", 1),
        job("translate_examples", "b", 3),
    )
    begun(failed, after, last, going, free)
    stage(failed, state="failed", ended=ago(seconds=1))
    _report_of(failed, seconds_left=9000.0)
    stage(going)
    for planned, seconds in ((after, 7000), (last, 7000), (going, 100), (free, 50)):
        took(planned, seconds)
    _, out, _ = status("demo")
    expected = {"train_model": "1 1", "translate_examples": "1 1", "score_system": "1", "all": "1 1 1 2"}
    assert rows(out) == {"": "running waiting failed blocked", **expected}
    assert 50 <= status_of(RUN, datetime.now(UTC)).seconds_left <= 100 + 50
    stage(failed)  # tried again
    assert "blocked" not in status("demo")[1]


def test_failures_are_shown_the_first_with_the_last_lines_of_their_logs(status: Status) -> None:
    jobs = [job("translate_examples", f"{number}") for number in range(9)]
    begun(*jobs)
    lines = "".join(f"line {number}\n" for number in range(9)) + "phrasemt translate_examples: error: \xff\n"
    for one in jobs:
        stage(one, lines, state="failed", ended=ago(seconds=1))
    stage(jobs[1], pid=gone(), queue_job="77")
    Path(jobs[1].log or "").unlink()
    _, out, _ = status("demo")
    shown = "    | line 8\n    | phrasemt translate_examples: error: \xff\n    logs/demo/translate_examples/0.log\n"
    assert shown in out
    assert "translate_examples 0: error (" in out
    assert out.count("    | line 8\n") == 4, "of the first five, one of which has no log"
    assert "line 4" not in out
    assert "translate_examples 1: process disappeared: killed, or out of memory" in out
    assert "Slurm job 77" in out
    assert all(str(one.log) in out for one in jobs)


def test_a_failed_run_ends_with_the_errors_of_its_stages() -> None:
    jobs = [job("translate_examples", name) for name in ("broken", "killed", "stopped", "waiting")]
    begun(*jobs, state="failed", ended=ago(seconds=1))
    stage(jobs[0], state="failed", error="a.txt: no such file. Next: make it")
    stage(jobs[1], pid=gone())
    stage(jobs[2], state="stopped", error="stopped by SIGTERM")
    logs = "logs/demo/translate_examples"
    assert list(failures(status_of(RUN, datetime.now(UTC)))) == [
        f"failed: translate_examples broken: a.txt: no such file. Next: make it\n  log: {logs}/broken.log",
        f"failed: translate_examples killed: process disappeared: killed, or out of memory\n  log: {logs}/killed.log",
        "Next: fix the cause; the same command resumes. `phrasemt status demo` shows where the run is.",
    ]


def test_only_the_last_run_is_shown_and_one_whose_process_is_gone_was_killed(status: Status) -> None:
    note = begun(job("translate_examples", "a"), host=platform.node(), started=ago(seconds=0), pid=gone())
    _, out, _ = status("demo")
    assert out.startswith("demo: killed, since ")
    assert "expected end" not in out
    note.model_copy(update={"state": "finished"}).write(RUN.with_name("20260102T000000-1.json"))
    _, out, _ = status("demo")
    assert out.startswith("demo: finished, since ")
    assert rows(out) == {"": "done", "all": "1"}
    assert "not done" not in out


def _report_of(planned: PlannedJob, metrics: str = "", **changes: Any) -> None:
    """The last report of a training, in its state folder."""
    state = Path(planned.outputs[0]).parent / "state" / "0123"
    state.mkdir(parents=True)
    (state / "metrics.jsonl").write_text(metrics)
    StageNote(stage="train_model", run=RUN.name, training=report(**changes)).write(state / "note.json")


def test_the_progress_of_a_training_is_shown(status: Status) -> None:
    training = job("train_model", "base.1", outputs=["results/demo/demo.en-de/models/base/1/training.json"])
    begun(training)
    stage(training, host="elsewhere", started=ago(minutes=20))
    _report_of(training, update=1500, seconds_left=300.0, tokens_per_second=2100.0, reported=ago(seconds=0))
    progress = r"train_model base.1: for 0:20:0\d, update 1,500 of 2,000 \(75 %\), 2,100 tokens/s, 0:05:00 left"
    assert re.search(progress, status("demo")[1])
    assert 290 < status_of(RUN, datetime.now(UTC)).seconds_left <= 300


def left(*jobs: PlannedJob, **changes: Any) -> float:
    begun(*jobs, **changes)
    return status_of(RUN, datetime.now(UTC)).seconds_left


def test_the_end_is_that_of_the_longest_chain_or_of_all_work() -> None:
    chain = [job("clean_pairs", "a"), job("tokenize_text", "b", 0), job("learn_subwords", "c", 1)]
    for planned in chain:
        took(planned, 100)
    assert left(*chain) == 300
    beside = [job("translate_examples", f"{number}", threads=2) for number in range(4)]
    for planned in beside:
        took(planned, 150)
    assert left(*chain, *beside) == (300 + 4 * 2 * 150) / 2  # two cores
    assert left(*chain, *beside, cores=None) == 300  # a cluster has machines for all


def test_jobs_without_a_record_take_the_time_of_their_rule_or_are_named(status: Status) -> None:
    known, same_rule, unknown = job("translate_examples", "a"), job("translate_examples", "b"), job("score_system", "c")
    took(known, 3600)
    begun(known, same_rule, unknown, cores=None)
    assert re.search(
        r"expected end: not before .*\d\d:\d\d \(in 1:00:00\); 1 job of unknown length\n", status("demo")[1]
    )
    begun(known, same_rule, cores=None)
    assert re.search(r"expected end: about .*\d\d:\d\d \(in 1:00:00\)\n", status("demo")[1])
    begun(unknown)
    assert "expected end: not known" in status("demo")[1]


def test_slurm_says_why_jobs_of_the_run_wait(status: Status, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(
        '#!/bin/sh\n[ "$4" = demo_20260101T000000-1 ] && printf "Priority\\nPartitionTimeLimit\\nPriority\\n"\n'
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(squeue.parent), prepend=os.pathsep)
    begun(job("translate_examples", "a"), cores=None)
    assert "\nwaiting in Slurm's queue: 2 Priority, 1 PartitionTimeLimit\n" in status("demo")[1]
    squeue.unlink()
    assert "in Slurm's queue" not in status("demo")[1]


def test_waiting_jobs_of_a_cluster_start_as_late_as_those_before(status: Status) -> None:
    """The longest chain of what is left has two jobs of an hour, and Slurm started the others after 120 s."""
    chain = [
        job("translate_examples", "a"),
        *(job("translate_examples", name, place) for place, name in enumerate("bcd")),
    ]
    for planned in chain:
        took(planned, 3600)
    for cores, expected in ((None, "2:04:00"), (9, "2:00:00")):
        begun(*chain, cores=cores, started=ago(seconds=1000))
        stage(chain[0], state="finished", started=ago(seconds=880), ended=ago(seconds=700))
        stage(chain[1], state="finished", started=ago(seconds=580), ended=ago(seconds=500))
        assert f"(in {expected})" in status("demo")[1]


def test_a_job_that_takes_longer_than_expected_is_named(status: Status) -> None:
    slow, after = job("translate_examples", "a"), job("score_system", "b", 0)
    took(slow, 60)
    took(after, 33)
    begun(slow, after)
    stage(slow, host="elsewhere", started=ago(seconds=300))
    late = r"expected end: not known yet; translate_examples a has run for 0:05:0\d, longer than expected\n"
    assert re.search(late, status("demo")[1])


def test_a_study_that_never_ran(status: Status) -> None:
    code, out, err = status("unheard")
    assert (code, out) == (2, "")
    assert "logs/unheard/runs: no run of this study has begun here yet. Next: phrasemt run STUDY" in err
    code, _, err = status("missing.yaml")
    assert code == 2
    assert "missing.yaml" in err


def test_watching_ends_with_the_run(status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    note = begun(job("translate_examples", "a"))
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            note.model_copy(update={"state": "finished", "ended": ago(seconds=0)}).write(RUN)

    monkeypatch.setattr("phrasemt.commands.status.time.sleep", sleep)
    code, out, _ = status("demo", "--watch")
    assert code == 0
    assert looks == [5, 5]
    assert re.findall(r"demo: (\w+), since", out) == ["running", "running", "finished"]


REPORT: dict[str, Any] = {
    "update": 0,
    "seconds": 0.0,
    "memory_mib": 9,
    "epoch": 1,
    "loss": 2.0,
    "perplexity": 7.4,
    "skipped": 0,
}
REPORT |= {"learning_rate": 0.001, "tokens_per_second": 1000.0}
RECORD: dict[str, Any] = {
    "model": {"family": "transformer"},
    "parameters": 9,
    "precision": "float32",
    "skipped": 0,
    "processes": 1,
}
RECORD |= {"micro_batch_positions": [9], "micro_batches_per_update": 1, "checkpoints": [], "evaluations": []}


def evaluation(update: int, score: float, measure: str = "dev_bleu") -> str:
    scores = Evaluation.model_validate({"update": update, "dev_perplexity": 50.0, measure: score})
    written = EvaluationReport(seconds=7.0 * update, memory_mib=9, evaluation_seconds=1, evaluation=scores)
    return Metrics.line(written)


def evaluations(*scores: float, measure: str = "dev_bleu") -> str:
    """An evaluation every 100 updates, each after a report of updates."""
    lines = ""
    for number, score in enumerate(scores, start=1):
        lines += Metrics.line(UpdateReport(**REPORT | {"update": 100 * number, "seconds": 700.0 * number}))
        lines += evaluation(100 * number, score, measure)
    return lines


@pytest.fixture
def training(here: Path) -> Callable[..., Path]:
    def write(
        system: str,
        note: StageNote | None,
        metrics: str = "",
        *,
        seed: int = 1,
        settings: str = "0123456789ab",
        record: dict[str, Any] | None = None,
        silent: timedelta = timedelta(0),
    ) -> Path:
        folder = here / "results/demo/demo.en-de/models" / system / str(seed)
        state = folder / "state" / settings
        state.mkdir(parents=True)
        (state / "metrics.jsonl").write_text(metrics)
        if note:
            note.write(state / "note.json")
        if record:
            metrics = f"state/{settings}/metrics.jsonl"
            TrainingRecord.model_validate(RECORD | {"metrics": metrics, **record}).write(folder / "training.json")
        for path in state.iterdir():
            keep_silent(path, silent)
        return folder

    return write


def note(**changes: Any) -> StageNote:
    """Of a training that this very process runs: half done."""
    return StageNote(**{"stage": "train_model", "started": ago(seconds=0), "training": report()} | changes)


def states_of() -> dict[str, str]:
    return {row[1]: row[-1] for row in trainings_of("demo", datetime.now(UTC))}


def test_trainings_are_listed_without_a_run_too(training: Callable[..., Path], status: Status) -> None:
    training("base", note(), evaluations(10.5, 12.25, 11.0))
    training("base", note(state="stopped"), seed=10)
    training("lm", note(), evaluations(9.0, 4.0, 4.0, 5.0, measure="dev_perplexity"), seed=2)
    code, out, err = status("demo")
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "trainings",
        "data set system seed update dev best state",
        "demo.en-de base 1 1,000 of 2,000 11.00 BLEU 12.25 BLEU at 200 running",
        "demo.en-de base 10 1,000 of 2,000 stopped",
        "demo.en-de lm 2 1,000 of 2,000 5.00 ppl 4.00 ppl at 200 running",
    ]
    begun(job("translate_examples", "a"))
    assert re.search(r"(?s)^demo: running.*\ntrainings\n.*\nexpected end: ", status("demo")[1])


def test_states_of_trainings(training: Callable[..., Path]) -> None:
    """Each name says what its training is; the process of `other` is one that was born long after its training."""
    elsewhere = f"not-{platform.node()}"
    training("running", note(), evaluations(3.0))
    training("disappeared", note(pid=gone()), evaluations(3.0))
    training("disappeared-other", note(started=ago(days=400)), evaluations(3.0))
    training("running-elsewhere", note(host=elsewhere, pid=gone()), silent=timedelta(minutes=9))
    training("disappeared-elsewhere", note(host=elsewhere), silent=timedelta(minutes=11))
    for state in ("finished", "stopped", "failed"):
        training(state, note(state=state, pid=gone()))
    training("finished-without-note", None, evaluations(3.0), record={"updates": 100, "stopped": "max_updates"})
    training("unknown-without-note", None, evaluations(3.0))
    found = states_of()
    assert len(found) == 10
    assert found == {system: system.split("-")[0] for system in found}


def test_files_of_trainings_that_are_damaged_or_missing(training: Callable[..., Path], here: Path) -> None:
    folder = training("cut", note(), evaluations(3.0, 4.0) + evaluation(300, 9.0)[:-20] + '\n12\n[]\n{"update": []}\n')
    (folder / "training.json").write_text('{"met')
    no_metrics = training("no-metrics", note())
    next(no_metrics.glob("state/*/metrics.jsonl")).unlink()
    half = training("half", None, evaluations(5.0))
    next(half.glob("state/*")).joinpath("note.json").write_text('{"host": "a"}')
    scores = [{"update": 100, "dev_bleu": 7.0, "dev_perplexity": 9.0}]
    record = training("record", None, record={"updates": 100, "stopped": "max_updates", "evaluations": scores})
    (state,) = record.glob("state/*")
    (state / "metrics.jsonl").unlink()
    state.rmdir()
    (here / "results/demo/demo.en-de/models/nothing/1/state").mkdir(parents=True)
    found = {row[1]: row[3:] for row in trainings_of("demo", datetime.now(UTC))}
    assert found == {
        "cut": ("1,000 of 2,000", "4.00 BLEU", "4.00 BLEU at 200", "running"),
        "no-metrics": ("1,000 of 2,000", "", "", "running"),
        "half": ("100", "5.00 BLEU", "5.00 BLEU at 100", "unknown"),
        "record": ("100", "7.00 BLEU", "7.00 BLEU at 100", "finished"),
    }
