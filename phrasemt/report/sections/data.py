"""The section "Data": what cleaning kept and dropped, what the splits share, what tokenisation changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.corpus import ComparedSplits, DroppedPairs, SplitCounts
from phrasemt.artefacts.text import RoundTrip
from phrasemt.report.page import Section, fill


def data_section(dropped: Sequence[Path], splits: Sequence[Path], round_trips: Sequence[Path]) -> Section:
    """Make the section."""
    content = fill(
        __file__,
        cleanings=[(DroppedPairs.pattern.names(path), DroppedPairs.read(path)) for path in dropped],
        splits=read_splits(splits),
        round_trips=[(RoundTrip.pattern.names(path), RoundTrip.read(path)) for path in round_trips],
    )
    return Section(anchor="data", heading="Data", content=content)


def read_splits(paths: Sequence[Path]) -> list[tuple[str, str, SplitCounts]]:
    """Return the counts of dev and the test sets, with the names of data set and split."""
    return [
        (ComparedSplits.pattern.names(path)["dataset"], name, counts)
        for path in paths
        for name, counts in ComparedSplits.read(path).splits.items()
    ]
