"""Notes: small files that say which process works on what, where, when it last gave a heartbeat, and how it ended.

Three kinds of work write a note, all in one format:

- a run of the workflow, `logs/<study>/runs/<begin>-<process>.json`: also the jobs that Snakemake set out to do. The
  study as it was then lies beside the note.
- a stage, `<log of the stage>.json`.
- a training, `note.json` beside its `metrics.jsonl`: also its last report of progress.

A Snakemake that is about to lock files claims the folder by a note of the same form, `.snakemake/claims/*.json`, which
it removes when it ends. So the lock of a killed one has a claim whose process is dead, even if there was no run yet.

`phrasemt status` reads notes. The time of a note's file is the last heartbeat. A disk that is full, or a folder that
cannot be written, ends no stage. Jobs on other nodes write them, so they are files and no rows of a database: SQLite,
as the library snkmt uses it, is not safe on file systems of clusters.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import platform
import re
import secrets
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

import psutil
from pydantic import BaseModel, Field

from phrasemt.artefacts.paths import LOGS
from phrasemt.errors import StoppedError, message_of
from phrasemt.files.lines import write_text
from phrasemt.machine.slurm import jobs_here
from phrasemt.stages import STAGES

# Names the note of the run that a process belongs to; Snakemake's jobs inherit it, on other machines too.
RUN = "PHRASEMT_RUN"
# Set for Snakemake by `phrasemt run`, which says itself what becomes of the jobs.
CONSOLE = "PHRASEMT_CONSOLE"
CLAIMS = Path(".snakemake/claims")
# A process of another machine cannot be asked; it counts as dead this many seconds after its last heartbeat.
SILENCE = 600
# Seconds by which the clock of the machine may have been corrected since a process began.
_CLOCK_CORRECTED = 60
_HEARTBEAT = 30.0  # seconds
_RUNS_KEPT = 20
_LONGEST_MESSAGE = 2000
_QUEUE_NAME = re.compile(r"(.+)_(\d{8}T\d{6}-\d+)")

State = Literal["running", "finished", "stopped", "failed"]


class _Note(BaseModel, frozen=True):
    """A process and what became of it. Times are in UTC."""

    host: str = Field(default_factory=platform.node)
    pid: int = Field(default_factory=os.getpid)
    pid_namespace: str | None = Field(default_factory=lambda: _pid_namespace())
    started: datetime = Field(default_factory=lambda: now())
    ended: datetime | None = None
    state: State = "running"

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None when there is no such file, or none that this version can read."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            write_text(path, self.model_dump_json() + "\n")

    def is_running(self, path: Path, now: datetime) -> bool:
        """Whether the process of this note, which is in this file, still runs.

        A process of this machine exists and is not a younger one with the same number; a process of another machine,
        or of a container that counts processes for itself, has given a heartbeat.
        """
        if self.state != "running":
            return False
        if self.host != platform.node() or self.pid_namespace not in (None, _pid_namespace()):
            try:
                return now.timestamp() - path.stat().st_mtime <= SILENCE
            except OSError:
                return False
        try:
            process = psutil.Process(self.pid)
            born, status = process.create_time(), process.status()
        except psutil.NoSuchProcess:
            return False
        return status != psutil.STATUS_ZOMBIE and bool(born <= self.started.timestamp() + _CLOCK_CORRECTED)

    def seconds(self, now: datetime) -> float:
        """From its begin to its end, or until now."""
        return ((self.ended or now) - self.started).total_seconds()


def _pid_namespace() -> str | None:
    """Where the numbers of processes count; None where the system does not say it, and in notes of earlier versions."""
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return None


class TrainingReport(BaseModel, frozen=True):
    """How far a training is, as it last reported.

    device: "cpu" or the GPU's name; processes: how many train together; first_update: updates that earlier runs of the
    training had done; seconds: training time over all its runs; memory_mib: most memory so far of the process, or of
    its GPU.
    """

    device: str
    processes: int
    first_update: int
    update: int
    max_updates: int
    seconds: float
    seconds_left: float | None
    tokens_per_second: float | None
    memory_mib: float
    reported: datetime


class StageNote(_Note, frozen=True):
    """A stage. run: name of the run's note; queue_job: its number in Slurm's queue; error: its message.

    training: the last report of a training.
    """

    stage: str
    run: str | None = Field(default_factory=lambda: os.environ.get(RUN) and Path(os.environ[RUN]).name)
    queue_job: str | None = Field(default_factory=lambda: os.environ.get("SLURM_JOB_ID"))
    error: str | None = None
    training: TrainingReport | None = None


class OpenNote:
    """The note of a stage that runs."""

    def __init__(self, note: StageNote, path: Path) -> None:
        self._note, self._path = note, path
        note.write(path)

    def change(self, **changes: Any) -> None:
        """Writes the note with new values of some fields."""
        self._note = self._note.model_copy(update=changes)
        self._note.write(self._path)


def stage_note(log: Path | str) -> Path:
    """The note beside the log of a stage."""
    return Path(log).with_suffix(".json")


def training_note(metrics: Path) -> Path:
    """The note beside the metrics of a training."""
    return metrics.with_name("note.json")


@contextlib.contextmanager
def open_note(stage: str, path: Path) -> Iterator[OpenNote]:
    """Write the note of a stage that runs in this block: running, then finished, stopped on request, or failed."""
    note = OpenNote(StageNote(stage=stage), path)
    try:
        with heartbeat(path):
            yield note
    except BaseException as error:
        stopped = isinstance(error, StoppedError | KeyboardInterrupt | SystemExit)
        note.change(ended=now(), state="stopped" if stopped else "failed", error=message_of(error)[:_LONGEST_MESSAGE])
        raise
    note.change(ended=now(), state="finished")


@contextlib.contextmanager
def heartbeat(path: Path) -> Iterator[None]:
    """Give a heartbeat twice a minute: the time of the file."""
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


class PlannedJob(BaseModel, frozen=True):
    """A job of a run. name: its name among the jobs of its rule.

    gpus: 0 on a machine without any. after: places in the list of jobs of those it waits for, lower than its own.
    """

    rule: str
    name: str
    wildcards: dict[str, str] = {}
    outputs: list[str]
    log: str | None
    benchmark: str | None
    threads: int
    gpus: int
    after: list[int]


class RunNote(_Note, frozen=True):
    """A run. cores: None on a cluster; done: jobs of each rule that were finished before.

    commit: of phrasemt, with `-dirty` after local changes; None outside of a checkout.
    """

    study: str
    log: str | None
    cores: int | None
    done: dict[str, int]
    jobs: list[PlannedJob]
    commit: str | None = None

    @property
    def outputs(self) -> set[str]:
        """The files that its jobs make."""
        return {path for job in self.jobs for path in job.outputs}


def runs_folder(study: str) -> Path:
    return LOGS / study / "runs"


def new_run(study: str) -> Path:
    """The path of the note of a run that begins now. The oldest notes of runs that have ended are removed."""
    folder = runs_folder(study)
    for path in sorted(folder.glob("*.json"))[:-_RUNS_KEPT]:
        note = RunNote.read(path)
        if note is None or not note.is_running(path, datetime.now(UTC)):
            path.unlink(missing_ok=True)
            study_of(path).unlink(missing_ok=True)
    return folder.absolute() / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.json"


def queue_name(run: Path) -> str:
    """The name in Slurm's queue of all jobs of the run with this note. `squeue` shows the first letters: the study."""
    return f"{run.parents[1].name}_{run.stem}"


def jobs_of_runs() -> dict[str, Path]:
    """The queued and running Slurm jobs of runs of this folder, with the path of the note of their run.

    Raises PhrasemtError if Slurm does not answer.
    """
    matches = ((job, _QUEUE_NAME.fullmatch(name)) for job, name in jobs_here().items())
    return {job: runs_folder(match[1]) / f"{match[2]}.json" for job, match in matches if match}


def abandoned_jobs() -> dict[str, Path]:
    """Those of `jobs_of_runs` whose run has ended or was killed."""
    notes = {job: (path, RunNote.read(path)) for job, path in jobs_of_runs().items()}
    return {job: path for job, (path, note) in notes.items() if note is None or not note.is_running(path, now())}


def running_notes(folder: Path) -> Iterator[tuple[Path, RunNote | StageNote]]:
    """The notes below a folder of logs, of runs and of stages, whose processes still work here or elsewhere."""
    now = datetime.now(UTC)
    for path in sorted(folder.rglob("*.json")):
        note = RunNote.read(path) or StageNote.read(path)
        if note is not None and note.is_running(path, now):
            yield path, note


@functools.cache
def claim() -> None:
    """Note that this process, a Snakemake, works in this folder, until it ends."""
    path, alive = (CLAIMS / f"{secrets.token_hex(8)}.json").absolute(), contextlib.ExitStack()
    StageNote(stage="snakemake").write(path)
    alive.callback(path.unlink, missing_ok=True)
    alive.enter_context(heartbeat(path))
    atexit.register(alive.close)


def processes_here() -> Iterator[tuple[int, str]]:
    """Number and work of each process whose working folder this is: a stage, `snakemake`, or `snakemake of a job`.

    Not of this process and those that started it.
    """
    mine = {process.pid for process in (psutil.Process(), *psutil.Process().parents())}
    for process in psutil.process_iter(["pid", "cwd", "cmdline"]):
        if process.pid in mine or process.info["cwd"] != str(Path.cwd()):
            continue
        words = [Path(word).name for word in process.info["cmdline"] or []]
        if "snakemake" in words:
            yield process.info["pid"], "snakemake of a job" if "--mode" in words else "snakemake"
        elif "phrasemt" in words and (stages := STAGES.keys() & words):
            yield process.info["pid"], stages.pop()


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


def commit_of_code() -> str | None:
    """The commit of this phrasemt, with `-dirty` after local changes; None outside of a checkout or without git.

    A new file in a folder of code, such as a family of your own, is a change, too.
    """
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():  # a checkout above is that of another program
        return None
    git = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=normal"]
    try:
        lines = subprocess.run(git, check=True, capture_output=True, text=True, timeout=20).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    commit = lines[0].removeprefix("# branch.oid ")
    changes = ("1 ", "2 ", "u ", "? phrasemt/", "? rules/", "? workflow/")
    return f"{commit}-dirty" if any(line.startswith(changes) for line in lines) else commit


def now() -> datetime:
    """The time, in UTC and whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
