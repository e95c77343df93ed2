"""The claims of papers (phrasemt/printed/results.py) with the systems of a study that each measurement is about.

A system stands for a row of a paper (`stands_for: xu2020/table-2/max`), and a claim names such rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phrasemt.printed.results import (
    Claim,
    Counterpart,
    Interval,
    Measurement,
    Paper,
    figures_of_row,
    load_papers,
    row_at,
)
from phrasemt.study.schema import Study


class StudiedMeasurement(Measurement):
    """A measurement by systems of a study.

    system, than_system: that stand for the rows; None where the study has none. counterpart: where figures of the
    measure stand in the results table.
    """

    paper: str
    system: str | None = None
    than_system: str | None = None
    counterpart: Counterpart | None = None


class StudiedClaim(Claim):
    """A claim of a paper in a study. paper, name: of the paper and of the claim."""

    paper: str
    name: str
    measured: Sequence[StudiedMeasurement]


class AnalysedFigure(StudiedMeasurement):
    """A printed figure that an analysis finds: a difference on a group of lengths, or a share of the attention.

    heading: of the column. same_data: whether data sets of the study are those of the paper, where that matters.
    """

    title: str
    heading: str
    printed: str
    same_data: bool


def studied_claims(study: Study) -> Iterator[StudiedClaim]:
    """The claims of the papers that systems of the study stand for, in the order of the papers."""
    papers = {place.partition("/")[0] for system in study.systems.values() for place in system.stands_for}
    for paper in load_papers().values():
        if paper.paper in papers:
            yield from claims_of(paper, study)


def claims_of(paper: Paper, study: Study) -> Iterator[StudiedClaim]:
    """The claims of a paper with the systems of a study."""
    for name, claim in paper.claims.items():
        measured = [found for one in claim.measured for found in _measurements(paper, study, one)]
        yield StudiedClaim(paper=paper.paper, name=name, **{**dict(claim), "measured": measured})


def _measurements(paper: Paper, study: Study, one: Measurement) -> Iterator[StudiedMeasurement]:
    """A measurement for each system that stands for the row."""
    ours = paper.measures[one.measure].ours if one.measure else None
    others = _standing_for(study, f"{paper.paper}/{one.than}") if one.than else []
    for system in _standing_for(study, f"{paper.paper}/{one.row}") or [None]:
        # Of several systems that stand for the other row, the baseline is the one that comparisons are made with.
        baseline = None if system is None else study.baseline_of(system)
        than = baseline if baseline in others else next(iter(others), None)
        yield StudiedMeasurement(**dict(one), paper=paper.paper, system=system, than_system=than, counterpart=ours)


def analysed_figures(study: Study) -> Iterator[AnalysedFigure]:
    """The printed figures that analyses of the study find, in the order of its systems."""
    data = {dataset.stands_for for dataset in study.datasets.values()}
    for name, system in study.systems.items():
        for figure in (figure for place in system.stands_for for figure in figures_of_row(*row_at(place))):
            column, paper = figure.of_column, figure.paper
            than = f"{figure.table}/{column.difference_to}" if column.words and column.difference_to else None
            if not (figure.measure.analysis or than):
                continue
            others = _standing_for(study, f"{paper.paper}/{than}") if than else []
            yield AnalysedFigure(
                analysis=figure.measure.analysis or "lengths",
                row=f"{figure.table}/{figure.row}",
                than=than,
                words=column.words,
                expected=Interval(low=figure.cell.value, high=figure.cell.value),
                paper=paper.paper,
                system=name,
                than_system=next(iter(others), None),
                title=f"{paper.authors}, {figure.of_table.caption.split(':')[0]}: {figure.of_row.title}",
                heading=column.heading,
                printed=figure.printed_text,
                same_data=f"{paper.paper}/{column.data}" in data,
            )


def _standing_for(study: Study, place: str) -> list[str | None]:
    return [name for name, system in study.systems.items() if place in system.stands_for]
