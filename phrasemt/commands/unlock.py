"""`phrasemt unlock`: remove the lock of a killed run, unless a process or a Slurm job of a run is still running.

Snakemake locks the files of a run. A run that `kill -9` or a power cut has ended cannot remove its lock. Its stages or
Slurm jobs may continue without it, and a second run beside them would write the same files. The lock does not say
whose it is. Processes of other machines, of which there may be several login nodes, are known by the notes that they
keep (phrasemt/runs/notes.py).
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
from collections.abc import Collection, Iterator
from pathlib import Path

from phrasemt.artefacts.paths import LOGS
from phrasemt.errors import PhrasemtError
from phrasemt.machine.slurm import cancel_jobs_here, jobs_here
from phrasemt.runs.notes import CLAIMS, StageNote, dead_claims, processes_here, running_notes

log = logging.getLogger("phrasemt.unlock")

LOCKS = Path(".snakemake/locks")
_BY_HAND = "make sure that no Snakemake works in this folder, on any machine, then call `snakemake --unlock`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cancel", action="store_true", help="cancel the Slurm jobs that the killed run left behind")


def run(options: argparse.Namespace) -> bool:
    """Remove Snakemake's locks of this folder, or print what still runs here, or whose they may be.

    Returns whether a run can begin. Raises PhrasemtError for --cancel while a Snakemake process, of this machine or of
    another one, waits for the jobs.
    """
    running = [process for name, process in _working() if name == "snakemake"]
    jobs = jobs_here()
    if jobs and options.cancel:
        if running:
            raise PhrasemtError(
                "the run of these Slurm jobs is still going; nothing was cancelled",
                where=Path.cwd(),
                found=f"snakemake, {', '.join(running)}",
                next_step="end it there (Ctrl-C, or `kill -INT` with its number), which cancels its jobs",
            )
        cancel_jobs_here()
        log.info("unlock: cancelled Slurm jobs %s", ", ".join(jobs))
    elif jobs and not running:
        log.info(
            "unlock: Slurm jobs of a run in this folder have not ended: %s. Nothing was done. Next: `phrasemt unlock "
            "--cancel`, when no Snakemake process waits for them on any login node",
            ", ".join(jobs),
        )
        return False
    claims, locks = dead_claims(), list(LOCKS.glob("*"))
    if locks:
        working = list(_working(cancelled=jobs))
        found = ", ".join(f"{name} ({process})" for name, process in working)
        if running:
            log.info("unlock: another run goes on here: %s. A study that makes other files can run beside it", found)
            return True
        if working:
            why, next_step = f"{found} still runs here", "wait for it or end it with `kill`, then run this again"
        elif others := [lock for lock in locks if os.getuid() not in (0, lock.stat().st_uid)]:
            # The working folders of the processes of other users are not readable.
            why, next_step = f"it belongs to another user ({others[0].owner()})", f"let them call this, or {_BY_HAND}"
        elif not claims:
            why, next_step = "no run of phrasemt was killed here", _BY_HAND
        else:
            why = next_step = ""
        if why:
            log.info("unlock: the lock remains, because %s. Next: %s", why, next_step)
            return False
        log.info("unlock: removed the lock of a killed run")
    for path in (*locks, *claims):
        path.unlink(missing_ok=True)
    return True


def _working(cancelled: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """What works in this folder, and the process that does; those of other machines after these.

    cancelled: Slurm jobs that have ended, perhaps without a chance to say so.
    """
    named = set[tuple[str, int]]()
    for process, name in processes_here():
        named.add((platform.node(), process))
        yield name, f"process {process}"
    for _, note in (*running_notes(CLAIMS), *running_notes(LOGS)):
        if isinstance(note, StageNote):
            name, ended = note.stage, note.queue_job in cancelled
        else:
            name, ended = "snakemake", False
        if (note.host, note.pid) not in named and not ended:
            named.add((note.host, note.pid))  # a run has a claim, too
            yield name, f"process {note.pid} on {note.host}"
