"""The section "Results": links from numbers to files, differences to the baseline, accuracies on contrastive pairs.

A difference that is significant is coloured, better and worse alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from phrasemt.artefacts.signatures import lower_is_better
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Row, Table
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, fill
from phrasemt.scoring.significance import p_text


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A tested difference to the baseline. metric: heading of its score; cell: has an interval and p-values."""

    block: Block
    row: Row
    metric: str
    cell: Cell


def results_section(table: Table) -> Section:
    """Make the section. Each number links to the list of its files in the section "Origins"."""
    content = fill(
        __file__,
        table=table,
        titles=dict(table.systems),
        several=len({table.baselines[line.row.system] for line in differences(table)}) > 1,
        anchor=anchor,
        sign=sign,
        p_text=p_text,
        differences=list(differences(table)),
        contrasts=list(contrast_figures(table)),
    )
    return Section(anchor="results", heading="Results", content=content)


def sign(cell: Cell) -> str:
    """Return `better` or `worse` for a difference with a mark, else nothing."""
    if not cell.mark:
        return ""
    return "better" if (cell.value > 0) != lower_is_better(cell.signature) else "worse"


def anchor(block: Block, row: Row) -> str:
    """Return the id of the list of files behind a row, the target of the links of its numbers."""
    return f"from-{block.name}-{row.system}"


def files_behind(row: Row) -> Mapping[str, str]:
    """Return the sha256 of each file that the numbers of a row were computed from, by path, in the cells' order."""
    return {source.path: source.sha256 for cell in row.cells.values() for source in cell.sources}


def differences(table: Table) -> Iterator[Difference]:
    """Yield all differences of the table."""
    for block in table.blocks:
        for row in block.rows:
            for before, column in itertools.pairwise(block.columns):
                cell = row.cells.get(column.key)
                if column.heading == DIFFERENCE and cell is not None:
                    yield Difference(block=block, row=row, metric=before.heading, cell=cell)


def contrast_figures(table: Table) -> Iterator[Drawing]:
    """Draw the accuracies of each block of contrastive pairs, by distance or by kind of mistake."""
    for block in table.blocks:
        of_one = f"{block.mistake} " if block.mistake else ""
        groups = [column.key for column in block.columns if column.key != f"{of_one}all"]
        if block.contrast_set is not None and groups:
            place = ", ".join(filter(None, (block.dataset, block.contrast_set, block.mistake)))
            yield draw_categories(
                block.name,
                [group.removeprefix(of_one) for group in groups],
                [
                    Series(
                        group=row.title,
                        x=range(len(groups)),
                        y=[row.cells[group].value for group in groups],
                        low=[row.cells[group].low or 0.0 for group in groups],
                        high=[row.cells[group].high or 0.0 for group in groups],
                    )
                    for row in block.rows
                ],
                title=f"{place}: accuracy on contrastive pairs",
                x_label="kind of mistake" if block.kind == "mistakes" else "distance in words",
                y_label="accuracy, %",
                ordered=block.kind == "contrasts",
            )
