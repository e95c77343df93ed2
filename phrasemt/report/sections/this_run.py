"""The section "This run": date, hosts, commit and wall times. Everything else on the page is equal for equal inputs.

No other artefact holds a time or a host. The section stands last, so two reports are compared up to its heading. It
is made from what the run writes about itself (phrasemt/runs/notes.py); a report that no run makes has no such
section.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from phrasemt.artefacts.table import Table
from phrasemt.report.page import Section, TextTable, fill
from phrasemt.report.sections.cost import cost_tables
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.runs.costs import seconds_of_jobs
from phrasemt.runs.notes import RunNote, StageNote, notes_of_trainings, now, run_of_this_process
from phrasemt.runs.units import clock
from phrasemt.stages import STAGES
from phrasemt.study.compared import ComparedCost
from phrasemt.workflow.paths import Paths


def run_section(table: Table, trainings: Sequence[TrainingCurve], printed: Sequence[ComparedCost]) -> Section | None:
    """Make the section about the run that has started this process; None if there is none.

    printed: the printed costs that ours stand beside.
    """
    path = run_of_this_process()
    note = RunNote.read(path) if path else None
    if note is None:
        return None
    paths = Paths(note.study)
    notes = filter(None, map(StageNote.read, Path(paths.logs).rglob("*.json")))
    reports = (training.training for training in notes_of_trainings(paths.model.glob))
    content = fill(
        __file__,
        note=note,
        begin=_date(note.started),
        written=_date(now()),
        hosts=sorted({note.host, *(one.host for one in notes)}),
        devices=sorted({report.device for report in reports if report}),
        tables=[_wall_times(note.study), *cost_tables(note.study, table, trainings, printed)],
    )
    return Section(anchor="run", heading="This run", content=content)


def _wall_times(study: str) -> TextTable:
    times = {stage: [*found.values()] for stage in STAGES if (found := seconds_of_jobs(study, stage))}
    return TextTable(
        caption="Wall times of all finished jobs of the study, in hours, minutes and seconds. Jobs that took their "
        "outputs from the cache do not count. Jobs run side by side, so the sum is no duration.",
        headings=("Stage", "Jobs", "Longest", "All"),
        rows=[(stage, f"{len(found):,}", clock(max(found)), clock(sum(found))) for stage, found in times.items()],
    )


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
