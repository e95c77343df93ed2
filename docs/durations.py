"""Writes the durations of a study's jobs beside it, from the benchmarks of its run here.

`.venv/bin/python docs/durations.py config.yaml`, after a run on a quiet machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from phrasemt.runs.costs import seconds_of_job
from phrasemt.runs.durations import Durations, write_durations
from phrasemt.study.reading import load_study
from phrasemt.workflow.paths import Paths


def main(study: Path) -> None:
    """Write the durations. study: its file."""
    folder = Path(Paths(load_study(study).study).benchmarks)
    durations: Durations = {}
    for path in folder.rglob("*.tsv"):
        rule, _, name = path.relative_to(folder).with_suffix("").as_posix().partition("/")
        if (seconds := seconds_of_job(path)) is not None:
            durations[rule, name] = seconds
    write_durations(study, durations)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
