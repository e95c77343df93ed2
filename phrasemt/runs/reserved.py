"""What jobs reserve on a cluster, as the profile gives it: a row for the jobs of a rule that reserve the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from phrasemt.runs.text_table import table
from phrasemt.runs.units import clock

PARTITION = "slurm_partition"
_PARTITIONS = (PARTITION, "lsf_queue", "queue")  # the resource that names it, in one of the profiles
_GPUS = re.compile(r"\bgpus?(?:-per-node)?[:=](?:[^\W\d]\w*:)?(\d+)")  # gpu:2, gpu:a100:2, --gpus-per-node=4
HERE = "here"  # of jobs that run where Snakemake runs


def gpus_of(job: Any) -> int:
    """GPUs of a job of Snakemake on all its nodes: by its resource gpu, or else by gres or by options for Slurm."""
    resources = job.resources
    if gpus := int(resources.get("gpu") or 0):
        return gpus
    for option in ("gres", "slurm_extra"):
        if match := _GPUS.search(str(resources.get(option) or "")):
            return int(match[1]) * int(resources.get("nodes") or 1)
    return 0


@dataclass(frozen=True)
class _Reservation:
    """Of one job in its first try. cores: on each node; memory: in MB; seconds: 0 without a limit."""

    partition: str
    gpus: int
    cores: int
    memory: int
    seconds: int

    @classmethod
    def of(cls, job: Any) -> _Reservation:
        resources = job.resources
        numbers = {name: resources.get(name) for name in ("mem_mb", "runtime", "seconds")}
        memory, minutes, seconds = (int(value) if isinstance(value, int | float) else 0 for value in numbers.values())
        partition = next((str(resources[name]) for name in _PARTITIONS if resources.get(name)), "")
        partition = HERE if job.rule.name in job.rule.workflow._localrules else partition
        return cls(partition, gpus_of(job), job.threads, memory, 60 * minutes or seconds)

    @property
    def cells(self) -> tuple[str, ...]:
        memory = f"{self.memory:,} MB" if self.memory else ""
        numbers = [f"{number:,}" if number else "" for number in (self.gpus, self.cores)]
        return self.partition, *numbers, memory, clock(self.seconds) if self.seconds else ""


def describe_reserved(dag: Any, jobs: Iterable[Any]) -> Iterator[str]:
    """Yield a table: what each rule's jobs reserve, and as how many jobs they stand in the queue.

    jobs: of Snakemake, which run stages. The jobs of a group are one job in the queue. There is no table where nothing
    has a partition or a limit of time.
    """
    jobs_of: dict[tuple[str, _Reservation], list[Any]] = {}
    for job in jobs:
        jobs_of.setdefault((job.rule.name, _Reservation.of(job)), []).append(job)
    if not any(one.seconds or one.partition not in ("", HERE) for _, one in jobs_of):
        return
    rows: list[tuple[str, ...]] = [("rule", "jobs", "partition", "GPUs", "cores", "memory", "time", "in the queue")]
    queued = set()
    for (rule, reservation), of_row in jobs_of.items():
        entries = set() if reservation.partition == HERE else {dag.get_job_group(job) or job for job in of_row}
        queued |= entries
        rows.append((rule, f"{len(of_row):,}", *reservation.cells, f"{len(entries):,}" if entries else ""))
    number = sum(map(len, jobs_of.values()))
    rows.append(("all", f"{number:,}", "", "", "", "", "", f"{len(queued):,}"))
    yield "what the profile reserves for each job"
    yield from (f"  {line}" for line in table(rows, right_aligned={*rows[0]} - {"rule", "partition"}))
