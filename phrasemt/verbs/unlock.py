"""`phrasemt unlock`: remove the lock that a killed run left behind, when nothing works in this folder any more.

Snakemake locks the files of a run. A run that is ended by `kill -9` or a power cut cannot remove its lock, and its
stages may go on without it; starting again beside them would make two writers of the same files.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from phrasemt.stages import STAGES

log = logging.getLogger("phrasemt.unlock")

LOCKS = Path(".snakemake/locks")


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "unlock", help="remove the lock of a killed run, when nothing works in this folder any more"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Removes Snakemake's locks of this folder, or says which processes still work here."""
    locks = list(LOCKS.glob("*"))
    if not locks:
        return
    working = [f"{name} (process {process})" for process, name in _processes_here()]
    if working:
        log.info(
            "unlock: the lock stays, because %s still works here. Wait for it or end it with `kill`, then run again",
            ", ".join(working),
        )
        return
    for lock in locks:
        lock.unlink(missing_ok=True)
    log.info("unlock: removed the lock of a run that was killed")


def _processes_here() -> Iterator[tuple[int, str]]:
    """Processes of Snakemake and of stages whose working folder this is."""
    for process in psutil.process_iter(["pid", "cwd", "cmdline"]):
        if process.info["cwd"] != str(Path.cwd()):
            continue
        words = [Path(word).name for word in process.info["cmdline"] or []]
        if "snakemake" in words:
            yield process.info["pid"], "snakemake"
        elif "phrasemt" in words and (stages := STAGES.keys() & words):
            yield process.info["pid"], stages.pop()
