"""The section "Phrases and chunks": parsers, chunkers, and the statistics of phrases and chunks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, fill
from phrasemt.scoring.scores import read_artefact
from phrasemt.workflow.paths import ANY_STUDY, Pattern


class PhraseStatistics(BaseModel):
    """The content of a file of `measure_phrases`. lengths: number of phrases of each length in encoder positions."""

    segmentation: str
    sentences: int
    phrases: int
    tokens: int
    lengths: dict[int, int]
    fallbacks: dict[str, int]
    constituents: int | None
    comparable: int | None

    @property
    def mean_length(self) -> float:
        return self.tokens / max(self.phrases, 1)

    @property
    def share_of_constituents(self) -> float | None:
        """Share of constituents among the phrases of parsed sentences, 0 to 1; None if nothing was compared."""
        return self.constituents / self.comparable if self.constituents is not None and self.comparable else None


class ChunkStatistics(BaseModel):
    """The content of a file of `extract_chunks`. agreement: scores of other annotations against the chosen one."""

    origin: str
    sentences: int
    words: int
    chunks: int
    mean_chunk_length: float | None
    fallbacks: dict[str, int]
    agreement: dict[str, dict[str, Any]]


Counts = TypeVar("Counts", PhraseStatistics, ChunkStatistics)


@dataclass(frozen=True, kw_only=True)
class Measured(Generic[Counts]):
    """The statistics of a split of a data set."""

    dataset: str
    split: str
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class AnnotatorCard:
    """A parser or chunker. scores: in percent by name; empty if they are unknown."""

    name: str
    kind: str
    origin: str
    language: str
    fingerprint: str
    scores: Mapping[str, float]


def syntax_section(phrases: Sequence[Path], chunks: Sequence[Path], annotators: Sequence[Path]) -> Section | None:
    """Make the section from statistics of phrases and chunks and cards of annotators; None if there are none."""
    if not (phrases or chunks or annotators):
        return None
    measured = read_measured(phrases, ANY_STUDY.phrase_statistics, PhraseStatistics)
    content = fill(
        __file__,
        annotators=read_annotators(annotators),
        phrases=measured,
        phrase_figures=list(length_figures(measured)),
        chunks=read_measured(chunks, ANY_STUDY.chunk_statistics, ChunkStatistics),
    )
    return Section(anchor="syntax", heading="Phrases and chunks", content=content)


def read_measured(paths: Sequence[Path], pattern: Pattern, kind: type[Counts]) -> list[Measured[Counts]]:
    """Read statistics of phrases or chunks.

    pattern: the paths of these statistics. Raises DamagedFileError for a file without such statistics.
    """
    names = [pattern.names(path) for path in paths]
    return [
        Measured(dataset=name["dataset"], split=name["split"], counts=read_artefact(path, kind))
        for name, path in zip(names, paths, strict=True)
    ]


def read_annotators(paths: Sequence[Path]) -> list[AnnotatorCard]:
    """Read cards at annotators/<name>/annotator.json."""
    cards = []
    for path in paths:
        card = json.loads(path.read_text(encoding="utf-8"))
        scores = {name: 100 * value for name, value in card["scores"].items() if isinstance(value, float)}
        fields = {key: card[key] for key in ("kind", "origin", "language", "fingerprint")}
        cards.append(AnnotatorCard(name=path.absolute().parent.name, scores=scores, **fields))
    return cards


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
