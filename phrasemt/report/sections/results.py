"""What a study found, from its table: the sections "Results", "Scorecard" and "Origins".

A difference that is significant is coloured, better and worse alike. Each number of the results links to the list of
its files in "Origins", with their digests, and the stages and code that made them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from phrasemt.artefacts.sidecar import DigestedFile, Evidence, Sidecar
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Row, Table, Verdict
from phrasemt.files.system import check_file
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, fill
from phrasemt.report.scores import scorecard_rows
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
        "sections/results.html",
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
    return "better" if (cell.value > 0) == (cell.better == "higher") else "worse"


def anchor(block: Block, row: Row) -> str:
    """Return the id of the list of files behind a row, the target of the links of its numbers."""
    return f"from-{block.name}-{row.system}"


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
                [group.removeprefix(of_one) for group in groups],
                [_series(row, groups) for row in block.rows],
                title=f"{place}: accuracy on contrastive pairs",
                x_label="kind of mistake" if block.kind == "mistakes" else "distance in words",
                y_label="accuracy, %",
                ordered=block.kind == "contrasts",
            )


def _series(row: Row, groups: Sequence[str]) -> Series:
    cells = [row.cells[group] for group in groups]
    low, high = ([getattr(cell, end) or 0.0 for cell in cells] for end in ("low", "high"))
    return Series(group=row.title, x=range(len(groups)), y=[cell.value for cell in cells], low=low, high=high)


# A symbol for each verdict, for readers who see no colours, and its colour.
_SIGNS: dict[Verdict, tuple[str, str]] = {
    "reproduced": ("✓", "better"),
    "within noise": ("≈", ""),
    "not reproduced": ("✗", "worse"),
    "other data": ("◇", ""),
    "not run": ("–", "quiet"),
}


def scorecard_section(table: Table) -> Section | None:
    """Make the section; None for a study in which no system stands for a row of a paper."""
    card = table.scorecard
    if card is None:
        return None
    heading, *rows = scorecard_rows(card)
    counts = Counter(entry.verdict for entry in card.entries)
    content = fill(
        "sections/results.scorecard.html",
        card=card,
        heading=heading,
        rows=list(zip(card.entries, rows, strict=True)),
        counts=[(verdict, counts[verdict]) for verdict in get_args(Verdict) if counts[verdict]],
        signs=_SIGNS,
    )
    return Section(anchor="scorecard", heading="Scorecard", content=content)


def origins_section(table: Table, others: Sequence[Path]) -> Section:
    """Make the section. others: files that the page shows besides those that the table names.

    Raises DamagedFileError for a file that has changed since its stage wrote it, or since the table was made.
    """
    evidence = Evidence()
    scores = {  # of each row, the digests of the files that its numbers were computed from
        anchor(block, row): {source.path: source.sha256 for cell in row.cells.values() for source in cell.sources}
        for block in table.blocks
        for row in block.rows
    }
    made_by: dict[str, Sidecar] = {}
    for path, digest in (file for files in scores.values() for file in files.items()):
        made_by[path] = evidence.check_output(path)
        what = "not the file that the table was made from"
        check_file(Path(path), digest, what, found=evidence.digest(path), next_step="make the table again")
    made_by |= {str(path): evidence.check_output(path) for path in others}
    content = fill(
        "sections/results.origins.html",
        table=table,
        anchor=anchor,
        scores=scores,
        others=[DigestedFile(path=str(path), sha256=evidence.digest(path)) for path in others],
        versions=[(*key, count) for key, count in Counter(map(_made_with, made_by.values())).items()],
    )
    return Section(anchor="origins", heading="Origins", content=content)


def _made_with(sidecar: Sidecar) -> tuple[str, str, str]:
    """Stage, digest of its code, and versions of libraries."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(sidecar.versions.items()))
    return sidecar.stage, sidecar.code, versions
