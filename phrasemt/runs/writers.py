"""Who works in this folder: processes of this machine that run Snakemake or a stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

from phrasemt.stages import STAGES


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
