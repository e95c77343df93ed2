"""The claims of papers (phrasemt/printed/claims.py) with the systems of a study that each measurement is about.

A system stands for a row of a paper (`stands_for: xu2020/table-2/max`), and a claim names such rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from phrasemt.fields import Settings
from phrasemt.printed.claims import Hedge, Measured, Range
from phrasemt.printed.results import Counterpart, Paper, figures_of_row, load_papers, row_at
from phrasemt.study.schema import Study


class Measurement(Measured):
    """A measurement for a claim by systems of a study.

    system, than_system: that stand for the rows; None where the study has none. counterpart: where figures of the
    measure stand in the results table.
    """

    paper: str
    system: str | None = None
    than_system: str | None = None
    counterpart: Counterpart | None = None


class StudiedClaim(Settings):
    """A claim of a paper in a study. paper, name: of the paper and of the claim; the texts are those of `Claim`."""

    paper: str
    name: str
    content: str
    hedge: Hedge
    where: str
    evidence: str
    measurements: list[Measurement]


def studied_claims(study: Study) -> Iterator[StudiedClaim]:
    """The claims of the papers that systems of the study stand for, in the order of the papers."""
    places = {place for system in study.systems.values() for place in system.stands_for}
    for paper in load_papers().values():
        if any(place.partition("/")[0] == paper.paper for place in places):
            yield from claims_of(paper, study)


def claims_of(paper: Paper, study: Study) -> Iterator[StudiedClaim]:
    """The claims of a paper with the systems of a study."""
    for name, claim in paper.claims.items():
        yield StudiedClaim(
            paper=paper.paper,
            name=name,
            **claim.model_dump(exclude={"measured"}),
            measurements=[one for measured in claim.measured for one in _measurements(paper, study, measured)],
        )


class AnalysedFigure(Settings):
    """A printed figure that an analysis finds: a difference on a group of lengths, or a share of the attention.

    row: `paper/table/row`. heading: of the column. same_data: whether data sets of the study are those of the paper,
    where that matters.
    """

    row: str
    title: str
    heading: str
    printed: str
    measurement: Measurement
    same_data: bool


def analysed_figures(study: Study) -> Iterator[AnalysedFigure]:
    """The printed figures that analyses of the study find, in the order of its systems."""
    for name, system in study.systems.items():
        for place in system.stands_for:
            paper, table, row = row_at(place)
            for figure in figures_of_row(paper, table, row):
                column, analysis = figure.of_column, figure.measure.analysis
                than = f"{table}/{column.difference_to}" if column.words and column.difference_to else None
                if not (analysis or than):
                    continue
                others = _standing_for(study, f"{paper.paper}/{than}") if than else []
                yield AnalysedFigure(
                    row=place,
                    title=f"{paper.authors}, {figure.of_table.caption.split(':')[0]}: {figure.of_row.title}",
                    heading=column.heading,
                    printed=figure.printed_text,
                    measurement=Measurement(
                        analysis=analysis or "lengths",
                        row=f"{table}/{row}",
                        than=than,
                        words=column.words,
                        expected=Range(low=figure.cell.value, high=figure.cell.value),
                        paper=paper.paper,
                        system=name,
                        than_system=next(iter(others), None),
                    ),
                    same_data=any(
                        dataset.stands_for == f"{paper.paper}/{column.data}" for dataset in study.datasets.values()
                    ),
                )


def _measurements(paper: Paper, study: Study, measured: Measured) -> Iterator[Measurement]:
    """A measurement for each system that stands for the row."""
    ours = paper.measures[measured.measure].ours if measured.measure else None
    given = {**measured.model_dump(), "paper": paper.paper, "counterpart": ours}
    others = _standing_for(study, f"{paper.paper}/{measured.than}") if measured.than else []
    for system in _standing_for(study, f"{paper.paper}/{measured.row}") or [None]:
        # Of several systems that stand for the other row, the baseline is the one that comparisons are made with.
        baseline = None if system is None else study.baseline_of(system)
        than_system = baseline if baseline in others else next(iter(others), None)
        yield Measurement.model_validate({**given, "system": system, "than_system": than_system})


def _standing_for(study: Study, place: str) -> list[str | None]:
    return [name for name, system in study.systems.items() if place in system.stands_for]
