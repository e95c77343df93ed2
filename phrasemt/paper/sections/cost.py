"""Parameters, training time and decoding time relative to the baseline (Xu et al. 2020, Table 2), for "This run".

Times are those of the study's own jobs, so they are comparable only between jobs of one host that had the machine for
themselves. A ratio of jobs of different hosts is not shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.paper.sections.trainings import TrainingCurve
from phrasemt.workflow.costs import seconds_of_job
from phrasemt.workflow.journal import StageNote, stage_note
from phrasemt.workflow.paths import Paths, log_of


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a system costs on a data set, mean over its seeds; None where nobody knows.

    training: seconds for a target token, from the median of each training. decoding: wall seconds of all test sets.
    hosts: on which it was trained and translated.
    """

    dataset: str
    system: str
    parameters: int
    training: float | None
    decoding: float | None
    hosts: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class RelativeCost:
    """The cost of a system as printed: parameters, and ratios to the baseline, which are empty for an unknown one."""

    dataset: str
    title: str
    parameters: str
    ratios: tuple[str, str, str]


def costs(study: str, trainings: Sequence[TrainingCurve]) -> list[Cost]:
    """Return the cost of each system on each data set."""
    found = []
    for dataset, system in dict.fromkeys((one.dataset, one.system) for one in trainings):
        own = [one for one in trainings if (one.dataset, one.system) == (dataset, system)]
        speeds = [one.tokens_per_second for one in own if one.tokens_per_second]
        jobs = _jobs(study, "translate_examples", dataset, system)
        seconds = [seconds for job in jobs if (seconds := seconds_of_job(job)) is not None]
        notes = [
            StageNote.read(stage_note(log_of(job))) for job in (*jobs, *_jobs(study, "train_model", dataset, system))
        ]
        found.append(
            Cost(
                dataset=dataset,
                system=system,
                parameters=own[0].record.parameters,
                training=1 / statistics.fmean(speeds) if speeds else None,
                decoding=sum(seconds) / len(own) if seconds and len(seconds) == len(jobs) else None,
                hosts=frozenset(note.host for note in notes if note),
            )
        )
    return found


def _jobs(study: str, stage: str, dataset: str, system: str) -> list[Path]:
    """The benchmarks of a stage's finished jobs for a system: `<data set>.<languages>/<system>.<seed>...tsv`."""
    folder = Path(Paths(study).benchmarks) / stage
    return sorted(path for path in folder.glob(f"{dataset}.*/{system}.*.tsv") if path.name.split(".")[0] == system)


def relative_costs(titles: Mapping[str, str], baseline_name: str, found: Sequence[Cost]) -> list[RelativeCost]:
    """Return the costs relative to the baseline on the same data set. titles: of systems, in their order."""
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in found):
        of_system = {one.system: one for one in found if one.dataset == dataset}
        baseline = of_system.get(baseline_name)
        for system, title in titles.items():
            if baseline is None or (one := of_system.get(system)) is None:
                continue
            together = len(one.hosts | baseline.hosts) <= 1
            ratios = (
                _ratio(one.parameters, baseline.parameters),
                _ratio(one.training, baseline.training) if together else "",
                _ratio(one.decoding, baseline.decoding) if together else "",
            )
            rows.append(RelativeCost(dataset=dataset, title=title, parameters=f"{one.parameters:,}", ratios=ratios))
    return rows


def _ratio(value: float | None, baseline: float | None) -> str:
    return f"{value / baseline:.2f}" if value and baseline else ""
