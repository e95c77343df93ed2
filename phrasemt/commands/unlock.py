"""`phrasemt unlock`: remove the lock of a killed run, unless a process or a Slurm job of a run is still running.

Snakemake locks the files of a run. A run that `kill -9` or a power cut has ended cannot remove its lock. Its stages or
Slurm jobs may continue without it, and a second run beside them would write the same files. The lock does not say
whose it is. Slurm jobs have the name of their run. Processes of other machines, of which there may be several login
nodes, are known by the notes that they keep (phrasemt/runs/notes.py).
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import platform
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.paths import LOGS
from phrasemt.errors import PhrasemtError
from phrasemt.machine.slurm import end_jobs
from phrasemt.runs import notes

log = logging.getLogger("phrasemt.unlock")

LOCKS = Path(".snakemake/locks")
_BY_HAND = "make sure that no Snakemake works in this folder, on any machine, then call `snakemake --unlock`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cancel", action="store_true", help="cancel the Slurm jobs that killed runs left behind")


def run(options: argparse.Namespace) -> None:
    """As `unlock`."""
    unlock(cancel=options.cancel)


def unlock(*, cancel: bool = False, study: str | None = None) -> bool:
    """Remove Snakemake's locks of killed runs in this folder, or print what still runs here, or whose they may be.

    cancel: end the Slurm jobs of killed runs. study: the one that is to run here now; those of another one may go on.
    Returns whether a run can begin. Raises PhrasemtError for `cancel` if all Slurm jobs here belong to a living run.
    """
    left = notes.abandoned_jobs()
    if cancel and left:
        end_jobs(left)
        log.info("unlock: cancelled Slurm jobs %s", ", ".join(left))
    elif left:
        of_study = [job for job, note in left.items() if study in (None, note.parents[1].name)]
        if of_study:
            what = "Slurm jobs of a run in this folder have not ended: %s. Nothing was done"
            log.info(f"unlock: {what}. Next: `phrasemt unlock --cancel`", ", ".join(of_study))
        return not of_study
    elif cancel and (jobs := notes.jobs_of_runs()):
        raise PhrasemtError(
            "the run of these Slurm jobs is still going; nothing was cancelled",
            where=Path.cwd(),
            found=", ".join(jobs),
            next_step="end it where it runs (Ctrl-C, or `kill -INT` with its number), which cancels its jobs",
        )
    living, locks = dict(notes.running_notes(notes.CLAIMS)), list(LOCKS.glob("*"))
    claims = [path for path in notes.CLAIMS.glob("*.json") if path not in living]  # of killed processes
    if locks:
        runs = {path.name: note for path, note in notes.running_notes(LOGS) if isinstance(note, notes.RunNote)}
        working = list(_working(cancelled=left))
        snakemakes = [f"{name} ({place})" for name, place, _ in working if name == "snakemake"]
        stages = [f"{name} ({place})" for name, place, run in working if name != "snakemake" and run not in runs]
        if snakemakes:
            found = ", ".join(snakemakes)
            log.info("unlock: another run goes on here: %s. A study that makes other files can run beside it", found)
            if stages or not claims or len(snakemakes) > len(runs):  # one has not noted yet what it makes
                return True
            outputs = set[str]().union(*(note.outputs for note in runs.values()))
            locks = [lock for lock in locks if outputs.isdisjoint(_locked_outputs(lock))]
        elif why := _why_locked(locks, stages, killed=bool(claims)):
            log.info("unlock: the lock remains, because %s", why)
            return False
        if locks:
            log.info("unlock: removed the lock of a killed run")
    for path in (*locks, *claims):
        path.unlink(missing_ok=True)
    return True


def _why_locked(locks: Sequence[Path], stages: Sequence[str], *, killed: bool) -> str | None:
    """Why locks remain where no Snakemake runs, and what to do. killed: a run of phrasemt was killed here."""
    if stages:
        return f"{', '.join(stages)} still runs here. Next: wait for it or end it with `kill`, then run this again"
    # The working folders of the processes of other users are not readable.
    if others := [lock for lock in locks if os.getuid() not in (0, lock.stat().st_uid)]:
        return f"it belongs to another user ({others[0].owner()}). Next: let them call this, or {_BY_HAND}"
    return None if killed else f"no run of phrasemt was killed here. Next: {_BY_HAND}"


def _locked_outputs(lock: Path) -> list[str]:
    """The outputs of the run to which a lock belongs: Snakemake writes N.input.lock and N.output.lock."""
    path = lock.with_name(lock.name.replace(".input.", ".output."))
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _working(cancelled: Collection[str]) -> Iterator[tuple[str, str, str | None]]:
    """What works in this folder: `snakemake` or a stage, its process, and the name of the note of its run.

    What works on other machines comes last. cancelled: Slurm jobs that have ended, perhaps without a chance to say so.
    """
    running = itertools.chain(notes.running_notes(notes.CLAIMS), notes.running_notes(LOGS))  # a run: twice
    found = {(note.host, note.pid): note for _, note in running}
    for process, name in notes.processes_here():
        note = found.pop((platform.node(), process), None)
        yield name, f"process {process}", note.run if isinstance(note, notes.StageNote) else None
    for (host, pid), note in found.items():
        if isinstance(note, notes.RunNote):
            yield "snakemake", f"process {pid} on {host}", None
        elif note.queue_job not in cancelled:
            yield note.stage, f"process {pid} on {host}", note.run
