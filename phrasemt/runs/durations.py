"""Durations that a study ships: how long its jobs took where its authors ran it, so that a first run foresees its end.

They stand beside the study, as `config.durations.tsv` beside config.yaml: rule, name of the job, and seconds.
`docs/durations.py` writes them. What this machine has recorded itself goes before them (phrasemt/runs/status.py).
"""

from __future__ import annotations

import csv
from pathlib import Path

from phrasemt.errors import DataError
from phrasemt.files.lines import write_text

_COLUMNS = ["rule", "job", "seconds"]
Durations = dict[tuple[str, str], float]  # seconds by rule and name of a job


def durations_of(study: Path) -> Path:
    """Where the durations of a study file stand."""
    return study.with_suffix(".durations.tsv")


def read_durations(study: Path) -> Durations:
    """The durations beside a study file; none when it ships none. Raises DataError for a file that is damaged."""
    path = durations_of(study)
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        try:
            rows = csv.DictReader(stream, delimiter="\t", strict=True)
            return {(row["rule"], row["job"]): float(row["seconds"]) for row in rows}
        except (csv.Error, KeyError, TypeError, ValueError) as error:
            raise DataError(
                "durations that cannot be read",
                where=path,
                expected=f"a table with the columns {', '.join(_COLUMNS)}",
                next_step="remove the file; then the run says when it ends once its jobs are known",
            ) from error


def write_durations(study: Path, durations: Durations) -> None:
    """Write the durations beside a study file."""
    rows = [_COLUMNS, *([rule, name, f"{seconds:.1f}"] for (rule, name), seconds in sorted(durations.items()))]
    write_text(durations_of(study), "".join("\t".join(row) + "\n" for row in rows))
