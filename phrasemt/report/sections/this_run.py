"""The section "This run": date, hosts, commit and wall times. Everything else on the page is equal for equal inputs.

No other artefact holds a time or a host. The section stands last, so two reports are compared up to its heading. It
is made from what the run writes about itself (phrasemt/runs/notes.py); a report that no run makes has no such
section.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from phrasemt.report.cells import Table
from phrasemt.report.page import Section, fill
from phrasemt.report.sections.cost import beside_papers, costs, relative_costs
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.runs.costs import seconds_of_jobs
from phrasemt.runs.notes import RunNote, StageNote, now, run_of_this_process
from phrasemt.runs.units import clock
from phrasemt.stages import STAGES
from phrasemt.study.claims import CostClaim
from phrasemt.workflow.paths import Paths


@dataclass(frozen=True, kw_only=True)
class StageTimes:
    """The finished jobs of a stage, of all runs, that did not take their outputs from the cache. seconds: wall time."""

    stage: str
    seconds: list[float]

    @property
    def total(self) -> str:
        return clock(math.fsum(self.seconds))

    @property
    def longest(self) -> str:
        return clock(max(self.seconds))


def run_section(table: Table, trainings: Sequence[TrainingCurve], cost_claims: Sequence[CostClaim]) -> Section | None:
    """Make the section about the run that has started this process; None if there is none.

    cost_claims: the printed costs that ours stand beside.
    """
    path = run_of_this_process()
    note = RunNote.read(path) if path else None
    if note is None:
        return None
    times = [StageTimes(stage=stage, seconds=seconds_of_jobs(note.study, stage)) for stage in STAGES]
    relative = relative_costs(dict(table.systems), table.baselines, costs(note.study, trainings))
    content = fill(
        __file__,
        note=note,
        begin=_date(note.started),
        written=_date(now()),
        hosts=sorted({note.host, *_hosts(note.study)}),
        devices=_devices(note.study),
        times=[one for one in times if one.seconds],
        costs=relative,
        printed=list(beside_papers(cost_claims, relative)),
    )
    return Section(anchor="run", heading="This run", content=content)


def _hosts(study: str) -> set[str]:
    notes = map(StageNote.read, Path(Paths(study).logs).rglob("*.json"))
    return {note.host for note in notes if note}


def _devices(study: str) -> list[str]:
    """Return the devices on which the study's models trained."""
    notes = map(StageNote.read, Path().glob(f"{Paths(study).training_state.glob}/*/note.json"))
    return sorted({note.training.device for note in notes if note and note.training})


def _date(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC"
