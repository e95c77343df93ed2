"""`run.json` beside metrics.jsonl: which process trains, where, and how far it has come.

The reporter of a training writes it, `phrasemt runs` reads it. Nothing here needs torch: the verb answers at once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from phrasemt.files.lines import write_text
from phrasemt.workflow.journal import State, alive


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """One run of a training; a training that was stopped and goes on has several, and the file is of the last.

    device: "cpu" or the GPU's name; processes: how many train together, of which `pid` is the first; started and
    reported: ISO 8601 in UTC; first_update: updates that earlier runs had done; seconds: training time over all runs;
    memory_mib: most memory so far of the process, or of its GPU; state: stopped if a signal or the budget of time
    ended the run, failed if an error did.
    """

    host: str
    pid: int
    device: str
    processes: int
    started: str
    reported: str
    first_update: int
    update: int
    max_updates: int
    seconds: float
    seconds_left: float | None
    tokens_per_second: float | None
    memory_mib: float
    state: State

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None when there is no such file, or none that this version can read."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    def alive(self, now: datetime) -> bool:
        """Whether its process still works, as far as can be told."""
        return alive(
            self.host, self.pid, datetime.fromisoformat(self.started), datetime.fromisoformat(self.reported), now
        )


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 12:03:59."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def memory(mib: float) -> str:
    """Memory in the unit that people read: 812 MiB, 1.2 GiB."""
    return f"{mib:.0f} MiB" if mib < 1000 else f"{mib / 1024:.1f} GiB"
