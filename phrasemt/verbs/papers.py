"""`phrasemt papers [PAPER]`: list every figure that the papers print, and what studies know of it."""

from __future__ import annotations

import argparse
import csv
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.table import Scorecard, Table
from phrasemt.errors import PhrasemtError
from phrasemt.printed.results import Figure, Paper, figures, load_papers, paper_named
from phrasemt.report.printing import latex_tabular, markdown_rows
from phrasemt.report.sections.cost import CostBesidePaper, beside_papers, costs, relative_costs
from phrasemt.report.sections.trainings import read_training
from phrasemt.study.compared import compared_costs
from phrasemt.study.reading import load_study
from phrasemt.verbs._study import FILE_OR_NAME, study_name
from phrasemt.verbs._tables import table
from phrasemt.workflow.paths import Paths

FORMATS = ("list", "markdown", "latex", "csv")


@dataclass(frozen=True)
class Known:
    """What a study knows of a printed figure. same_data: measured on the data of the paper."""

    ours: str
    gap: str
    verdict: str
    same_data: bool


Place = tuple[str, str]  # of a row, `paper/table/row`, and the heading of a column


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="one paper, e.g. xu2020 (default: all)")
    parser.add_argument(
        "--study", type=Path, nargs="+", metavar="STUDY", help=f"{FILE_OR_NAME}; adds our figures and the verdicts"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="list",
        help="list: a line for each figure; markdown, latex, csv: the tables of the paper, with our figures beside the "
        "printed ones (default: %(default)s)",
    )
    parser.add_argument("--studies", action="store_true", help="list the files in studies/ that stand for the paper")


def run(options: argparse.Namespace) -> None:
    """Print all figures. Raises DataError for an unknown paper, and PhrasemtError for a study without a table."""
    papers = [paper_named(options.paper)] if options.paper else list(load_papers().values())
    if options.studies:
        print(*_studies_of(papers), sep="\n")
        return
    known: dict[Place, list[Known]] = defaultdict(list)
    for place, one in (found for study in options.study or () for found in _known(study)):
        known[place].append(one)
    for number, paper in enumerate(papers):
        if options.format == "list":
            sys.stdout.write(
                ("\n" if number else "") + "\n".join(_describe(paper, known if options.study else None)) + "\n"
            )
        else:
            _write_tables(paper, known, options.format)


def _studies_of(papers: Sequence[Paper]) -> Iterator[str]:
    names = {paper.paper for paper in papers}
    for path in sorted(Path("studies").glob("*.yaml")):
        places = (dataset.stands_for for dataset in load_study(path).datasets.values())
        if names & {place.partition("/")[0] for place in places if place}:
            yield path.as_posix()


def _known(study: Path) -> Iterator[tuple[Place, Known]]:
    """What a study knows, from its table, and of a study file from its trainings, too."""
    path = Path(Paths(study_name(study)).table)
    if not path.exists():
        raise PhrasemtError("the study has no table yet", where=path, next_step="run the study, or leave it out")
    content = Table.read(path)
    yield from _of_scorecard(content.scorecard)
    if study.suffix:
        yield from map(_of_cost, _costs(study, content))


def _of_scorecard(scorecard: Scorecard | None) -> Iterator[tuple[Place, Known]]:
    for entry in scorecard.entries if scorecard else ():
        shown = entry.ours if entry.gap is not None or entry.difference is None else entry.difference
        yield (
            (entry.place, entry.heading),
            Known(
                ours="" if shown is None else shown.text + shown.mark,
                gap="" if entry.gap is None else f"{entry.gap:+.2f}",
                verdict=entry.verdict + (f": {entry.finding}" if entry.finding else ""),
                same_data=entry.same_data,
            ),
        )


def _costs(file: Path, content: Table) -> Iterator[CostBesidePaper]:
    study = load_study(file)
    records = sorted(Path().glob(Paths(study.study).training_record.glob))
    found = costs(study.study, [read_training(path) for path in records])
    return beside_papers(list(compared_costs(study)), relative_costs(dict(content.systems), content.baselines, found))


def _of_cost(cost: CostBesidePaper) -> tuple[Place, Known]:
    ours = "" if cost.ours is None else f"{cost.ours:.2f} times {cost.compared.unit}"
    return (cost.compared.row, cost.compared.heading), Known(ours, "", cost.verdict, same_data=True)


def _describe(paper: Paper, known: Mapping[Place, Sequence[Known]] | None) -> Iterator[str]:
    yield f"{paper.paper}: {paper.authors}, {paper.title} ({paper.venue})"
    yield "data, for stands_for of a data set:"
    yield from (f"  {paper.paper}/{name}: {data.about}" for name, data in paper.data.items())
    numbers = {note: number for number, note in enumerate(paper.notes.values(), start=1)}
    yield from table(list(_rows(paper, known, numbers)), right_aligned=("printed", "ours", "gap"))
    for name, measure in paper.measures.items():
        yield from textwrap.wrap(f"{name}: {measure.convention}", 110, subsequent_indent="    ")
    for note, number in numbers.items():
        yield from textwrap.wrap(note, 110, initial_indent=f"[{number}] ", subsequent_indent="    ")


def _rows(
    paper: Paper, known: Mapping[Place, Sequence[Known]] | None, numbers: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    yield "row, for stands_for of a system", "figure", "printed", "ours", "gap", "verdict", "convention", "notes"
    for figure in figures(paper):
        start = figure.place, figure.of_column.heading, figure.printed_text
        end = _convention(figure), "".join(f"[{numbers[note]}]" for note in figure.notes)
        of_figure = [] if known is None else known.get((figure.place, figure.of_column.heading), [])
        for one in of_figure:
            yield *start, one.ours, one.gap, one.verdict, *end
        if not of_figure:
            yield *start, "", "", "" if known is None else "not run", *end


def _convention(figure: Figure) -> str:
    data = "" if figure.of_column.data is None else f"{figure.of_column.data}: "
    compared = "" if figure.measure.ours is not None and figure.test_sets else " (no column of our table)"
    return f"{data}{figure.of_column.measure}{compared}"


def _write_tables(paper: Paper, known: Mapping[Place, Sequence[Known]], form: str) -> None:
    """Write each table of a paper with two columns for each printed one: the printed figures, and ours."""
    of_table: dict[str, dict[Place, Figure]] = {name: {} for name in paper.tables}
    for figure in figures(paper):
        of_table[figure.table][figure.row, figure.column] = figure
    for name, one in paper.tables.items():
        headings = [part for column in one.columns.values() for part in (f"{column.heading}, printed", "ours")]
        rows = [["", *headings]]
        for row_name, row in one.rows.items():
            cells = [_cells(of_table[name].get((row_name, column)), known) for column in one.columns]
            rows.append([row.title, *(text for pair in cells for text in pair)])
        caption = f"{paper.authors}, {one.caption}"
        if form == "csv":
            csv.writer(sys.stdout, lineterminator="\n").writerows([caption, *row] for row in rows)
        elif form == "latex":
            sys.stdout.write("\n".join(latex_tabular(caption, f"{paper.paper}-{name}", rows)) + "\n\n")
        else:
            lines = [f"**{caption}**", "", *markdown_rows(rows, right=range(1, len(rows[0]))), "", ""]
            sys.stdout.write("\n".join(lines))


def _cells(figure: Figure | None, known: Mapping[Place, Sequence[Known]]) -> tuple[str, str]:
    """The printed figure and ours. On other data than the paper's, ours is the difference to the baseline there."""
    if figure is None:
        return "", ""
    of_figure = sorted(known.get((figure.place, figure.of_column.heading), []), key=lambda one: not one.same_data)
    shown = [one.ours + ("" if one.same_data else " (other data)") for one in of_figure if one.ours]
    return figure.printed_text, "; ".join(dict.fromkeys(shown))
