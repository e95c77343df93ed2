"""What a study will cost by the measurements of its rehearsal (`phrasemt scale STUDY rehearsal`), job by job.

A rehearsal has the jobs of its study under the same names, on the same machines, on a part of the pairs. Each job reads
some splits; what cleaning left out of them tells how many times as much the study's job reads. Seconds of jobs of a
rule are a start-up and a time for each pair. A training is counted in updates and evaluations.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.training import Metrics, TrainingRecord
from phrasemt.errors import PhrasemtError
from phrasemt.models.cost import cost_of
from phrasemt.runs.costs import ALL, Costs, by_rule, memory_of_job, seconds_of_job
from phrasemt.runs.notes import StageNote, stage_note, training_note
from phrasemt.runs.plan import Job, Plan
from phrasemt.runs.text_table import table
from phrasemt.runs.units import size
from phrasemt.study.schema import Study
from phrasemt.verbs._price import STATE, training_operations
from phrasemt.verbs._rates import GPUS
from phrasemt.verbs.describe import vocabulary_sizes
from phrasemt.workflow.paths import Paths, log_of

_OF_TRAIN = ("aligned", "alignment")  # files of Moses that hold train, though their names have no split
_FEW_LINES = (".json", ".tsv")  # files about a split, which do not grow with it


@dataclass(frozen=True)
class _Measured:
    """The work and the time of a job in the rehearsal. pairs: that it read; times: as many the study's job reads."""

    seconds: float
    pairs: float
    times: float


@dataclass(frozen=True)
class _Training:
    """A training in the rehearsal. start: seconds before the first and after the last update, without evaluations.

    memory: MiB, of tensors on a GPU, of the process without one. operations: a second, on each device.
    """

    update: float
    evaluation: float
    start: float
    tokens_per_second: float
    memory: float
    device: str
    operations: float
    parameters: int

    @property
    def share_of_peak(self) -> float | None:
        """Of the rate of the data sheet; None for a device without one."""
        name = self.device.lower().replace(" ", "")
        kinds = [kind for kind in GPUS if kind in name]
        return self.operations / (GPUS[max(kinds, key=len)] * 1e12) if kinds else None


class Rehearsed:
    """Prices of the jobs of a study from its finished rehearsal.

    free: jobs whose outputs the rehearsal took from the cache, as the study will. missing: rules of jobs that the
    rehearsal did not measure, with their number.
    """

    def __init__(self, study: Study, rehearsal: Study, jobs: Sequence[Job]) -> None:
        """Raises PhrasemtError for a rehearsal of another study, or one that has not run."""
        self._study, self._rehearsal, self._paths = study, rehearsal, Paths(rehearsal.study)
        if other := sorted({*rehearsal.datasets} ^ {*study.datasets}):
            what, next_step = "the rehearsal of another study", f"phrasemt scale {study.study} rehearsal"
            raise PhrasemtError(what, where=rehearsal.study, found=f"data set {other[0]}", next_step=next_step)
        if not Path(self._paths.benchmarks).is_dir():
            next_step = "make study STUDY=... with the file of the rehearsal, on the machines of the study"
            raise PhrasemtError("this rehearsal has not run", where=self._paths.benchmarks, next_step=next_step)
        self.missing: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self._pairs = functools.cache(self._pairs_of)
        self.training = functools.cache(self._training)
        self._measured = {id(job): self._measure(job) for job in jobs}
        seconds = [one.seconds for one in self._measured.values() if one]
        self._fastest = min(seconds, default=0.0)
        self._start_up = {rule: self._start_up_of(ones) for rule, ones in self._of_rules(jobs).items()}
        for job in jobs:
            if self._measured[id(job)] is None:
                from_cache = any(self._from_cache(path) for path in self._benchmarks(job))
                counted = self.free if from_cache and self._reads(job)[1] == 1 else self.missing
                counted[job.planned.rule] = counted.get(job.planned.rule, 0) + 1

    def of(self, job: Job) -> Costs:
        """The price of a job. One without a measurement costs nothing."""
        rule, names = job.planned.rule, job.wildcards
        price = Costs(memory=float(job.snakemakes.resources.get("mem_mb") or 0))
        measured = self._measured[id(job)]
        if measured is None:
            return price
        training = self.training(names["dataset"], names["system"]) if rule == "train_model" else None
        if training:
            settings = self._study.models[names["system"]].training
            evaluations = math.ceil(settings.max_updates / settings.evaluate_every)
            seconds = training.start + settings.max_updates * training.update + evaluations * training.evaluation
            price.bytes = 4 * training.parameters * ((settings.average_best or settings.average_last) + STATE)
        else:
            start, more = self._start_up[rule], measured.times - 1
            seconds = measured.seconds + more * max(measured.seconds - start, 0)
            price.bytes = sum(map(self._bytes_of, job.planned.outputs))
        price.core_hours = seconds / 3600 * job.planned.threads
        price.gpu_hours = seconds / 3600 * job.planned.gpus
        return price

    def memory(self, jobs: Iterable[Job]) -> float:
        """The most memory that Snakemake saw a job of these take in the rehearsal, in MB."""
        return max((memory_of_job(path) for job in jobs for path in self._benchmarks(job)), default=0)

    def rate(self, job: Job) -> float | None:
        """Pairs a second that a job gets through after its start; None where it hardly did more than start."""
        measured = self._measured[id(job)]
        if measured is None or not measured.pairs:
            return None
        seconds = measured.seconds - self._start_up[job.planned.rule]
        return measured.pairs / seconds if seconds > 0.1 * measured.seconds else None

    def _measure(self, job: Job) -> _Measured | None:
        seconds = [one for path in self._benchmarks(job) if (one := seconds_of_job(path)) is not None]
        return _Measured(statistics.fmean(seconds), *self._reads(job)) if seconds else None

    def _benchmarks(self, job: Job) -> list[Path]:
        """The benchmarks of a job in the rehearsal: its own, or those of its other seeds and pieces."""
        pattern = self._paths.benchmark(job.planned.rule)
        own = pattern.within(**{key: name for key, name in job.wildcards.items() if key not in ("seed", "job")})
        return sorted(Path().glob(own.glob))

    @staticmethod
    def _from_cache(benchmark: Path) -> bool:
        note = StageNote.read(stage_note(log_of(benchmark)))
        return note is not None and note.from_cache

    def _of_rules(self, jobs: Iterable[Job]) -> dict[str, list[_Measured]]:
        found: dict[str, list[_Measured]] = {}
        for job in jobs:
            if measured := self._measured[id(job)]:
                found.setdefault(job.planned.rule, []).append(measured)
        return found

    def _start_up_of(self, measured: Sequence[_Measured]) -> float:
        """Seconds before the first pair: where a line through the smallest and the largest job meets zero pairs.

        Where all jobs have about the same size, it is the time of the fastest job of the rehearsal, which did nothing
        but start.
        """
        low, high = (choose(measured, key=lambda one: one.pairs) for choose in (min, max))
        if high.pairs < 3 * low.pairs or not low.pairs:
            return self._fastest
        slope = (high.seconds - low.seconds) / (high.pairs - low.pairs)
        return min(max(low.seconds - slope * low.pairs, self._fastest), low.seconds)

    def _reads(self, job: Job) -> tuple[float, float]:
        """How many pairs a job read in the rehearsal, and how many times as many the study's job reads."""
        splits = {found for path in job.snakemakes.input if (found := self._split_of(str(path)))}
        counts = [self._pairs(*found) for found in splits]
        few, many = (float(sum(numbers)) for numbers in zip(*counts, strict=True)) if counts else (0.0, 0.0)
        if "job" in job.wildcards:
            few /= self._rehearsal.datasets[job.wildcards["dataset"]].annotation_jobs(job.wildcards["split"])
            many /= self._study.datasets[job.wildcards["dataset"]].annotation_jobs(job.wildcards["split"])
        return few, many / few if few else 1.0

    def _split_of(self, path: str) -> tuple[str, str] | None:
        """Folder of the data set and split of a file of the study that grows with the split."""
        parts = Path(path).parts
        if len(parts) < 4 or parts[:2] != ("results", self._study.study) or parts[3] == "raw":
            return None
        split = "train" if parts[-1].split(".")[0] in _OF_TRAIN else parts[-1].split(".")[0]
        found = Path(*parts).suffix not in _FEW_LINES and self._pairs(parts[2], split)[0]
        return (parts[2], split) if found else None

    def _pairs_of(self, dataset: str, split: str) -> tuple[int, int]:
        """The pairs of a split in the rehearsal, and in the study; 0 for what is no split."""
        path = Path(f"{self._paths.results}/{dataset}/corpus/{split}.dropped.tsv")
        if not path.is_file():
            return 0, 0
        pairs = DroppedPairs.read(path)
        return pairs.kept, pairs.kept + pairs.left_out

    def _bytes_of(self, output: str) -> float:
        """Bytes of an output of the study, by the same output of the rehearsal."""
        path = Path(output.replace(f"results/{self._study.study}/", f"{self._paths.results}/", 1))
        if not path.is_file():
            return 0
        split = self._split_of(output)
        few, many = self._pairs(*split) if split else (1, 1)
        return path.stat().st_size * many / few

    def _training(self, dataset: str, system: str) -> _Training | None:
        """The training of a system in the rehearsal; None where it is missing or from another version."""
        names = {**self._names(dataset), "system": system, "seed": str(self._rehearsal.seeds[0])}
        record = Path(self._paths.training_record.at(**names))
        try:
            written = TrainingRecord.read(record)
        except PhrasemtError:
            return None
        metrics = Metrics.read_unfinished(record.parent / written.metrics)
        note = StageNote.read(training_note(record.parent / written.metrics))
        whole = seconds_of_job(Path(self._paths.benchmark("train_model").at(**names)))
        if not metrics.updates or note is None or note.training is None or whole is None:
            return None
        first, *later = metrics.updates
        last = later[-1] if later else first
        updates = last.update - first.update or first.update
        between = sum(one.evaluation_seconds for one in metrics.evaluations if first.update <= one.update < last.update)
        update = (last.seconds - (first.seconds if later else 0) - between) / updates
        evaluations = [one.evaluation_seconds for one in metrics.evaluations]
        evaluation = statistics.fmean(evaluations) if evaluations else 0.0
        rates = [one.tokens_per_second for one in later or [first]]
        tokens = statistics.fmean(rates)
        source, target, _ = vocabulary_sizes(self._rehearsal, dataset)
        cost = cost_of(written.model, source_vocabulary=source, target_vocabulary=target)
        return _Training(
            update=update,
            evaluation=evaluation,
            start=max(whole - update * last.update - sum(evaluations), 0),
            tokens_per_second=tokens,
            memory=max(one.memory_mib for one in metrics.reports),
            device=note.training.device,
            operations=training_operations(cost) * tokens / written.processes,
            parameters=written.parameters,
        )

    def _names(self, dataset: str) -> dict[str, str]:
        source, target = self._rehearsal.datasets[dataset].languages
        return {"dataset": dataset, "source": source, "target": target}


def describe_rehearsed(plan: Plan, prices: Rehearsed, gpus: int | None) -> Iterator[str]:
    """Yield the lines about the price of all jobs of a plan. gpus: how many work at once, None if nobody says."""
    priced = [(job, prices.of(job)) for job in plan.jobs]
    costs = by_rule((job.planned.rule, price) for job, price in priced)
    rows: list[tuple[str, ...]] = [("rule", "jobs", "core h", "GPU h", "disk", "reserved", "took", "pairs/s")]
    for rule, one in costs.items():
        jobs = [job for job, _ in priced if job.planned.rule == rule or rule == ALL]
        hours = [f"{hours:,.2f}" if hours >= 0.005 else "" for hours in (one.core_hours, one.gpu_hours)]
        reserved, took = (f"{memory:,.0f} MB" if memory else "" for memory in (one.memory, prices.memory(jobs)))
        rates = [rate for job in jobs if rule != ALL and (rate := prices.rate(job))]
        fastest = f"{max(rates):,.0f}" if rates and rule != "train_model" else ""
        rows.append((rule, f"{one.jobs:,}", *hours, size(one.bytes) if one.bytes else "", reserved, took, fastest))
    yield "price from the rehearsal, at the machines on which it ran (memory: of the largest job)"
    yield from (f"  {line}" for line in table(rows, right_aligned=rows[0][1:]))
    yield from _describe_systems(priced, prices)
    if costs[ALL].gpu_hours and gpus:
        longest, its_price = max(priced, key=lambda one: one[1].gpu_hours / max(one[0].planned.gpus, 1))
        name = longest.wildcards.get("system", longest.planned.rule)
        its_days = its_price.gpu_hours / longest.planned.gpus / 24
        days = max(costs[ALL].gpu_hours / 24 / gpus, its_days)
        yield f"{days:,.1f} days of {gpus} GPUs; the longest job, {name}, takes {its_days:,.1f}"
    yield "assumed: all updates up to max_updates; time and disk grow with the pairs of each split"
    for what, counted in (("in the cache already, as in the rehearsal", prices.free), ("left out", prices.missing)):
        if counted:
            yield f"{what}: {', '.join(f'{number:,} x {rule}' for rule, number in counted.items())}"
    if prices.missing:
        yield "the rehearsal did not measure them. Next: run it to its end, with an empty cache"
    else:
        yield "the rehearsal ran every rule of this plan"


def _describe_systems(priced: Sequence[tuple[Job, Costs]], prices: Rehearsed) -> Iterator[str]:
    """Yield a table of the systems: what their trainings and searches reached, and what all their jobs cost."""
    heading = ("system", "training h", "all h", "s/update", "tokens/s", "TFLOP/s", "of peak", "memory", "search")
    rows: list[tuple[str, ...]] = [heading]
    of_systems: dict[str, list[tuple[Job, Costs]]] = {}
    for job, costs in priced:
        if (system := job.wildcards.get("system")) is not None:
            of_systems.setdefault(system, []).append((job, costs))
    for system, jobs in of_systems.items():
        hours = [(job.planned.rule == "train_model", one.core_hours / job.planned.threads) for job, one in jobs]
        told = [f"{sum(h for trains, h in hours if trains):,.2f}", f"{sum(h for _, h in hours):,.2f}"]
        dataset = next((job.wildcards["dataset"] for job, _ in jobs if job.planned.rule == "train_model"), None)
        training = prices.training(dataset, system) if dataset else None
        if training:
            peak = training.share_of_peak
            told += [
                f"{training.update:.3f}",
                f"{training.tokens_per_second:,.0f}",
                f"{training.operations / 1e12:.3g}",
            ]
            told += ["" if peak is None else f"{peak:.1%}", f"{training.memory:,.0f} MiB"]
        else:
            told += [""] * 5
        rates = [rate for job, _ in jobs if job.planned.rule == "translate_examples" and (rate := prices.rate(job))]
        rows.append((system, *told, f"{statistics.fmean(rates):,.1f}/s" if rates else ""))
    if rows[1:]:
        yield from (f"  {line}" for line in table(rows, right_aligned=heading[1:]))
