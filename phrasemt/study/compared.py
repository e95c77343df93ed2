"""Which printed figures the systems of a study stand for, and which of its test sets they are compared on.

A system names rows of papers (`stands_for: xu2020/table-2/max`), and a data set the data of a paper (`stands_for:
xu2020/en-de`). Figures are compared as they are printed only on the data of the paper. On other data, differences to
the baseline are compared: the baseline of the row (`Study.baseline_of`) must stand for a row of the same table.
"""

from __future__ import annotations

from collections.abc import Iterator

from phrasemt.fields import Settings
from phrasemt.printed.results import Figure, PaperRow, baseline_place, figures_of_row, row_at
from phrasemt.study.schema import Study, System


class ComparedFigure(Settings):
    """Where a printed figure stands, and which place of the results table is compared with it.

    place: of its row, `paper/table/row`; column: of the table of the paper. baseline: the row of that table that the
    baseline of the system stands for, if any. test_sets: of our data set; empty without the test set of the figure.
    """

    system: str
    place: str
    column: str
    baseline: str | None
    dataset: str
    test_sets: list[str]
    same_data: bool


def compared_figures(study: Study) -> Iterator[ComparedFigure]:
    """The printed figures beside a study, in the order of its systems, their rows, and its data sets."""
    for name, system in study.systems.items():
        for place in system.stands_for:
            paper, table, row = row_at(place)
            baseline = _row_of_baseline(study, name, place)
            figures = figures_of_row(paper, table, row)
            compared = [
                one
                for one in figures
                if one.measure.ours is not None and one.data and one.test_sets and _is_to_the_baseline(one)
            ]
            for dataset in study.datasets:
                for figure, test_sets, same in _on_dataset(study, dataset, compared, baseline):
                    yield ComparedFigure(
                        system=name,
                        place=place,
                        column=figure.column,
                        baseline=baseline,
                        dataset=dataset,
                        test_sets=test_sets,
                        same_data=same,
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
    others = [figure for figure in compared if figure.of_column.difference_to in (None, baseline)]
    same_pair = [
        figure
        for figure in others
        if figure.data and (figure.data.source_language, figure.data.target_language) == dataset.languages
    ]
    chosen = same_pair or others
    averages = [
        figure
        for figure in chosen
        if len(figure.test_sets) > 1
        and (
            baseline in (None, figure.row)
            or figure.of_column.difference_to
            or figure.difference_to(baseline) is not None
        )
    ]
    chosen = averages or [figure for figure in chosen if len(figure.test_sets) == 1] or chosen
    for test_set in dataset.test_sets:
        yield from ((figure, [test_set], False) for figure in chosen)


def _is_to_the_baseline(figure: Figure) -> bool:
    """Whether a figure is no difference, or one to the row that its row is compared with."""
    to = figure.of_column.difference_to
    return to is None or baseline_place(figure.place) == f"{figure.paper.paper}/{figure.table}/{to}"


def paper_size(row: PaperRow) -> System | None:
    """The system of a row at the size of the paper; None where the paper's file does not say it."""
    return None if row.preset is None else System.model_validate({"preset": row.preset, "model": row.model})
