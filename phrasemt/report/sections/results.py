"""What a study found, from its table: the sections "Findings", "Results", "Scorecard" and "Origins".

A difference that is significant is coloured, better and worse alike. Each number of the results links to the list of
its files in "Origins", with their digests, and the stages and code that made them.
"""

from __future__ import annotations

import collections
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from phrasemt.artefacts.scores import lower_is_better
from phrasemt.artefacts.sidecar import DigestedFile, Evidence, Sidecar
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Row, Table, Verdict
from phrasemt.files.digests import check_file
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, fill
from phrasemt.report.scores import scorecard_rows
from phrasemt.scoring.significance import p_text

LEVEL = 0.05
_LEARNED = 1  # BLEU below it is that of a system that repeats frequent words


def findings_section(table: Table) -> Section | None:
    """Make the section; None for a study without test sets."""
    titles = dict(table.systems)
    blocks = [block for block in table.blocks if block.kind == "scores" and block.test_set]
    found = [(block, list(_findings(block, table.baselines, titles))) for block in blocks]
    return (
        Section(anchor="findings", heading="Findings", content=fill("sections/results.findings.html", found=found))
        if found
        else None
    )


def _findings(block: Block, baselines: Mapping[str, str], titles: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences about the first score of a test set: the best system, and which differences are significant."""
    score = block.columns[0]
    rows = [row for row in block.rows if score.key in row.cells]
    if not rows:
        return
    lower = lower_is_better(rows[0].cells[score.key].signature)
    best = (min if lower else max)(rows, key=lambda row: row.cells[score.key].value)
    if not lower and best.cells[score.key].value < _LEARNED:
        yield f"No system has learned to translate yet: the best {score.heading} is below {_LEARNED}. Train longer."
        return
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
    scores = {anchor(block, row): files_behind(row) for block in table.blocks for row in block.rows}
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
        versions=_versions(made_by.values()),
    )
    return Section(anchor="origins", heading="Origins", content=content)


def _versions(sidecars: Iterable[Sidecar]) -> list[tuple[str, str, str, int]]:
    """Stage, digest of the code and versions of libraries, with the number of files that they made."""
    counts = collections.Counter(
        (one.stage, one.code, ", ".join(f"{name} {version}" for name, version in sorted(one.versions.items())))
        for one in sidecars
    )
    return [(*key, count) for key, count in counts.items()]
