"""What a run and its stages write about themselves, and who counts as running."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from invented_runs import RUN, begun, gone, job, keep_silent

from phrasemt.errors import PhrasemtError, StoppedError
from phrasemt.runs import notes
from phrasemt.runs.notes import RunNote, StageNote, heartbeat, latest_run, new_run, open_note, stage_note, study_of


@pytest.fixture(autouse=True)
def _here(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("PHRASEMT_RUN", str(here / "logs/demo/runs/one.json"))


def _note(error: BaseException | None) -> StageNote:
    log = Path("logs/demo/make_table.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with pytest.raises(type(error)) if error else contextlib.nullcontext(), open_note("make_table", stage_note(log)):
        begun = StageNote.read(stage_note(log))
        assert (begun.state, begun.ended, begun.pid) == ("running", None, os.getpid())
        if error:
            raise error
    note = StageNote.read(Path("logs/demo/make_table.json"))
    assert note.ended is not None
    return note


def test_a_note_says_where_a_stage_runs_and_how_it_ends() -> None:
    note = _note(None)
    assert (note.stage, note.state, note.error) == ("make_table", "finished", None)
    assert (note.host, note.queue_job, note.run) == (platform.node(), "17", "one.json")


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (PhrasemtError("no such file", where="a.txt"), "failed", "a.txt: no such file"),
        (
            ZeroDivisionError("by zero"),
            "failed",
            "a mistake in phrasemt, not of yours: ZeroDivisionError('by zero'). Next: report it, with the log",
        ),
        (StoppedError("stopped by SIGTERM"), "stopped", "stopped by SIGTERM"),
        (SystemExit(143), "stopped", "stopped by SIGTERM. Next: the same command"),
        (KeyboardInterrupt(), "stopped", "stopped by SIGINT. Next: the same command"),
    ],
)
def test_an_error_is_recorded_and_raised(error: BaseException, state: str, text: str) -> None:
    note = _note(error)
    assert (note.state, note.error) == (state, text)


def test_a_note_that_cannot_be_written_ends_no_stage(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where a folder should be")
    with open_note("make_table", Path("logs/make_table.json")):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stage": "make_table"', '{"unheard": 1}', '{"jobs": 3}'])
def test_what_is_no_note_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "note.json").write_text(text)
    assert StageNote.read(tmp_path / "note.json") is None
    assert RunNote.read(tmp_path / "note.json") is None
    assert RunNote.read(tmp_path / "missing.json") is None


def _on_disk(note: StageNote, silent: timedelta = timedelta(0)) -> Path:
    path = Path("note.json")
    note.write(path)
    keep_silent(path, silent)
    return path


def test_a_process_of_this_machine_is_asked() -> None:
    now = datetime.now(UTC)
    mine = StageNote(stage="translate_examples")
    assert mine.is_running(_on_disk(mine, timedelta(days=1)), now)
    dead = mine.model_copy(update={"pid": gone()})
    assert not dead.is_running(_on_disk(dead), now)
    elder = mine.model_copy(update={"started": now - timedelta(days=300)})  # this process has its number now
    assert not elder.is_running(_on_disk(elder), now)


def test_a_process_of_another_machine_runs_while_it_gives_heartbeats() -> None:
    note, now = StageNote(stage="translate_examples", host="elsewhere", pid=1), datetime.now(UTC)
    assert note.is_running(_on_disk(note, timedelta(minutes=9)), now)
    assert not note.is_running(_on_disk(note, timedelta(minutes=11)), now)
    assert not note.model_copy(update={"state": "finished"}).is_running(_on_disk(note), now)
    assert not note.is_running(Path("missing.json"), now)


def test_heartbeats_come_while_the_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_HEARTBEAT", 0.01)
    path = _on_disk(StageNote(stage="translate_examples"), timedelta(hours=1))
    old = path.stat().st_mtime
    with heartbeat(path):
        for _ in range(1000):
            if path.stat().st_mtime > old:
                break
            notes.threading.Event().wait(0.01)
    assert path.stat().st_mtime > old


def test_a_run_is_read_as_it_was_written() -> None:
    path = new_run("demo")
    note = begun(job("make_table"), done={"translate_examples": 3})
    note.write(path)
    assert RunNote.read(path) == note
    latest = latest_run("demo")
    assert latest.absolute() == path
    assert latest_run("other") is None


def test_notes_of_old_runs_are_removed_except_those_of_running_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_RUNS_KEPT", 2)
    folder = Path("logs/demo/runs")
    note = begun(host=platform.node(), started=datetime.now(UTC))
    RUN.unlink()
    for number in range(5):
        path = folder / f"{number}.json"
        note.model_copy(update={"state": "running" if number == 1 else "failed"}).write(path)
        study_of(path).write_text("study: demo\n")
    new_run("demo")
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{number}.{kind}" for number in (1, 3, 4) for kind in ("json", "yaml")
    ]
    assert json.loads((folder / "1.json").read_text())["state"] == "running"


def test_a_new_file_of_code_is_a_change_of_the_commit(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("phrasemt/runs", "rules", "workflow"):
        (here / folder).mkdir(parents=True)
    monkeypatch.setattr(notes, "__file__", str(here / "phrasemt" / "runs" / "notes.py"))
    identity = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", *identity, "commit", "--quiet", "--allow-empty", "--message=m"], check=True)
    clean = notes.commit_of_code()
    (here / "mine.txt").touch()  # data of one's own changes no code
    assert notes.commit_of_code() == clean
    (here / "phrasemt" / "mine.py").touch()
    assert notes.commit_of_code() == f"{clean}-dirty"
