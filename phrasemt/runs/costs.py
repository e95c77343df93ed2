"""What jobs cost, as far as finished jobs tell: the benchmarks that Snakemake records, and the sizes of outputs.

A job whose outputs came from the cache tells nothing: whether the next one finds its outputs there nobody knows.
"""

from __future__ import annotations

import csv
import functools
import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phrasemt.runs.notes import PlannedJob, StageNote, stage_note
from phrasemt.stages import STAGES
from phrasemt.workflow.paths import Paths, log_of

# What an estimate rests on, from the best to none at all.
OWN, OF_THE_RULE, OF_OTHER_STUDIES, NOTHING = "the same job", "jobs of the rule", "other studies", "nothing"


@dataclass
class Costs:
    """Of some jobs together. basis: how many jobs' times rest on what; unknown: rules of which nothing is known."""

    core_seconds: float = 0
    gpu_seconds: float = 0
    bytes: float = 0
    basis: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


class Recorded:
    """The benchmarks of finished jobs of a study, and of others where it has none.

    Each is read once, so that whoever looks again while a run goes on makes another.
    """

    def __init__(self, study: str, finished: Iterable[PlannedJob] = ()) -> None:
        """`finished`: jobs whose outputs are there, to learn from how large outputs of a rule are."""
        self._study = study
        self._sizes: dict[str, list[int]] = {}
        for job in finished:
            self._sizes.setdefault(job.rule, []).append(size_of(job))
        self._seconds = functools.cache(seconds_of_job)
        self._mean_seconds = functools.cache(self._mean)

    def seconds(self, job: PlannedJob) -> tuple[float | None, str]:
        """How long a job is likely to take, and what this rests on."""
        if job.benchmark and (own := self._seconds(Path(job.benchmark))) is not None:
            return own, OWN
        for study, basis in ((self._study, OF_THE_RULE), ("*", OF_OTHER_STUDIES)):
            if (mean := self._mean_seconds(study, job.rule)) is not None:
                return mean, basis
        return None, NOTHING

    def of(self, jobs: Sequence[PlannedJob]) -> Costs:
        costs = Costs()
        for job in jobs:
            seconds, basis = self.seconds(job)
            costs.basis[basis] += 1
            if seconds is None:
                costs.unknown[job.rule] += 1
            else:
                costs.core_seconds += seconds * job.threads
                costs.gpu_seconds += seconds * job.gpus
            sizes = self._sizes.get(job.rule)
            costs.bytes += size_of(job) or (statistics.fmean(sizes) if sizes else 0)
        return costs

    def _mean(self, study: str, rule: str) -> float | None:
        seconds = seconds_of_jobs(study, rule)
        return statistics.fmean(seconds) if seconds else None


def seconds_of_jobs(study: str, rule: str) -> list[float]:
    """Wall seconds of finished jobs of a rule whose outputs did not come from the cache. study: `*` for all."""
    folder = Paths(study).benchmarks
    files = itertools.chain(Path().glob(f"{folder}/{rule}/**/*.tsv"), Path().glob(f"{folder}/{rule}.tsv"))
    return [seconds for seconds in map(seconds_of_job, files) if seconds is not None]


def size_of(job: PlannedJob) -> int:
    """Bytes of a job's outputs, and of the newest of the states that it keeps beside them; 0 when there are none."""
    paths = [Path(path) for path in job.outputs]
    for folder in STAGES[job.rule].folders:
        states = [path for path in paths[0].parent.glob(f"{folder}/*") if path.is_dir()]
        if states:
            paths += max(states, key=lambda path: path.stat().st_mtime).rglob("*")
    return sum(path.stat().st_size for path in paths if path.is_file())


def seconds_of_job(benchmark: Path) -> float | None:
    """Wall seconds of a finished job; None when it did not run itself, or there is no record that can be read."""
    note = StageNote.read(stage_note(log_of(benchmark)))
    if note and note.from_cache:
        return None
    try:
        with benchmark.open(encoding="utf-8", newline="") as stream:
            return statistics.fmean(float(row["s"]) for row in csv.DictReader(stream, delimiter="\t"))
    except (OSError, ValueError, KeyError, TypeError):  # StatisticsError is a ValueError
        return None
