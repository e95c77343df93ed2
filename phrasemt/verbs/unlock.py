"""`phrasemt unlock`: remove the lock that a killed run left behind, when nothing works in this folder any more.

Snakemake locks the files of a run. A run that is ended by `kill -9` or a power cut cannot remove its lock, and its
stages or its Slurm jobs may go on without it; starting again beside them would make two writers of the same files.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from phrasemt.errors import PhrasemtError
from phrasemt.machine.slurm import cancel_jobs_here, jobs_here
from phrasemt.workflow.writers import processes_here

log = logging.getLogger("phrasemt.unlock")

LOCKS = Path(".snakemake/locks")


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "unlock", help="remove the lock of a killed run, when nothing works in this folder any more"
    )
    parser.add_argument("--cancel", action="store_true", help="cancel Slurm jobs that the killed run has left behind")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Removes Snakemake's locks of this folder, or says who still works here.

    Raises PhrasemtError when jobs are to be cancelled for which a Snakemake of this machine waits.
    """
    if jobs := jobs_here():
        if not options.cancel:
            log.info(
                "unlock: Slurm jobs of a run in this folder have not ended: %s. Nothing was done. "
                "Next: when the Snakemake that waits for them is dead, on every login node, `phrasemt unlock --cancel`",
                ", ".join(jobs),
            )
            return
        if alive := [str(process) for process, name in processes_here() if name == "snakemake"]:
            raise PhrasemtError(
                "the run of these Slurm jobs is alive, and nothing was cancelled",
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
            "unlock: the lock stays, because %s still works here. Wait for it or end it with `kill`, then run again",
            ", ".join(working),
        )
        return
    for lock in locks:
        lock.unlink(missing_ok=True)
    log.info("unlock: removed the lock of a run that was killed")
