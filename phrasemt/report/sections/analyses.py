"""The section "Analyses": what was measured beyond scores, each part from the artefact of one stage.

A module of `sections/` makes each part; this one only puts them together.
"""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.report.page import Analysis, Section, fill


def analyses_section(parts: Sequence[Analysis]) -> Section | None:
    """Make the section; None without parts."""
    if not parts:
        return None
    return Section(anchor="analyses", heading="Analyses", content=fill(__file__, parts=parts))
