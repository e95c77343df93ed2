"""`phrasemt run STUDY`: check a study, run it with Snakemake in this folder, and print its table."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from phrasemt.artefacts.paths import Paths
from phrasemt.commands import check, show, unlock
from phrasemt.commands._arguments import add_profile, add_study, in_range, study_name
from phrasemt.errors import PhrasemtError
from phrasemt.runs.display import clock, counted
from phrasemt.runs.notes import CONSOLE, RunNote, runs_folder
from phrasemt.runs.site import CHECKOUT, of_checkout
from phrasemt.runs.status import MOST_SHOWN, JobStatus, ending, failure, job_status, status_of, training_row

_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_BETWEEN_LINES = 60.0  # about trainings; on a terminal a bar has them
_SECONDS_OF_A_BAR = 5.0
# Snakemake's command line, without the two lines that it begins with. The word that follows marks the process.
_SNAKEMAKE = """
import sys
from snakemake import cli, logging
del sys.argv[0]
first = "Using profile", "Assuming unrestricted"
cli.print = lambda *texts, file: texts[0].startswith(first) or print(*texts, file=file)
logging.logger.addFilter(lambda record: not record.getMessage().startswith(first))
cli.main()
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check a study, run what is missing or has changed, print the table. Results, logs and resources lie in the "
        "folder where the command runs, and relative paths of the study begin there. After an interruption the same "
        "command continues."
    )
    add_study(parser)
    add_profile(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="list the jobs and run nothing")
    parser.add_argument("--cores", type=in_range(int, 1), metavar="N", help="cores to use (default: as the profile)")
    what = "all that follows goes to snakemake: files to make, then its options"  # argparse keeps no `--`
    parser.add_argument("--snakemake", nargs=argparse.REMAINDER, default=[], metavar="OPTION", help=what)


def run(options: argparse.Namespace) -> None:
    """Run a study; end with Snakemake's exit code if the run fails, with 128 and the signal's number if one ended it.

    Raises StudyError for a study with mistakes, PhrasemtError in another checkout than the installed one: the workflow
    of one would call the code of the other.
    """
    if Path("phrasemt/__init__.py").is_file() and not Path("phrasemt").samefile(CHECKOUT / "phrasemt"):
        what = "the environment belongs to another checkout of phrasemt"
        next_step = "make install here (first `rm .venv` if it is a link), and activate .venv"
        raise PhrasemtError(what, where=Path.cwd(), found=CHECKOUT, next_step=next_step)
    check.run(Namespace(studies=[options.study], json=False))
    if not unlock.unlock(study=study_name(options.study)):  # which has said why, and what to do
        sys.exit(PhrasemtError.exit_code)
    place = ["--snakefile", of_checkout("workflow/Snakefile"), "--profile", of_checkout(options.profile)]
    # The files to make may follow, which --configfile would take for more studies.
    command = [sys.executable, "-c", _SNAKEMAKE, "snakemake", "--configfile", options.study, *place]
    command += ["--dry-run"] * options.dry_run + ([f"--cores={options.cores}"] if options.cores else [])
    sys.stdout.flush()
    code, signals = _follow([*command, *options.snakemake], options.study)
    if code:
        sys.exit(128 + signals[0] if signals else code if code > 0 else 128 - code)  # below 0: it was killed
    if Path(Paths(study_name(options.study)).markdown_table).exists():  # not after --dry-run or --until
        show.run(Namespace(study=options.study, full=False, figures=None))


def _follow(command: list[str | Path], study: Path) -> tuple[int, list[int]]:
    """Run Snakemake and print its progress. Returns its exit code and the signals that were to end it.

    Each of them reaches Snakemake and its jobs as Ctrl-C: they save, and Slurm jobs are cancelled. So they have a
    process group of their own, which a terminal does not signal, too.
    """
    signals, told = list[int](), False
    process: subprocess.Popen[bytes] | None = None

    def stop(signum: int, frame: object) -> None:
        signals.append(signum)
        if process is not None:
            _interrupt(process)

    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) != signal.SIG_IGN:  # as behind `nohup`
            signal.signal(signum, stop)
        elif signum == signal.SIGINT:  # as in a script, behind `&`; Snakemake would ignore it, too, and never stop
            signal.signal(signum, lambda signum, frame: None)
    process = subprocess.Popen(command, env={**os.environ, CONSOLE: "phrasemt run"}, process_group=0)
    if signals:  # while it was started
        _interrupt(process)
    with _Progress(study, process.pid) as progress:
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_BETWEEN_LOOKS)
                with contextlib.suppress(FileNotFoundError, PhrasemtError):  # jobs replace and remove what it reads
                    progress.look()
                if signals and not told:
                    told = True
                    progress.print("Stopping: trainings save their state ...")
        finally:
            if process.poll() is None:  # a mistake of the display; nobody would see the run any more
                _interrupt(process)
                process.wait()
        progress.end()
    return process.returncode, signals


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


class _Progress(contextlib.ExitStack):
    """Prints a line for each job of a run that ends, as the notes say, and how trainings go.

    study: as on the command line. process: Snakemake's.
    """

    def __init__(self, study: Path, process: int) -> None:
        super().__init__()
        self._study, self._folder, self._process = study, runs_folder(study_name(study)), process
        self._before = set(self._folder.glob("*.json"))
        self._path: Path | None = None
        self._run: RunNote | None = None
        self._done, self._failed = set[int](), set[tuple[int, datetime]]()
        self._bar: tqdm[Any] = tqdm(disable=True)
        self._next_line = 0.0

    def look(self) -> None:
        """Print what has happened since the last look."""
        if self._run is None:
            self._begin()
        if self._run is None or self._path is None:
            return
        now, running = datetime.now(UTC), list[JobStatus]()
        for place, planned in enumerate(self._run.jobs):
            if place in self._done or not self._done.issuperset(planned.after):
                continue
            job = job_status(planned, self._path.name, now)
            if job.state == "done":
                self._done.add(place)
                self._bar.update()
                number = f"{len(self._done):>{len(str(len(self._run.jobs)))}}/{len(self._run.jobs)}"
                self.print(f"{number}  {clock(self._run.seconds(now))}  {job.title}")
            elif job.state == "failed" and job.note and (place, job.note.started) not in self._failed:
                self._failed.add((place, job.note.started))
                if len(self._failed) <= MOST_SHOWN:
                    self.print(failure(job))
            elif job.training:
                running.append(job)
        if running and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + (_SECONDS_BETWEEN_LINES if self._bar.disable else _SECONDS_OF_A_BAR)
            trainings = " · ".join(_of_training(job, now) for job in running)
            self._bar.set_postfix_str(trainings)
            if self._bar.disable:
                self.print(f"training: {trainings}")

    def end(self) -> None:
        """Print how the run ended, unless it finished."""
        self._bar.close()
        if self._path is not None and (status := status_of(self._path, datetime.now(UTC))).state != "finished":
            self.print("\n".join(ending(status)))

    def _begin(self) -> None:
        """Take the note of the run, if it is there."""
        of_process = set(self._folder.glob(f"*-{self._process}.json")) - self._before
        self._path = max(of_process, default=None)
        self._run = RunNote.read(self._path) if self._path else None
        if self._run is not None:
            jobs, cores = len(self._run.jobs), self._run.cores
            where = f" on {counted(cores, 'core')}" if cores else ""
            more = f"progress: phrasemt status {self._study} --watch"
            self.print(f"{self._run.study}: {counted(jobs, 'job')}{where}; {more}")
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            form = "{n_fmt}/{total_fmt} {bar:20} {elapsed} {postfix}"
            self._bar = self.enter_context(tqdm(total=jobs, bar_format=form, disable=None, leave=False))

    def print(self, text: str) -> None:
        """Print a line above the bar."""
        try:
            with self._bar.external_write_mode():
                print(text, flush=True)
        except OSError:  # nobody reads any more; the run goes on
            sys.stdout = None


def _of_training(job: JobStatus, now: datetime) -> str:
    """A training that runs: system, seed, updates, score on dev, time left."""
    assert job.training is not None
    row = training_row(Path(job.planned.outputs[0]).parent, now)
    words = [f"{job.planned.name.rpartition('/')[2]} {job.training.update:,}/{job.training.max_updates:,}"]
    words += [f"dev {row[4]}"] if row and row[4] else []
    words += [f"{clock(job.training.seconds_left)} left"] if job.training.seconds_left is not None else []
    return ", ".join(words)
