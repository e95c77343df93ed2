"""The section "Data": what cleaning kept and dropped, what the splits share, what tokenisation changes."""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from phrasemt.corpus.compare_splits import SplitCounts, SplitsFile
from phrasemt.errors import DamagedFileError
from phrasemt.files.lines import read_lines
from phrasemt.report.page import Section, fill
from phrasemt.scoring.scores import read_artefact
from phrasemt.workflow.paths import ANY_STUDY

_HEAD = re.compile(r"# read (\d+) kept (\d+) dropped (\d+)")


@dataclass(frozen=True, kw_only=True)
class CleaningCounts:
    """Pairs of a split that cleaning read, kept, and dropped. dropped: by filter, the most frequent first."""

    dataset: str
    split: str
    read: int
    kept: int
    dropped: Mapping[str, int]


class RoundTrip(BaseModel):
    """The content of a file of `tokenize_text`: how well a sample of the text comes back from its tokens.

    score: BLEU of the detokenised tokens against the text, 0 to 100. lines: of the sample.
    """

    format: Literal[1]
    language: str
    score: float
    signature: str
    lines: int
    changed_lines: int


def data_section(dropped: Sequence[Path], splits: Sequence[Path], round_trips: Sequence[Path]) -> Section:
    """Make the section."""
    content = fill(
        __file__,
        cleanings=[read_cleaning(path) for path in dropped],
        splits=read_splits(splits),
        round_trips=[(ANY_STUDY.round_trip.names(path), read_artefact(path, RoundTrip)) for path in round_trips],
    )
    return Section(anchor="data", heading="Data", content=content)


def read_cleaning(path: Path) -> CleaningCounts:
    """Read a file <data set>.<source>-<target>/corpus/<split>.dropped.tsv, which `clean_pairs` wrote.

    Raises DamagedFileError when its counts do not add up.
    """
    lines = read_lines(path)
    head = _HEAD.fullmatch(next(lines, ""))
    next(lines, "")  # names of the columns
    filters = collections.Counter(line.split("\t")[1] for line in lines)
    if head is None or int(head[3]) != filters.total() or int(head[1]) != int(head[2]) + int(head[3]):
        raise DamagedFileError(
            "the counts of dropped pairs do not add up",
            where=path,
            expected=head[0] if head else "# read N kept K dropped D",
            found=f"{filters.total()} dropped pairs",
            next_step="delete it and run again",
        )
    return CleaningCounts(
        dataset=ANY_STUDY.dropped.names(path)["dataset"],
        split=path.name.split(".")[0],
        read=int(head[1]),
        kept=int(head[2]),
        dropped=dict(filters.most_common()),
    )


def read_splits(paths: Sequence[Path]) -> list[tuple[str, str, SplitCounts]]:
    """Return the counts of dev and the test sets, with the names of data set and split."""
    return [
        (ANY_STUDY.split_counts.names(path)["dataset"], name, counts)
        for path in paths
        for name, counts in read_artefact(path, SplitsFile).splits.items()
    ]
