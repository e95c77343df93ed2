"""`phrasemt unlock`: remove the lock of a killed run, unless a process or a Slurm job of the run is still alive.

Snakemake locks the files of a run. A run that `kill -9` or a power cut has ended cannot remove its lock. Its stages or
Slurm jobs may continue without it, and a second run beside them would write the same files.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.machine.slurm import cancel_jobs_here, jobs_here
from phrasemt.runs.writers import processes_here

log = logging.getLogger("phrasemt.unlock")

LOCKS = Path(".snakemake/locks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cancel", action="store_true", help="cancel the Slurm jobs that the killed run left behind")


def run(options: argparse.Namespace) -> None:
    """Remove Snakemake's locks of this folder, or print which processes and Slurm jobs still run here.

    Raises PhrasemtError for --cancel while a Snakemake process of this machine waits for the jobs.
    """
    if jobs := jobs_here():
        if not options.cancel:
            log.info(
                "unlock: Slurm jobs of a run in this folder have not ended: %s. Nothing was done. "
                "Next: make sure that no Snakemake process waits for them on any login node, then run "
                "`phrasemt unlock --cancel`",
                ", ".join(jobs),
            )
            return
        if alive := [str(process) for process, name in processes_here() if name == "snakemake"]:
            raise PhrasemtError(
                "the run of these Slurm jobs is alive; nothing was cancelled",
                where=Path.cwd(),
                found=f"snakemake, process {', '.join(alive)}",
                next_step=f"end it (Ctrl-C, or `kill -INT {' '.join(alive)}`), which cancels its jobs",
            )
        cancel_jobs_here()
        log.info("unlock: cancelled Slurm jobs %s", ", ".join(jobs))
    locks = list(LOCKS.glob("*"))
    if not locks:
        return
    working = [f"{name} (process {process})" for process, name in processes_here()]
    if working:
        log.info(
            "unlock: the lock remains, because %s still runs here. Next: wait for it or end it with `kill`, then run "
            "this again",
            ", ".join(working),
        )
        return
    for lock in locks:
        lock.unlink(missing_ok=True)
    log.info("unlock: removed the lock of a killed run")
