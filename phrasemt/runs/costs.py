"""What jobs cost, by the benchmarks that Snakemake records of finished jobs.

Snakemake records benchmarks and nothing estimates from them.
"""

from __future__ import annotations

import csv
import functools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.runs.notes import PlannedJob


@dataclass(kw_only=True)
class Costs:
    """Of a job, or of some jobs together. estimated: jobs like which none has finished here."""

    jobs: int = 1
    core_hours: float = 0
    gpu_hours: float = 0
    bytes: float = 0
    estimated: int = 0

    def seconds(self, job: PlannedJob) -> float:
        """Of a job with its cores, or with its GPUs."""
        return 3600 * (self.gpu_hours / max(1, job.gpus) or self.core_hours / job.threads)

    def add(self, other: Costs) -> None:
        self.jobs += other.jobs
        self.core_hours += other.core_hours
        self.gpu_hours += other.gpu_hours
        self.bytes += other.bytes
        self.estimated += other.estimated


class Recorded:
    """The benchmarks of finished jobs of a study. Other studies do not count: their data have another size.

    The mean of a rule is computed once: to look again during a run, make another object.
    """

    def __init__(self, study: str) -> None:
        self._benchmarks = Paths(study).benchmarks
        self._mean_of_rule = functools.cache(self._seconds_of_rule)

    def seconds(self, job: PlannedJob) -> float | None:
        """How long a job is likely to take: as the same job before, or else as the mean of its rule; None: unknown."""
        own = seconds_of_job(Path(job.benchmark)) if job.benchmark else None
        return self._mean_of_rule(job.rule) if own is None else own

    def _seconds_of_rule(self, rule: str) -> float | None:
        files = [*Path().glob(f"{self._benchmarks}/{rule}/**/*.tsv"), *Path().glob(f"{self._benchmarks}/{rule}.tsv")]
        seconds = [found for file in files if (found := seconds_of_job(file)) is not None]
        return statistics.fmean(seconds) if seconds else None

    def of(self, job: PlannedJob, estimate: Costs) -> Costs:
        """What a job is likely to cost. estimate: the cost if no such job has finished."""
        if (seconds := self.seconds(job)) is None:
            return replace(estimate, estimated=1)
        hours = seconds / 3600
        return Costs(core_hours=hours * job.threads, gpu_hours=hours * job.gpus, bytes=estimate.bytes)


def seconds_needed(jobs: Sequence[tuple[PlannedJob, float]], cores: int | None) -> float:
    """How long jobs take together: their longest chain or, if longer, all work shared out over the cores.

    jobs: with the seconds that each takes; those that a job waits for stand before it. cores: None for a cluster.
    """
    ends: list[float] = []  # of each job, in seconds from now, if none waits for a core
    for job, seconds in jobs:
        ends.append(seconds + max((ends[other] for other in job.after), default=0.0))
    work = sum(seconds * job.threads for job, seconds in jobs)
    return max([0.0, *ends, work / cores if cores else 0.0])


def seconds_of_job(benchmark: Path) -> float | None:
    """Wall seconds of a finished job; None when there is no record that can be read."""
    try:
        with benchmark.open(encoding="utf-8", newline="") as stream:
            return statistics.fmean(float(row["s"]) for row in csv.DictReader(stream, delimiter="\t"))
    except (OSError, ValueError, KeyError, TypeError):  # StatisticsError is a ValueError
        return None
