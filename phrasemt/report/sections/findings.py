"""The section "Findings": what each test set says, in sentences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from phrasemt.artefacts.signatures import lower_is_better
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Row, Table
from phrasemt.report.page import Section, fill
from phrasemt.scoring.significance import p_text

LEVEL = 0.05


def findings_section(table: Table) -> Section | None:
    """Make the section; None for a study without test sets."""
    titles = dict(table.systems)
    blocks = [block for block in table.blocks if block.kind == "scores" and block.test_set]
    found = [(block, list(_findings(block, table.baselines, titles))) for block in blocks]
    return Section(anchor="findings", heading="Findings", content=fill(__file__, found=found)) if found else None


def _findings(block: Block, baselines: Mapping[str, str], titles: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences about the first score of a test set: the best system, and which differences are significant."""
    score = block.columns[0]
    rows = [row for row in block.rows if score.key in row.cells]
    if not rows:
        return
    lower = lower_is_better(rows[0].cells[score.key].signature)
    best = (min if lower else max)(rows, key=lambda row: row.cells[score.key].value)
    of_all = f"of {len(rows)} systems " if len(rows) > 1 else ""
    yield f"{best.title} has the best {score.heading} {of_all}({best.cells[score.key].text})."
    tested = {row.system: cell for row in rows if (cell := _difference(block, row)) is not None}
    if best.system in tested:
        yield f"It differs from {titles[baselines[best.system]]} by {_described(tested[best.system])}."
    elif tested:
        yield "No system is ahead of it."
    significant = [titles[system] for system, cell in tested.items() if _p(cell) < LEVEL]
    if tested:
        yield f"Significant at p < {LEVEL}, corrected for the number of systems: {_listed(significant)}."
    shown = [cell.power.detectable for cell in tested.values() if cell.power is not None and cell.power.deviation]
    if shown:
        few, most = f"{min(shown):.2f}", f"{max(shown):.2f}"
        size = few if few == most else f"{few} to {most}"
        yield f"These trainings would show a difference of {size} in 80 of 100 repetitions."


def _difference(block: Block, row: Row) -> Cell | None:
    """The tested difference in the first score."""
    for before, column in itertools.pairwise(block.columns):
        if before is block.columns[0] and column.heading == DIFFERENCE:
            return row.cells.get(column.key)
    return None


def _described(cell: Cell) -> str:
    interval = f", 95 % interval {cell.interval('+')}" if cell.interval() else ""
    p = p_text(cell.p_value)
    return f"{cell.text}{interval}, {p if cell.p_value is None else f'p {p}'}"


def _p(cell: Cell) -> float:
    return 1.0 if cell.p_value is None else cell.p_value


def _listed(titles: list[str]) -> str:
    return "; ".join(titles) or "none"
