"""Which printed figures and claims the systems of a study stand for, and which of its test sets they are compared on.

A system names rows of papers (`stands_for: xu2020/table-2/max`), and a data set the data of a paper (`stands_for:
xu2020/en-de`). Figures are compared as they are printed only on the data of the paper. On other data, differences to
the baseline are compared: the baseline of the row (`Study.baseline_of`) must stand for a row of the same table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phrasemt.fields import Settings
from phrasemt.printed.results import (
    Claim,
    ClaimTest,
    CostKind,
    Counterpart,
    Figure,
    Interval,
    Paper,
    PaperRow,
    baseline_place,
    figures_of_row,
    load_papers,
    row_at,
)
from phrasemt.study.schema import Study, System

_SIZE = "width", "ffn_width", "heads", "encoder_layers", "decoder_layers"


class ComparedFigure(Settings):
    """A printed figure beside a place of the results table.

    place: of the row, `paper/table/row`. kind, column: of the block and the column of the results table. test_sets: of
    our data set; our figure is the mean over them; empty without the test set. printed_difference: to the
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

    row: `paper/table/row`. unit: the title of the row that it is relative to. comparable: the data sets where both
    systems have the size and the data of the paper. updates: of the row, relative to the other one.
    """

    system: str
    row: str
    heading: str
    unit: str
    cost: CostKind
    printed: float
    comparable: list[str]
    updates: float = 1.0


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
                    places = ((name, f"{table}/{row}"), (study.baseline_of(name), f"{table}/{baseline}"))
                    same_size = all(_has_size(study, one, paper, place) for one, place in places)
                    sizes = [paper_size(figure.of_table.rows[one]) for one in (row, baseline)]
                    updates = [one.training.max_updates if one else 1 for one in sizes]
                    yield ComparedCost(
                        system=name,
                        row=place,
                        heading=figure.of_column.heading,
                        unit=figure.of_table.rows[baseline].title,
                        cost=cost,
                        printed=figure.cell.value / unit.value,
                        comparable=_on_data(study, f"{paper.paper}/{figure.of_column.data}") if same_size else [],
                        updates=updates[0] / updates[1],
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
        printed_difference=_printed_difference(figure, baseline),
        printed_baseline=None if baseline is None else figure.of_table.rows[baseline].title,
        data=f"{data.about}, {', '.join(figure.test_sets)}",
        kind=measure.ours.kind,
        column=measure.ours.column,
        dataset=dataset,
        test_sets=test_sets,
        same_data=same,
        notes=figure.notes,
    )


def _is_to_the_baseline(figure: Figure) -> bool:
    """Whether a figure is no difference, or one to the row that its row is compared with."""
    to = figure.of_column.difference_to
    return to is None or baseline_place(figure.place) == f"{figure.paper.paper}/{figure.table}/{to}"


def _printed_difference(figure: Figure, baseline: str | None) -> float | None:
    if baseline is None or baseline == figure.row:
        return None
    return figure.cell.value if figure.of_column.difference_to == baseline else figure.difference_to(baseline)


class StudiedTest(ClaimTest):
    """A test of a claim by systems of a study.

    system, than_system: that stand for the rows; None where the study has none. control: the system is a control of
    one that does. counterpart: where figures of the measure stand in the results table; question: what raters answer
    about it. comparable: the data sets where a claim about data of the paper may be decided, at the size of the paper;
    None: all.
    """

    paper: str
    system: str | None = None
    than_system: str | None = None
    control: bool = False
    counterpart: Counterpart | None = None
    question: str | None = None
    comparable: list[str] | None = None


class StudiedClaim(Claim):
    """A claim of a paper in a study. paper, name: of the paper and of the claim."""

    paper: str
    name: str
    measured: Sequence[StudiedTest]


class AnalysedFigure(StudiedTest):
    """A printed figure that an analysis finds: a difference on a group of lengths or to another row than the baseline,
    or a share of the attention.

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
    """The claims of a paper, with a test for each system that stands for the row that a claim names."""
    for name, claim in paper.claims.items():
        measured = [found for one in claim.measured for found in _studied_tests(paper, study, one)]
        yield StudiedClaim(paper=paper.paper, name=name, **{**dict(claim), "measured": measured})


def _studied_tests(paper: Paper, study: Study, one: ClaimTest) -> Iterator[StudiedTest]:
    measure = paper.measures[one.measure] if one.measure else None
    others = _standing_for(study, f"{paper.paper}/{one.than}") if one.than else []
    for system in _standing_for(study, f"{paper.paper}/{one.row}") or [None]:
        # Of several systems that stand for the other row, the baseline is the one that comparisons are made with.
        baseline = None if system is None else study.baseline_of(system)
        than = baseline if baseline in others else next(iter(others), None)
        comparable = None
        if one.only_on:
            sizes = [_has_size(study, name, paper, row) for name, row in ((system, one.row), (than, one.than)) if row]
            comparable = _on_data(study, f"{paper.paper}/{one.only_on}") if all(sizes) else []
        found = StudiedTest(
            **dict(one),
            paper=paper.paper,
            system=system,
            than_system=than,
            counterpart=measure and measure.ours,
            question=measure and measure.question,
            comparable=comparable,
        )
        yield found
        for control in study.controls.get(system or "", ()) if than and not one.is_ratio else ():
            if control != than:
                yield found.model_copy(update={"system": control, "control": True})


def analysed_figures(study: Study) -> Iterator[AnalysedFigure]:
    """The printed figures that analyses of the study find, in the order of its systems."""
    data = {dataset.stands_for for dataset in study.datasets.values()}
    for name, system in study.systems.items():
        for figure in (figure for place in system.stands_for for figure in figures_of_row(*row_at(place))):
            column, paper = figure.of_column, figure.paper
            other = column.difference_to if column.words or not _is_to_the_baseline(figure) else None
            than = f"{figure.table}/{other}" if other else None
            if not (figure.measure.analysis or than):
                continue
            others = _standing_for(study, f"{paper.paper}/{than}") if than else []
            yield AnalysedFigure(
                analysis=figure.measure.analysis or ("lengths" if column.words else "table"),
                measure=None if figure.measure.analysis or column.words else column.measure,
                counterpart=figure.measure.ours,
                row=f"{figure.table}/{figure.row}",
                than=than,
                words=column.words,
                expected=Interval(low=figure.cell.value, high=figure.cell.high or figure.cell.value),
                paper=paper.paper,
                system=name,
                than_system=next(iter(others), None),
                title=f"{paper.authors}, {figure.of_table.caption.split(':')[0]}: {figure.of_row.title}",
                heading=column.heading,
                printed=figure.printed_text,
                same_data=f"{paper.paper}/{column.data}" in data,
            )


def _on_data(study: Study, place: str) -> list[str]:
    return [name for name, dataset in study.datasets.items() if dataset.stands_for == place]


def paper_size(row: PaperRow) -> System | None:
    """The system of a row at the size of the paper; None where the paper's file does not say it."""
    return None if row.preset is None else System.model_validate({"preset": row.preset, "model": row.model})


def _has_size(study: Study, system: str | None, paper: Paper, place: str) -> bool:
    """Whether a system has widths, heads and layers of the row that it stands for; True where these are not known."""
    table, row = place.split("/")
    printed = paper_size(paper.tables[table].rows[row])
    if system not in study.models or printed is None:
        return True
    ours, theirs = study.models[system].model, printed.model
    return all(getattr(ours, key, None) == getattr(theirs, key, None) for key in _SIZE)


def _standing_for(study: Study, place: str) -> list[str | None]:
    return [name for name, system in study.systems.items() if place in system.stands_for]
