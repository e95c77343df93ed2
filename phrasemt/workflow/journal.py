"""What a run of the workflow writes about itself, for those who look on: its plan, and where each of its stages is.

`logs/<study>/runs/<begin>-<process>.json`: what Snakemake set out to do, the code it began with, and how it ended; the
study as it was stands beside it. `<log of a stage>.json`: where the stage runs and how it ended. Whoever looks on reads
these files only; a disk that is full, or a folder that cannot be written, ends no stage.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Self

import psutil

from phrasemt.errors import PhrasemtError, StoppedError
from phrasemt.files.lines import write_text

# Names the note of the run that a process belongs to; Snakemake's jobs inherit it, on other machines too.
RUN = "PHRASEMT_RUN"
# A process of another machine cannot be asked whether it lives; it counts as dead after so long a silence.
SILENCE = timedelta(minutes=10)
# Seconds by which the clock of the machine may have been corrected since a process began.
_CLOCK_CORRECTED = 60
_HEARTBEAT = 30.0  # seconds
_RUNS_KEPT = 20

State = Literal["running", "finished", "stopped", "failed"]


def alive(host: str, pid: int, started: datetime, last_sign: datetime, now: datetime) -> bool:
    """Whether a process exists and is not a younger one with the same number; elsewhere, whether it gives signs."""
    if host != platform.node():
        return now - last_sign <= SILENCE
    try:
        process = psutil.Process(pid)
        born, status = process.create_time(), process.status()
    except psutil.NoSuchProcess:
        return False
    return status != psutil.STATUS_ZOMBIE and bool(born <= started.timestamp() + _CLOCK_CORRECTED)


@dataclass(frozen=True, kw_only=True)
class _Note:
    """A process and what became of it. Times are ISO 8601 in UTC; the file's own time is the last sign of life."""

    host: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    started: str = field(default_factory=lambda: now())
    ended: str | None = None
    state: State = "running"

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None when there is no such file, or none that this version can read."""
        try:
            return cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            write_text(path, json.dumps(asdict(self)) + "\n")

    def alive(self, path: Path, now: datetime) -> bool:
        """Whether the process of this note, which stands in this file, still works."""
        with contextlib.suppress(OSError):
            last_sign = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            return self.state == "running" and alive(self.host, self.pid, self.begin, last_sign, now)
        return False

    @property
    def begin(self) -> datetime:
        return datetime.fromisoformat(self.started)


# --------------------------------------------------------------------------------------------------------------- stages


@dataclass(frozen=True, kw_only=True)
class StageNote(_Note):
    """A stage. run: name of the run's note; queue_job: its number in Slurm's queue; error: how its message begins.

    from_cache: whether its outputs were copied from the cache when it last ended well. Its benchmark is of that time,
    and says nothing about its work, until it ends well again.
    """

    stage: str
    run: str | None = field(default_factory=lambda: os.environ.get(RUN) and Path(os.environ[RUN]).name)
    queue_job: str | None = field(default_factory=lambda: os.environ.get("SLURM_JOB_ID"))
    error: str | None = None
    from_cache: bool = False


@dataclass
class Ending:
    """What a stage says of itself when it has ended well."""

    from_cache: bool = False


def stage_note(log: Path | str) -> Path:
    """The note beside the log of a stage."""
    return Path(log).with_suffix(".json")


@contextlib.contextmanager
def noted(stage: str, log: Path) -> Iterator[Ending]:
    """Keeps the note of a stage that runs in this block."""
    path, ending = stage_note(log), Ending()
    before = StageNote.read(path)
    note = StageNote(stage=stage, from_cache=before is not None and before.from_cache)
    note.write(path)
    state: State = "failed"
    error: str | None = None
    try:
        with beating(path):
            yield ending
        state = "finished"
    except BaseException as end:
        if isinstance(end, StoppedError | KeyboardInterrupt | SystemExit):
            state = "stopped"
        error = (str(end) if isinstance(end, PhrasemtError) else repr(end))[:500]
        raise
    finally:
        from_cache = ending.from_cache if state == "finished" else note.from_cache
        replace(note, ended=now(), state=state, error=error, from_cache=from_cache).write(path)


@contextlib.contextmanager
def beating(path: Path) -> Iterator[None]:
    """Gives a sign of life twice a minute: the time of the file."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_HEARTBEAT):
            with contextlib.suppress(OSError):
                os.utime(path)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


# ----------------------------------------------------------------------------------------------------------------- runs


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """A job of a run. after: places in the list of those it waits for; name: what tells it from others of its rule."""

    rule: str
    name: str
    outputs: list[str]
    log: str | None
    benchmark: str | None
    threads: int
    gpus: int
    after: list[int]


@dataclass(frozen=True, kw_only=True)
class RunNote(_Note):
    """A run. cores: None on a cluster; done: jobs of each rule that were finished before.

    code: digest of each module that its stages use; rules: of the Snakefile and of each file of rules.
    """

    study: str
    log: str | None
    cores: int | None
    done: dict[str, int]
    jobs: list[PlannedJob]
    code: dict[str, str]
    rules: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """As above, with its jobs."""
        try:
            note = super().read(path)
            return note and replace(note, jobs=[PlannedJob(**job) for job in note.jobs])  # type: ignore[arg-type]
        except TypeError:
            return None


def runs_folder(study: str) -> Path:
    return Path("logs", study, "runs")


def new_run(study: str) -> Path:
    """Where the note of a run that begins now stands. The oldest notes of runs that have ended are removed."""
    folder = runs_folder(study)
    for path in sorted(folder.glob("*.json"))[:-_RUNS_KEPT]:
        note = RunNote.read(path)
        if note is None or not note.alive(path, datetime.now(UTC)):
            path.unlink(missing_ok=True)
            study_of(path).unlink(missing_ok=True)
    return folder.absolute() / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.json"


def latest_run(study: str) -> Path | None:
    """The note of the last run of a study; None when there was none."""
    return max(runs_folder(study).glob("*.json"), default=None)


def study_of(run: Path) -> Path:
    """The study as it was when a run began."""
    return run.with_suffix(".yaml")


def run_of_this_process() -> Path | None:
    """The note of the run that has started this process, when there is one."""
    path = os.environ.get(RUN)
    return Path(path) if path and Path(path).is_file() else None


def note_of_run(run: Path) -> RunNote:
    """The note of a run. Raises PhrasemtError when it cannot be read, as after an update of phrasemt meanwhile."""
    note = RunNote.read(run)
    if note is None:
        raise PhrasemtError(
            "the note of this run cannot be read: it is damaged, or of another version of phrasemt",
            where=run,
            next_step="when the run has ended, run the study again, which writes a new one",
        )
    return note


def refuse_edited(files: Iterable[str]) -> None:
    """Raises PhrasemtError when there are any: files of code that were edited since the run began.

    Snakemake notes outputs as made by the code of the beginning, so those of other code would count as that.
    """
    if edited := sorted(files):
        raise PhrasemtError(
            "edited while the run is going; this job ends and has written nothing",
            where=", ".join(edited),
            next_step="when the run has ended, the same command again, which computes what the change touches",
        )


def now() -> str:
    """ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
