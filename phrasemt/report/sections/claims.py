"""The section "Claims": what the papers say in sentences, and what the study measures of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from phrasemt.report.claims import Artefacts, ClaimRow, beside_findings, claim_rows
from phrasemt.report.page import Section, fill
from phrasemt.study.claims import AnalysedFigure, StudiedClaim

HEDGES = {"none": "stated", "speculation": "a speculation", "inference": "an inference", "deontic": "a necessity"}


def claims_section(
    claims: Sequence[StudiedClaim], figures: Sequence[AnalysedFigure], found: Artefacts
) -> Section | None:
    """Make the section; None for a study in which no system stands for a row of a paper with claims.

    figures: the printed figures that analyses find, for the second table.
    """
    rows = list(claim_rows(claims, found))
    if not rows:
        return None
    groups = [(claim, list(group)) for claim, group in itertools.groupby(rows, key=lambda row: row.claim)]
    beside = list(beside_findings(figures, found))
    content = fill(__file__, groups=groups, hedges=HEDGES, sign=_sign, beside=beside)
    return Section(anchor="claims", heading="Claims", content=content)


def _sign(row: ClaimRow) -> str:
    """The style of a direction, beside its words."""
    return {"agrees": "better", "against": "worse"}.get(row.direction.split()[0], "quiet")
