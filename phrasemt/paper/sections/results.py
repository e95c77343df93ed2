"""The section "Results": links from numbers to files, differences to the baseline, accuracies on contrastive pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from phrasemt.paper.cells import DIFFERENCE, Block, Cell, Row, Table
from phrasemt.paper.figures import Drawing, Series, draw_categories


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A tested difference to the baseline. metric: heading of its score; cell: has an interval and p-values."""

    block: Block
    row: Row
    metric: str
    cell: Cell


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
    """Draw the accuracies of each block of contrastive pairs by distance, one line for each system."""
    for block in table.blocks:
        if block.kind == "contrasts":
            groups = [column.key for column in block.columns if column.key != "all"]
            yield draw_categories(
                f"contrasts-{block.dataset}",
                groups,
                [
                    Series(group=row.title, x=range(len(groups)), y=[row.cells[group].value for group in groups])
                    for row in block.rows
                ],
                title=f"{block.dataset}: accuracy on contrastive pairs",
                x_label="distance in words",
                y_label="accuracy, %",
            )
