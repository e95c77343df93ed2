"""Which printed figures the systems of a study stand for, and which of its test sets they are compared on.

A system names rows of papers (`stands_for: xu2020/table-2/max`), and a data set the data of a paper (`stands_for:
xu2020/en-de`). Figures are compared as they are printed only on the data of the paper. On other data, differences to
the baseline are compared: the baseline of the row (`Study.baseline_of`) must stand for a row of the same table.
"""

from __future__ import annotations

from collections.abc import Iterator

from phrasemt.fields import Settings
from phrasemt.printed.results import CostKind, Figure, baseline_place, figures_of_row, row_at
from phrasemt.study.schema import Study


class ComparedFigure(Settings):
    """A printed figure beside a place of the results table.

    place: of the row, `paper/table/row`. kind, column: of the block and the column of the results table. test_sets: of
    our data set; our figure is the mean over them; empty if the study lacks the test set. printed_difference: to the
    row that the baseline of the system stands for; None if it stands for no row of the table, and for the baseline of
    the paper itself. is_difference: the printed figure is itself that difference.
    """

    system: str
    place: str
    paper: str
    table: str
    row: str
    heading: str
    convention: str
    better: str
    tolerance: float
    decimals: int
    printed: float
    printed_significant: float | None = None
    is_difference: bool
    printed_difference: float | None = None
    printed_baseline: str | None = None
    data: str
    kind: str
    column: str
    dataset: str
    test_sets: list[str]
    same_data: bool
    notes: list[str]


class ComparedCost(Settings):
    """A printed cost of a system, relative to the row that the baseline of the system stands for.

    place: paper, table and row as printed. row: `paper/table/row`. unit: the title of the row that it is relative to.
    notes: discrepancies in the paper.
    """

    system: str
    place: str
    row: str
    heading: str
    unit: str
    cost: CostKind
    printed: float
    notes: list[str]


def compared_figures(study: Study) -> Iterator[ComparedFigure]:
    """The printed figures beside a study, in the order of its systems, their rows, and its data sets."""
    for name, system in study.systems.items():
        for place in system.stands_for:
            paper, table, row = row_at(place)
            baseline = _row_of_baseline(study, name, place)
            figures = figures_of_row(paper, table, row)
            compared = [one for one in figures if one.measure.ours is not None and one.data and one.test_sets]
            for dataset in study.datasets:
                for figure, test_sets, same in _on_dataset(study, dataset, compared, baseline):
                    yield _compared(name, place, figure, baseline, dataset, test_sets, same)


def compared_costs(study: Study) -> Iterator[ComparedCost]:
    """The printed costs of the systems of a study, except those of the baselines, to which they are relative."""
    for name, system in study.systems.items():
        for place in system.stands_for:
            paper, table, row = row_at(place)
            baseline = _row_of_baseline(study, name, place)
            for figure in figures_of_row(paper, table, row):
                cost = figure.measure.cost
                unit = None if baseline is None else figure.of_table.rows[baseline].cells.get(figure.column)
                if cost and row != baseline and unit and unit.value and figure.cell.value:
                    assert baseline is not None
                    yield ComparedCost(
                        system=name,
                        place=f"{paper.authors}, {figure.of_table.caption.split(':')[0]}, {figure.of_row.title}",
                        row=place,
                        heading=figure.of_column.heading,
                        unit=figure.of_table.rows[baseline].title,
                        cost=cost,
                        printed=figure.cell.value / unit.value,
                        notes=figure.notes,
                    )


def _row_of_baseline(study: Study, system: str, place: str) -> str | None:
    """The row that a system's row is compared with: the one its baseline stands for in the same table, if any.

    The baseline of a paper is compared with no other row: it is its own.
    """
    if baseline_place(place) == place:
        return place.rpartition("/")[2]
    table = place.rpartition("/")[0] + "/"
    places = study.systems[study.baseline_of(system)].stands_for
    return next((place.removeprefix(table) for place in places if place.startswith(table)), None)


def _on_dataset(
    study: Study, name: str, compared: list[Figure], baseline: str | None
) -> Iterator[tuple[Figure, list[str], bool]]:
    """The figures of a row that are compared on a data set, with its test sets, and whether its data are the paper's.

    Data of the paper: every figure about these data. Other data: every test set, with the figures about the same pair
    of languages, or about any pair if there is none; of several test sets of a paper, their average stands for all,
    unless it covers other test sets than the average of the row `baseline`, which leaves no difference between them.
    """
    dataset = study.datasets[name]
    own = [figure for figure in compared if dataset.stands_for == f"{figure.paper.paper}/{figure.of_column.data}"]
    if own:
        for figure in own:
            names = [dataset.test_set_for(test_set) for test_set in figure.test_sets]
            yield figure, [found for found in names if found is not None] if None not in names else [], True
        return
    others = [figure for figure in compared if figure.of_column.difference_to is None]
    same_pair = [figure for figure in others if _languages(figure) == dataset.languages]
    chosen = same_pair or others
    averages = [
        figure
        for figure in chosen
        if len(figure.test_sets) > 1 and (baseline in (None, figure.row) or figure.difference_to(baseline) is not None)
    ]
    chosen = averages or [figure for figure in chosen if len(figure.test_sets) == 1] or chosen
    for test_set in dataset.test_sets:
        yield from ((figure, [test_set], False) for figure in chosen)


def _languages(figure: Figure) -> tuple[str | None, str] | None:
    return None if figure.data is None else (figure.data.source_language, figure.data.target_language)


def _compared(
    system: str, place: str, figure: Figure, baseline: str | None, dataset: str, test_sets: list[str], same: bool
) -> ComparedFigure:
    measure, column, data = figure.measure, figure.of_column, figure.data
    assert measure.ours is not None
    assert measure.tolerance is not None
    assert data is not None
    assert figure.cell.value is not None
    return ComparedFigure(
        system=system,
        place=place,
        paper=figure.paper.authors,
        table=figure.of_table.caption,
        row=figure.of_row.title,
        heading=column.heading,
        convention=measure.convention,
        better=measure.better,
        tolerance=measure.tolerance,
        decimals=measure.decimals,
        printed=figure.cell.value,
        printed_significant=figure.cell.significant,
        is_difference=column.difference_to is not None,
        printed_difference=None if baseline is None or baseline == figure.row else figure.difference_to(baseline),
        printed_baseline=None if baseline is None else figure.of_table.rows[baseline].title,
        data=f"{data.about}, {', '.join(figure.test_sets)}",
        kind=measure.ours.kind,
        column=measure.ours.column,
        dataset=dataset,
        test_sets=test_sets,
        same_data=same,
        notes=figure.notes,
    )
