"""The note that a training keeps, beside its metrics."""

from __future__ import annotations

import contextlib
import os
import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from trainings import run, settings_of

from phrasemt.artefacts.training import Metrics
from phrasemt.errors import StoppedError
from phrasemt.runs.notes import StageNote, training_note
from phrasemt.training import reporting
from phrasemt.training.reporting import Reporter

VALUES = {"epoch": 1, "loss": 2.0, "perplexity": 7.4, "skipped": 0, "learning_rate": 0.001, "tokens_per_second": 1000.0}
BUDGET = {"max_updates": 6, "evaluate_every": 3, "checkpoint_every": 3}


@pytest.fixture
def train(tiny_data, tmp_path):
    folder = tmp_path / "small" / "demo.en-de" / "models" / "base" / "1"
    folder.mkdir(parents=True)

    def train(**training) -> StageNote:
        run(tiny_data, folder, settings_of(**BUDGET | training))
        return only_note(tmp_path)

    return train


def only_note(folder: Path) -> StageNote:
    (path,) = folder.rglob("note.json")
    return StageNote.read(path)


def test_a_training_that_ends_well(train, tmp_path):
    before = datetime.now(UTC) - timedelta(seconds=1)
    ended = train()
    report = ended.training
    assert (ended.state, report.first_update, report.update, report.max_updates) == ("finished", 0, 6, 6)
    assert (ended.host, ended.pid, report.device, report.processes) == (platform.node(), os.getpid(), "cpu", 1)
    assert before <= ended.started <= report.reported <= datetime.now(UTC)
    assert report.memory_mib > 50, "a process with torch in it"
    metrics = Metrics.read(next(tmp_path.rglob("metrics.jsonl")))
    assert report.tokens_per_second == metrics.updates[0].tokens_per_second
    assert all(50 < one.memory_mib <= report.memory_mib for one in metrics.reports)
    (events,) = tmp_path.rglob("events.*")
    board = EventAccumulator(str(events)).Reload()
    assert [event.step for event in board.Scalars("train/memory_mib")] == [6]
    assert [event.step for event in board.Scalars("dev/memory_mib")] == [3, 6]


def test_a_training_that_fails_and_goes_on(train, tmp_path, monkeypatch):
    def failing(*args, **kwargs):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "evaluation", failing)
        with pytest.raises(ZeroDivisionError):
            train(checkpoint_every=2)
    assert only_note(tmp_path).state == "failed"
    ended = train(checkpoint_every=2)
    assert (ended.state, ended.training.first_update, ended.training.update) == ("finished", 2, 6)


def test_the_note_goes_with_the_training(tmp_path, monkeypatch):
    """At once at the start, then with a report after ten seconds or more, and at the end; time by a false clock."""
    time = 1000.0
    monkeypatch.setattr(reporting.time, "monotonic", lambda: time)
    path = training_note(tmp_path / "metrics.jsonl")
    begin = {"first_update": 100, "max_updates": 300, "seconds": 50.0, "device": torch.device("cpu"), "processes": 2}
    with contextlib.suppress(StoppedError), Reporter(tmp_path / "metrics.jsonl", **begin) as report:
        start = StageNote.read(path)
        report_of_start = start.training
        assert (start.state, report_of_start.update, report_of_start.seconds) == ("running", 100, 50.0)
        assert report_of_start.seconds_left is None
        time += 9
        report.update(120, **VALUES)
        assert StageNote.read(path) == start
        time += 71
        report.update(150, **VALUES)
        reported = StageNote.read(path).training
        # 50 updates in 80 seconds, and 150 are left
        assert (reported.update, reported.seconds, reported.seconds_left) == (150, 130.0, 240.0)
        assert reported.tokens_per_second == 1000.0
        raise StoppedError("asked to stop")
    end = StageNote.read(path)
    assert (
        end.training.model_copy(update={"reported": reported.reported, "memory_mib": reported.memory_mib}) == reported
    )
    assert (end.state, end.error) == ("stopped", "asked to stop")
