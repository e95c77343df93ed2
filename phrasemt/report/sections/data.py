"""The sections "Data" and "Phrases and chunks".

Data: what cleaning kept and dropped, what the splits share, what tokenisation changes. Phrases and chunks: parsers,
chunkers, and the statistics of phrases and chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.card import Card
from phrasemt.artefacts.corpus import ComparedSplits, DroppedPairs, RoundTrip
from phrasemt.artefacts.syntax import ChunkStatistics, PhraseStatistics
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, fill


def data_section(dropped: Sequence[Path], splits: Sequence[Path], round_trips: Sequence[Path]) -> Section:
    """Make the section."""
    content = fill(
        "sections/data.html",
        cleanings=[(DroppedPairs.pattern.names(path), DroppedPairs.read(path)) for path in dropped],
        splits=[
            (ComparedSplits.pattern.names(path)["dataset"], name, counts)
            for path in splits
            for name, counts in ComparedSplits.read(path).splits.items()
        ],
        round_trips=[(RoundTrip.pattern.names(path), RoundTrip.read(path)) for path in round_trips],
    )
    return Section(anchor="data", heading="Data", content=content)


def syntax_section(phrases: Sequence[Path], chunks: Sequence[Path], annotators: Sequence[Path]) -> Section | None:
    """Make the section from statistics of phrases and chunks and cards of annotators; None if there are none."""
    if not (phrases or chunks or annotators):
        return None
    of_phrases = [(PhraseStatistics.pattern.names(path), PhraseStatistics.read(path)) for path in phrases]
    content = fill(
        "sections/data.syntax.html",
        annotators=[(path.absolute().parent.name, Card.read(path), scores_of(Card.read(path))) for path in annotators],
        phrases=of_phrases,
        phrase_figures=list(length_figures(of_phrases)),
        chunks=[(ChunkStatistics.pattern.names(path), ChunkStatistics.read(path)) for path in chunks],
    )
    return Section(anchor="syntax", heading="Phrases and chunks", content=content)


def scores_of(card: Card) -> dict[str, float]:
    """The scores of a parser or chunker in percent; empty if they are unknown."""
    return {name: 100 * value for name, value in card.scores.items() if isinstance(value, float)}


def length_figures(measured: Sequence[tuple[Mapping[str, str], PhraseStatistics]]) -> Iterator[Drawing]:
    """Draw for each data set the shares of phrase lengths in the training pairs, one line for each segmentation.

    measured: names in the path of statistics, and the statistics.
    """
    for dataset, group in itertools.groupby(measured, key=lambda one: one[0]["dataset"]):
        statistics = [counts for names, counts in group if names["split"] == "train"]
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
