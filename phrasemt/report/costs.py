"""What systems cost beside their baselines, and beside the costs that papers print: `phrasemt papers --study`.

Costs are training time and decoding time relative to the baseline (Xu et al. 2020, Table 2). Times are those of the
jobs of the study, so they are comparable only between jobs of one host that had the machine for themselves. A ratio of
jobs of different hosts is not shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from phrasemt.artefacts.paths import Paths, log_of
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.runs.costs import seconds_of_job
from phrasemt.runs.notes import StageNote, notes_of_trainings, stage_note
from phrasemt.study.compared import ComparedCost

# Ratios that are at most so far apart count as equal: relative times of one device vary by several percent.
_TOLERANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class SystemCost:
    """What a system costs on a data set, mean over its seeds; None: unknown.

    training: seconds of a whole training, without evaluations; updates: of it. decoding: wall seconds of all test sets.
    hosts: on which it was trained and translated. devices: on which it was trained.
    """

    dataset: str
    system: str
    training: float | None
    updates: float
    decoding: float | None
    hosts: frozenset[str]
    devices: frozenset[str]


def costs(study: str, trainings: Sequence[TrainingCurve]) -> list[SystemCost]:
    """Return the cost of each system on each data set."""
    found = []
    for dataset, system in dict.fromkeys((one.dataset, one.system) for one in trainings):
        own = [one for one in trainings if (one.dataset, one.system) == (dataset, system)]
        trained = [one.seconds_of_updates for one in own if one.seconds_of_updates]
        jobs = _jobs(study, "translate_examples", dataset, system)
        seconds = [seconds for job in jobs if (seconds := seconds_of_job(job)) is not None]
        notes = [
            StageNote.read(stage_note(log_of(job))) for job in (*jobs, *_jobs(study, "train_model", dataset, system))
        ]
        reports = [
            one.training for one in notes_of_trainings(Paths(study).model.at(dataset=dataset, system=system).glob)
        ]
        found.append(
            SystemCost(
                dataset=dataset,
                system=system,
                training=statistics.fmean(trained) if trained else None,
                updates=statistics.fmean(one.record.updates for one in own),
                decoding=sum(seconds) / len(own) if seconds and len(seconds) == len(jobs) else None,
                hosts=frozenset(note.host for note in notes if note),
                devices=frozenset(report.device for report in reports if report),
            )
        )
    return found


def _jobs(study: str, stage: str, dataset: str, system: str) -> list[Path]:
    """The benchmarks of a stage's finished jobs for a system: `<data set>.<languages>/<system>.<seed>...tsv`."""
    folder = Path(Paths(study).benchmarks) / stage
    return sorted(path for path in folder.glob(f"{dataset}.*/{system}.*.tsv") if path.name.split(".")[0] == system)


class CostBesidePaper(NamedTuple):
    """A printed cost beside ours, which is None where it was not measured. Both may be for one update."""

    compared: ComparedCost
    printed: float
    ours: float | None
    verdict: str


def beside_papers(
    printed: Sequence[ComparedCost], baselines: Mapping[str, str], found: Sequence[SystemCost]
) -> Iterator[CostBesidePaper]:
    """Yield the printed costs of the systems beside ours, with a verdict on each. baselines: of systems."""
    by_system = {(one.dataset, one.system): one for one in found}
    for own in found:
        baseline = by_system.get((own.dataset, baselines.get(own.system, own.system)))
        if baseline is None:
            continue
        together = len(own.hosts | baseline.hosts) <= 1 and len(own.devices | baseline.devices) <= 1
        updates = _ratio(own.updates, baseline.updates)
        for cost in (cost for cost in printed if cost.system == own.system):
            value, for_one = cost.printed, ""
            ours = _ratio(getattr(own, cost.cost), getattr(baseline, cost.cost)) if together else None
            if ours and cost.cost == "training" and updates and not math.isclose(updates, cost.updates):
                value, ours, for_one = value / cost.updates, ours / updates, ", for one update"
            if ours is None:
                verdict = "not measured" if together else "not measured on one device"
            elif own.dataset not in cost.comparable:
                verdict = f"other data or another size{for_one}"
            elif abs(ours / value - 1) <= _TOLERANCE:
                verdict = f"as printed{for_one}"
            else:
                verdict = f"{'higher' if ours > value else 'lower'} than printed{for_one}"
            yield CostBesidePaper(cost, value, ours, verdict)


def _ratio(value: float | None, baseline: float | None) -> float | None:
    return value / baseline if value and baseline else None
