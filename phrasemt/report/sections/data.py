"""The sections "Data" and "Phrases and chunks".

Data: what cleaning kept and dropped, what the splits share, what tokenisation changes. Phrases and chunks: parsers,
chunkers, and the statistics of phrases and chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from phrasemt.artefacts.card import Card
from phrasemt.artefacts.corpus import ComparedSplits, DroppedPairs, SplitCounts
from phrasemt.artefacts.syntax import ChunkStatistics, PhraseStatistics
from phrasemt.artefacts.text import RoundTrip
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, fill


def data_section(dropped: Sequence[Path], splits: Sequence[Path], round_trips: Sequence[Path]) -> Section:
    """Make the section."""
    content = fill(
        "sections/data.html",
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


Counts = TypeVar("Counts", PhraseStatistics, ChunkStatistics)


@dataclass(frozen=True, kw_only=True)
class Measured(Generic[Counts]):
    """The statistics of a split of a data set."""

    dataset: str
    split: str
    counts: Counts


def syntax_section(phrases: Sequence[Path], chunks: Sequence[Path], annotators: Sequence[Path]) -> Section | None:
    """Make the section from statistics of phrases and chunks and cards of annotators; None if there are none."""
    if not (phrases or chunks or annotators):
        return None
    measured = read_measured(phrases, PhraseStatistics)
    content = fill(
        "sections/data.syntax.html",
        annotators=[(path.absolute().parent.name, Card.read(path), scores_of(Card.read(path))) for path in annotators],
        phrases=measured,
        phrase_figures=list(length_figures(measured)),
        chunks=read_measured(chunks, ChunkStatistics),
    )
    return Section(anchor="syntax", heading="Phrases and chunks", content=content)


def read_measured(paths: Sequence[Path], kind: type[Counts]) -> list[Measured[Counts]]:
    """Read statistics of phrases or chunks. Raises DamagedFileError for a file without such statistics."""
    names = [kind.pattern.names(path) for path in paths]
    return [
        Measured(dataset=name["dataset"], split=name["split"], counts=kind.read(path))
        for name, path in zip(names, paths, strict=True)
    ]


def scores_of(card: Card) -> dict[str, float]:
    """The scores of a parser or chunker in percent; empty if they are unknown."""
    return {name: 100 * value for name, value in card.scores.items() if isinstance(value, float)}


def length_figures(measured: Sequence[Measured[PhraseStatistics]]) -> Iterator[Drawing]:
    """Draw for each data set the shares of phrase lengths in the training pairs, one line for each segmentation."""
    for dataset, group in itertools.groupby(measured, key=lambda one: one.dataset):
        statistics = [one.counts for one in group if one.split == "train"]
        lengths = sorted(set().union(*(one.lengths for one in statistics)))
        yield draw_categories(
            f"phrases-{dataset}",
            [str(length) for length in lengths],
            [
                Series(
                    group=one.segmentation,
                    x=range(len(lengths)),
                    y=[100 * one.lengths.get(length, 0) / max(one.phrases, 1) for length in lengths],
                )
                for one in statistics
            ],
            title=f"{dataset}: lengths of phrases",
            x_label="length in tokens",
            y_label="phrases, %",
        )
