"""`phrasemt runs` on invented folders in every state, and the note that a training keeps."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
from invented_runs import ago, gone, keep_silent, report
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from trainings import run, settings_of

from phrasemt.artefacts.training import Evaluation, EvaluationReport, Metrics, TrainingRecord, UpdateReport
from phrasemt.errors import StoppedError
from phrasemt.runs.notes import StageNote, TrainingReport, training_note
from phrasemt.runs.units import clock, memory
from phrasemt.training import reporting
from phrasemt.training.reporting import Reporter

STUDY = """\
study: three
datasets:
  demo:
    {source_language: en, target_language: de, generator: {train: 9, dev: 9, test: 9}, subwords: {merges: 96}}
systems:
  base: {model: {family: transformer, width: 16, heads: 2, ffn_width: 32, encoder_layers: 2, decoder_layers: 3}}
"""


def note(**changes) -> StageNote:
    """Of a training that this very process runs: half done, with a report of five seconds ago."""
    of_report = {name: changes.pop(name) for name in TrainingReport.model_fields.keys() & changes.keys()}
    return StageNote(**{"stage": "train_model", "started": ago(seconds=0), "training": report(**of_report)} | changes)


REPORT = {"update": 0, "seconds": 0.0, "memory_mib": 9, "epoch": 1, "loss": 2.0, "perplexity": 7.4, "skipped": 0}
REPORT |= {"learning_rate": 0.001, "tokens_per_second": 1000.0}
RECORD = {"model": {"family": "transformer"}, "parameters": 9, "precision": "float32", "skipped": 0, "processes": 1}
RECORD |= {"micro_batch_positions": [9], "micro_batches_per_update": 1, "checkpoints": [], "evaluations": []}


def evaluation(update: int, score: float, measure: str = "dev_bleu") -> str:
    scores = Evaluation(update=update, **{"dev_perplexity": 50.0, measure: score})
    report = EvaluationReport(seconds=7.0 * update, memory_mib=9, evaluation_seconds=1, evaluation=scores)
    return Metrics.line(report)


def evaluations(*scores: float, measure: str = "dev_bleu") -> str:
    """An evaluation every 100 updates, each after a report of updates."""
    lines = ""
    for number, score in enumerate(scores, start=1):
        report = UpdateReport(**REPORT | {"update": 100 * number, "seconds": 700.0 * number})
        lines += Metrics.line(report.model_copy(update={"tokens_per_second": 1000.0 + number}))
        lines += evaluation(100 * number, score, measure)
    return lines


@pytest.fixture(autouse=True)
def results(here: Path) -> Path:
    return here / "results"


@pytest.fixture
def training(results: Path):
    def write(
        system: str,
        note: StageNote | None,
        metrics: str = "",
        *,
        study: str = "small",
        seed: int = 1,
        settings: str = "0123456789ab",
        record: dict | None = None,
        silent: timedelta = timedelta(0),
    ) -> Path:
        folder = results / study / "demo.en-de" / "models" / system / str(seed)
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


@pytest.fixture
def runs(phrasemt):
    return functools.partial(phrasemt, "runs")


@pytest.fixture
def listed(runs):
    def call(*arguments: str) -> list[dict]:
        code, out, err = runs("--json", *arguments)
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


def test_a_line_of_the_table(training, runs):
    training("base", note(), evaluations(10.5, 12.25, 11.0))
    training("wide", note(device="NVIDIA H100", processes=8, update=0, seconds_left=None), seed=12)
    code, out, err = runs()
    assert (code, err) == (0, "")
    head, base, wide = out.splitlines()
    names = "study, data set, system, seed, state, update, %, dev, best, tokens/s, spent, left, memory, device, host"
    assert head.split() == [*names.replace(",", "").split(), "report"]
    shown = (
        r"small demo.en-de base 1 running 1,000 of 2,000 50 11.00 BLEU 12.25 BLEU at 200 1,003 2:02:02 2:02:02 1.2 GiB"
    )
    assert re.fullmatch(rf"{shown} cpu {platform.node()} \d+ s ago", " ".join(base.split()))
    assert "12  running      0 of 2,000   0 " in wide
    assert "NVIDIA H100 x 8" in wide
    assert len(base) == len(head) == len(wide), "the last column ends at the right edge in every row"


def test_states(training, listed):
    """Each name says what its training is; the process of `other` is one that was born long after its training."""
    elsewhere = f"not-{platform.node()}"
    training("running", note(), evaluations(3.0))
    training("dead", note(pid=gone()), evaluations(3.0))
    training("dead-other", note(started=ago(days=400)), evaluations(3.0))
    training("running-elsewhere", note(host=elsewhere, pid=gone()), silent=timedelta(minutes=9))
    training("dead-elsewhere", note(host=elsewhere), silent=timedelta(minutes=11))
    for state in ("finished", "stopped", "failed"):
        training(state, note(state=state, pid=gone(), reported=ago(days=3)))
    training("finished-without-note", None, evaluations(3.0), record={"updates": 100, "stopped": "max_updates"})
    training("dead-without-note", None, evaluations(3.0))
    found = {one["system"]: one["state"] for one in listed()}
    assert len(found) == 10
    assert found == {system: system.split("-")[0] for system in found}


def test_lines_that_are_not_whole_and_files_that_are_missing(training, listed, results):
    folder = training("cut", note(), evaluations(3.0, 4.0) + evaluation(300, 9.0)[:-20])
    (folder / "training.json").write_text('{"met')
    training("empty", note())
    no_metrics = training("no-metrics", note())
    next(no_metrics.glob("state/*/metrics.jsonl")).unlink()
    half = training("half", None, evaluations(5.0))
    next(half.glob("state/*")).joinpath("note.json").write_text('{"host": "a"}')
    (results / "small" / "demo.en-de" / "models" / "nothing" / "1" / "state").mkdir(parents=True)
    (results / "a file").write_text("")
    found = {one["system"]: one for one in listed()}
    assert sorted(found) == ["cut", "empty", "half", "no-metrics"]
    assert (found["cut"]["last"], found["cut"]["last_update"], found["cut"]["update"]) == (4.0, 200, 1000)
    assert found["cut"]["tokens_per_second"] == 1002.0
    for system in ("empty", "no-metrics"):
        assert (found[system]["measure"], found[system]["best"], found[system]["percent"]) == (None, None, 50.0)
    assert (found["half"]["update"], found["half"]["last"], found["half"]["seconds"]) == (100, 5.0, 700.0)
    assert (found["half"]["max_updates"], found["half"]["host"]) == (None, None)


def test_lines_that_are_no_reports_are_passed_over(training, listed):
    strange = '12\n[]\nnull\n"dev_perplexity"\n{"update": 900, "seconds": null}\n{"update": [], "dev_perplexity": 1}\n'
    training("base", None, evaluations(5.0) + strange)
    (found,) = listed()
    assert (found["update"], found["last"], found["seconds"]) == (100, 5.0, 700.0)


def test_a_record_whose_state_was_deleted(training, listed, runs):
    scores = [{"update": 100, "dev_bleu": 7.0, "dev_perplexity": 9.0}]
    folder = training("base", None, record={"updates": 100, "stopped": "max_updates", "evaluations": scores})
    (state,) = folder.glob("state/*")
    (state / "metrics.jsonl").unlink()
    state.rmdir()
    (one,) = listed()
    assert (one["state"], one["update"], one["max_updates"], one["best"]) == ("finished", 100, 100, 7.0)
    assert "memory" not in runs()[1], "a column without any cell"


def test_the_newest_of_several_settings_or_all(training, listed, runs):
    for settings, minutes in (("aaa", 50), ("bbb", 3), ("ccc", 20)):
        training("base", note(state="stopped", reported=ago(minutes=minutes)), settings=settings)
    training("base", note(), seed=10)
    training("base", note(), seed=2)
    newest = [("1", "bbb"), ("2", "0123456789ab"), ("10", "0123456789ab")]
    assert [(one["seed"], one["settings"]) for one in listed()] == newest
    assert [one["settings"] for one in listed("--all") if one["seed"] == "1"] == ["aaa", "ccc", "bbb"]
    assert "settings" not in runs()[1]
    assert "settings" in runs("--all")[1]


def test_language_models_have_perplexities_and_the_lowest_is_best(training, runs, listed):
    training("lm", note(), evaluations(9.0, 4.0, 4.0, 5.0, measure="dev_perplexity"))
    (one,) = listed()
    assert (one["measure"], one["last"], one["best"], one["best_update"]) == ("dev_perplexity", 5.0, 4.0, 200)
    assert "5.00 ppl  4.00 ppl at 200" in runs()[1]


def test_studies_by_name_and_by_file(training, listed, runs):
    for study in ("one", "two", "three"):
        training("base", note(), study=study)
    assert [one["study"] for one in listed()] == ["one", "three", "two"]
    assert [one["study"] for one in listed("two", "one", "two")] == ["one", "two"]
    Path("study.yaml").write_text(STUDY)
    assert [one["study"] for one in listed("study.yaml")] == ["three"]
    code, out, err = runs("four")
    assert (code, out) == (2, "")
    assert err.startswith(
        "phrasemt runs: error: results/four: no results of this study (expected one of one, three, two). Next: "
    )


def test_no_trainings(runs, listed, results):
    sentence = "no trainings in {} yet. Next: snakemake --profile profiles/local --configfile STUDY.yaml\n"
    assert runs() == (0, sentence.format("results"), "")
    (results / "demo" / "demo.en-de").mkdir(parents=True)
    assert runs("demo") == (0, sentence.format("results/demo"), "")
    assert listed() == []


def test_needs_no_torch(training):
    training("base", note(), evaluations(3.0))
    code = "import sys; from phrasemt.cli import main; main(['runs']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_people_read_times_and_memory():
    assert [clock(seconds) for seconds in (0, 59.6, 3600, 360_061)] == ["0:00:00", "0:01:00", "1:00:00", "100:01:01"]
    assert [memory(mib) for mib in (812.4, 1024, 81_920)] == ["812 MiB", "1.0 GiB", "80.0 GiB"]


BUDGET = {"max_updates": 6, "evaluate_every": 3, "checkpoint_every": 3}


@pytest.fixture
def train(tiny_data, results):
    folder = results / "small" / "demo.en-de" / "models" / "base" / "1"
    folder.mkdir(parents=True)

    def train(**training) -> StageNote:
        run(tiny_data, folder, settings_of(**BUDGET | training))
        return only_note(results)

    return train


def only_note(results: Path) -> StageNote:
    (path,) = results.rglob("note.json")
    found = StageNote.read(path)
    assert found is not None
    assert found.training is not None
    return found


def test_a_training_that_ends_well(train, listed, results):
    before = datetime.now(UTC) - timedelta(seconds=1)
    ended = train()
    report = ended.training
    assert (ended.state, report.first_update, report.update, report.max_updates) == ("finished", 0, 6, 6)
    assert (ended.host, ended.pid, report.device, report.processes) == (platform.node(), os.getpid(), "cpu", 1)
    assert before <= ended.started <= report.reported <= datetime.now(UTC)
    assert report.memory_mib > 50, "a process with torch in it"
    metrics = Metrics.read(next(results.rglob("metrics.jsonl")))
    assert report.tokens_per_second == metrics.updates[0].tokens_per_second
    assert all(50 < one.memory_mib <= report.memory_mib for one in metrics.reports)
    (events,) = results.rglob("events.*")
    board = EventAccumulator(str(events)).Reload()
    assert [event.step for event in board.Scalars("train/memory_mib")] == [6]
    assert [event.step for event in board.Scalars("dev/memory_mib")] == [3, 6]
    (one,) = listed()
    assert (one["state"], one["percent"], one["last_update"], one["seconds_left"]) == ("finished", 100.0, 6, None)
    assert (one["last"], one["seconds"]) == (metrics.evaluations[-1].evaluation.dev_bleu, report.seconds)


@pytest.mark.parametrize(
    ("error", "state"),
    [(SystemExit(143), "stopped"), (KeyboardInterrupt(), "stopped"), (ZeroDivisionError(), "failed")],
    ids=["terminated", "interrupted", "failed"],
)
def test_a_training_that_is_left_and_goes_on(train, listed, results, monkeypatch, error, state):
    def leaving(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "evaluation", leaving)
        with pytest.raises(type(error)):
            train(checkpoint_every=2)
    assert only_note(results).state == listed()[0]["state"] == state
    ended = train(checkpoint_every=2)
    assert (ended.state, ended.training.first_update, ended.training.update) == ("finished", 2, 6)


def test_the_note_goes_with_the_training(tmp_path, monkeypatch, caplog):
    """At once at the start, then with a report after ten seconds or more, and at the end; time by a false clock."""
    time = 1000.0
    monkeypatch.setattr(reporting.time, "monotonic", lambda: time)
    path = training_note(tmp_path / "metrics.jsonl")
    caplog.set_level(logging.INFO, "phrasemt")
    begin = {"first_update": 100, "max_updates": 300, "seconds": 50.0, "device": torch.device("cpu"), "processes": 2}
    values = {name: value for name, value in REPORT.items() if name not in ("update", "seconds", "memory_mib")}
    with contextlib.suppress(StoppedError), Reporter(tmp_path / "metrics.jsonl", **begin) as report:
        start = StageNote.read(path)
        report_of_start = start.training
        assert (start.state, report_of_start.update, report_of_start.seconds) == ("running", 100, 50.0)
        assert report_of_start.seconds_left is None
        time += 9
        report.update(120, **values)
        assert StageNote.read(path) == start
        time += 71
        report.update(150, **values)
        told = StageNote.read(path).training
        # 50 updates in 80 seconds, and 150 are left
        assert (told.update, told.seconds, told.seconds_left) == (150, 130.0, 240.0)
        assert told.tokens_per_second == 1000.0
        raise StoppedError("asked to stop")
    end = StageNote.read(path)
    assert end.training.model_copy(update={"reported": told.reported, "memory_mib": told.memory_mib}) == told
    assert (end.state, end.error) == ("stopped", "asked to stop")
    (line,) = caplog.messages
    assert line == (
        "update 150 of 300, loss 2.000 perplexity 7.40 tokens/s 1,000 "
        f"memory {memory(told.memory_mib)}, time left 0:04:00"
    )
