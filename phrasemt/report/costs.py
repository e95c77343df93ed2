"""What systems cost beside their baselines, and beside the costs that papers print: `phrasemt papers --study`.

Costs are parameters, training time and decoding time relative to the baseline (Xu et al. 2020, Table 2). Times are
those of the jobs of the study, so they are comparable only between jobs of one host that had the machine for
themselves. A ratio of jobs of different hosts is not shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from phrasemt.artefacts.paths import Paths, log_of
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.runs.costs import seconds_of_job
from phrasemt.runs.notes import StageNote, notes_of_trainings, stage_note
from phrasemt.study.compared import ComparedCost

Kind = Literal["parameters", "training", "token", "decoding"]
# Ratios that are at most so far apart count as equal: relative times of one device vary by several percent.
_TOLERANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class SystemCost:
    """What a system costs on a data set, mean over its seeds; None: unknown.

    training: seconds of a whole training, without evaluations. token: seconds for a target token of it, from the median
    of each training. decoding: wall seconds of all test sets.
    updates: of a training. hosts: on which it was trained and translated. devices: on which it was trained.
    """

    dataset: str
    system: str
    parameters: int
    idle: int | None = None  # of the parameters, those that change nothing
    training: float | None
    token: float | None
    decoding: float | None
    hosts: frozenset[str]
    devices: frozenset[str]
    updates: float | None = None


class RelativeCost(NamedTuple):
    """The cost of a system beside the baseline. ratios: of each kind, None for one that is not known.

    together: whether both were trained and translated on one host and kind of device; else ratios of times are unknown.
    updates: of the system over those of the baseline.
    """

    title: str
    cost: SystemCost
    ratios: Mapping[Kind, float | None]
    together: bool
    updates: float | None = None


def costs(study: str, trainings: Sequence[TrainingCurve]) -> list[SystemCost]:
    """Return the cost of each system on each data set."""
    found = []
    for dataset, system in dict.fromkeys((one.dataset, one.system) for one in trainings):
        own = [one for one in trainings if (one.dataset, one.system) == (dataset, system)]
        speeds = [one.tokens_per_second for one in own if one.tokens_per_second]
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
                parameters=own[0].record.parameters,
                updates=statistics.fmean(one.record.updates for one in own),
                idle=own[0].record.idle_parameters,
                training=statistics.fmean(trained) if trained else None,
                token=1 / statistics.fmean(speeds) if speeds else None,
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


def relative_costs(
    titles: Mapping[str, str], baselines: Mapping[str, str], found: Sequence[SystemCost]
) -> list[RelativeCost]:
    """Return the costs relative to the baseline on the same data set. titles: of systems, in their order.

    baselines: of systems; a system without one is relative to itself.
    """
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in found):
        of_system = {one.system: one for one in found if one.dataset == dataset}
        for system, title in titles.items():
            baseline = of_system.get(baselines.get(system, system))
            if baseline is None or (one := of_system.get(system)) is None:
                continue
            together = len(one.hosts | baseline.hosts) <= 1 and len(one.devices | baseline.devices) <= 1
            ratios: dict[Kind, float | None] = {
                kind: _ratio(getattr(one, kind), getattr(baseline, kind)) if together or kind == "parameters" else None
                for kind in get_args(Kind)
            }
            rows.append(RelativeCost(title, one, ratios, together, _ratio(one.updates, baseline.updates)))
    return rows


class CostBesidePaper(NamedTuple):
    """A printed cost beside ours, which is None where it was not measured. Both may be for one update."""

    compared: ComparedCost
    printed: float
    ours: float | None
    verdict: str


def beside_papers(printed: Sequence[ComparedCost], rows: Sequence[RelativeCost]) -> Iterator[CostBesidePaper]:
    """Yield the printed costs of the systems beside ours, with a verdict on each."""
    for row in rows:
        for cost in (cost for cost in printed if cost.system == row.cost.system):
            value, ours, for_one = cost.printed, row.ratios[cost.cost], ""
            if ours and cost.cost == "training" and row.updates and not math.isclose(row.updates, cost.updates):
                value, ours, for_one = value / cost.updates, ours / row.updates, ", for one update"
            if ours is None:
                verdict = "not measured" if row.together else "not measured on one device"
            elif row.cost.dataset not in cost.comparable:
                verdict = f"other data or another size{for_one}"
            elif abs(ours / value - 1) <= _TOLERANCE:
                verdict = f"as printed{for_one}"
            else:
                verdict = f"{'higher' if ours > value else 'lower'} than printed{for_one}"
            yield CostBesidePaper(cost, value, ours, verdict)


def _ratio(value: float | None, baseline: float | None) -> float | None:
    return value / baseline if value and baseline else None
