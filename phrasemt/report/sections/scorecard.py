"""The section "Scorecard": the figures that the papers print beside ours, with a verdict on each."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from phrasemt.artefacts.table import Table, Verdict
from phrasemt.report.page import Section, fill
from phrasemt.report.scorecard import scorecard_rows

# A sign for each verdict, so that colour is not all that tells them apart, and its colour.
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
        __file__,
        card=card,
        heading=heading,
        rows=list(zip(card.entries, rows, strict=True)),
        counts=[(verdict, counts[verdict]) for verdict in get_args(Verdict) if counts[verdict]],
        signs=_SIGNS,
    )
    return Section(anchor="scorecard", heading="Scorecard", content=content)
