"""`phrasemt papers [PAPER]`: list every figure of the papers, their claims, and what studies know of the figures.

A study knows of them by its table, its models, and the sheets of raters.
"""

from __future__ import annotations

import argparse
import csv
import logging
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.table import Table
from phrasemt.commands._arguments import FILE_OR_NAME, changes_of, finished_file, study_name
from phrasemt.printed.results import LEDGER, Figure, Paper, figures, figures_of_row, load_papers, paper_named, row_at
from phrasemt.report.tables import latex_tabular, markdown_rows
from phrasemt.runs.display import table
from phrasemt.scoring.ratings import SCALES, SystemRating, score_sheets
from phrasemt.study.compared import paper_size
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

log = logging.getLogger("phrasemt.papers")

PrintedAt = tuple[str, str]  # the place of a row, `paper/table/row`, and the heading of a column
_NUMBERS = ("reported", "ours", "Δ ours", "gap")  # columns
Kind = Literal["ours", "ours, other data", "Δ, other data"]


@dataclass(frozen=True)
class Known:
    """What a study knows of a printed figure. kind: what the number is, the heading of its column."""

    ours: str
    gap: str
    verdict: str
    kind: Kind = "ours"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="one paper, e.g. xu2020 (default: all)")
    parser.add_argument(
        "--study", type=Path, nargs="+", metavar="STUDY", help=f"{FILE_OR_NAME}; adds our figures and the verdicts"
    )
    parser.add_argument(
        "--format",
        choices=("list", "markdown", "latex", "csv"),
        default="list",
        help="list: a line for each figure; markdown, latex, csv: the tables of the paper, with our figures beside the "
        "reported ones (default: %(default)s)",
    )
    parser.add_argument(
        "--ratings", type=Path, metavar="FOLDER", help="filled sheets of `phrasemt ratings`, for figures of raters"
    )
    parser.add_argument(
        "--claims", action="store_true", help="what the paper says in sentences, each with the verdict of our trainings"
    )
    parser.add_argument("--studies", action="store_true", help="list the files in studies/ that stand for the paper")


def run(options: argparse.Namespace) -> None:
    """Print all figures.

    Raises DataError for an unknown paper, PhrasemtError for a study without a table, MismatchError for results that
    were made with other settings.
    """
    for study in options.study or ():
        changes_of(study).refuse()
    papers = [paper_named(options.paper)] if options.paper else list(load_papers().values())
    if options.studies or options.claims:
        print(*(_studies_of(papers) if options.studies else _claims_of(papers)), sep="\n")
        return
    studies, form = options.study or [], options.format
    ratings = {one.system: one for one in score_sheets(options.ratings)[0]} if options.ratings else {}
    known: dict[PrintedAt, list[Known]] = defaultdict(list)
    for place, one in (found for study in studies for found in known_figures(study, ratings)):
        known[place].append(one)
    for number, paper in enumerate(papers):
        if form != "list":
            _write_tables(paper, known, form)
            continue
        sys.stdout.write("\n" if number else "")
        sys.stdout.writelines(f"{line}\n" for line in _describe(paper, known if studies else None))


def _studies_of(papers: Sequence[Paper]) -> Iterator[str]:
    names = {paper.paper for paper in papers}
    for path in sorted(Path("studies").glob("*.yaml")):
        places = (dataset.stands_for for dataset in load_study(path).datasets.values())
        if names & {place.partition("/")[0] for place in places if place}:
            yield path.as_posix()


def _claims_of(papers: Sequence[Paper]) -> Iterator[str]:
    """The lines of docs/claims.md about papers: each claim, and below it the verdict and why."""
    _, *tables = re.split(r"<!-- table: claims/(\w+) -->\n", LEDGER.read_text(encoding="utf-8"))
    of_paper = dict(zip(tables[::2], tables[1::2], strict=True))
    for paper in papers:
        yield f"{paper.authors}, {paper.title}"
        for row in re.findall(r"^\|(.*)\|$", of_paper.get(paper.paper, ""), re.MULTILINE)[2:]:
            claim, verdict, why = (cell.strip().replace("**", "") for cell in row.split("|"))
            yield from textwrap.wrap(claim, 110, initial_indent="- ", subsequent_indent="  ")
            for text in filter(None, (verdict, why)):
                yield from textwrap.wrap(text, 110, initial_indent="    ", subsequent_indent="    ")


def _describe(paper: Paper, known: Mapping[PrintedAt, Sequence[Known]] | None) -> Iterator[str]:
    yield f"{paper.paper}: {paper.authors}, {paper.title} ({paper.venue})"
    yield "data, for stands_for of a data set:"
    yield from (f"  {paper.paper}/{name}: {data.about}" for name, data in paper.data.items())
    numbers = {note: number for number, note in enumerate(paper.notes.values(), start=1)}
    yield from table(list(_rows(paper, known, numbers)), right_aligned=_NUMBERS)
    for name, measure in paper.measures.items():
        yield from textwrap.wrap(f"{name}: {measure.convention}", 110, subsequent_indent="    ")
    for note, number in numbers.items():
        yield from textwrap.wrap(note, 110, initial_indent=f"[{number}] ", subsequent_indent="    ")


def _rows(
    paper: Paper, known: Mapping[PrintedAt, Sequence[Known]] | None, numbers: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    yield "row, for stands_for of a system", "figure", *_NUMBERS, "verdict", "convention", "notes"
    for figure in figures(paper):
        start = figure.place, figure.of_column.heading, figure.printed_text
        data = "" if figure.of_column.data is None else f"{figure.of_column.data}: "
        end = f"{data}{figure.of_column.measure}", "".join(f"[{numbers[note]}]" for note in figure.notes)
        of_figure = [] if known is None else known.get((figure.place, figure.of_column.heading), [])
        for one in of_figure:
            ours = ("", one.ours) if one.kind == "Δ, other data" else (one.ours, "")
            yield *start, *ours, one.gap, one.verdict, *end
        if not of_figure:
            yield *start, "", "", "", "" if known is None else "not run", *end


def _write_tables(paper: Paper, known: Mapping[PrintedAt, Sequence[Known]], form: str) -> None:
    """Write each table of a paper; beside each printed column, one for each kind of number that studies have there."""
    figure_at = {(figure.table, figure.row, figure.column): figure for figure in figures(paper)}
    for name, one in paper.tables.items():
        if not one.columns:
            continue
        shown = [
            column
            for key, printed in one.columns.items()
            for column in _columns(printed.heading, {row: figure_at.get((name, row, key)) for row in one.rows}, known)
        ]
        rows = [["", *(heading for heading, _ in shown)]]
        rows += [[row.title, *(texts[key] for _, texts in shown)] for key, row in one.rows.items()]
        caption = f"{paper.authors}, {one.caption}"
        _write_table(form, caption, f"{paper.paper}-{name}", rows)


def _write_table(form: str, caption: str, label: str, rows: Sequence[Sequence[str]]) -> None:
    if form == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([caption, *row] for row in rows)
        return
    if form == "latex":
        lines = [*latex_tabular(caption, label, rows), ""]
    else:
        lines = [f"**{caption}**", "", *markdown_rows(rows), ""]
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _columns(
    heading: str, of_rows: Mapping[str, Figure | None], known: Mapping[PrintedAt, Sequence[Known]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a printed column and ours: headings, and a text for each row. of_rows: the figures of the column."""
    yield f"{heading}, reported", {row: figure.printed_text if figure else "" for row, figure in of_rows.items()}
    of_studies = {row: known.get((figure.place, heading), ()) if figure else () for row, figure in of_rows.items()}
    for kind in get_args(Kind):
        texts = {
            row: "; ".join(dict.fromkeys(one.ours for one in of_row if one.kind == kind and one.ours))
            for row, of_row in of_studies.items()
        }
        if any(texts.values()):
            yield kind, texts


def known_figures(given: Path, ratings: Mapping[str, SystemRating]) -> Iterator[tuple[PrintedAt, Known]]:
    """What a study knows of printed figures. given: its file or its name, which is enough for its scorecard.

    ratings: of systems, from filled sheets. Raises PhrasemtError for the name of a study without a table; of its file,
    what needs no training is known.
    """
    study, path = load_study(given) if given.suffix else None, Paths(study_name(given)).table
    if study is not None:
        yield from _of_sizes(study)
        if not Path(path).exists():
            log.warning("phrasemt papers: %s: the study has no table yet; only parameters are counted", given)
            return
    yield from _of_scorecard(Table.read(finished_file(path, "the study has no table yet", given)))
    if study is not None:
        yield from _of_ratings(study, ratings)


def _of_scorecard(content: Table) -> Iterator[tuple[PrintedAt, Known]]:
    for entry in content.scorecard.entries if content.scorecard else ():
        shown = entry.ours if entry.same_data or entry.difference is None else entry.difference
        other: Kind = "ours, other data" if entry.difference is None else "Δ, other data"
        yield (
            (entry.place, entry.heading),
            Known(
                ours="" if shown is None else shown.text + shown.mark,
                gap="" if entry.gap is None else f"{entry.gap:+.2f}",
                verdict="; ".join(filter(None, (entry.text, entry.significance))),
                kind="ours" if entry.same_data else other,
            ),
        )


def _of_sizes(study: Study) -> Iterator[tuple[PrintedAt, Known]]:
    """The parameters of the rows that systems stand for, at the size of the paper, which needs no training."""
    import torch  # takes seconds, which other commands about papers need not wait for

    from phrasemt.models.interface import build_model

    for place in dict.fromkeys(place for system in study.systems.values() for place in system.stands_for):
        for figure in figures_of_row(*row_at(place)):
            size, symbols = paper_size(figure.of_row), figure.measure.symbols
            if size is None or symbols is None or figure.cell.value is None:
                continue
            with torch.device("meta"):
                model = build_model(size.model, source_vocabulary=symbols, target_vocabulary=symbols)
            ours = sum(parameter.numel() for parameter in model.parameters()) / 1e6
            gap = ours - figure.cell.value
            same = "as reported" if abs(gap) < 10**-figure.measure.decimals else "not as reported"
            known = Known(f"{ours:.2f}", f"{gap:+.2f}", f"{same}, {symbols:,} symbols a side")
            yield (place, figure.of_column.heading), known


def _of_ratings(study: Study, ratings: Mapping[str, SystemRating]) -> Iterator[tuple[PrintedAt, Known]]:
    for name, system in study.systems.items():
        for place in system.stands_for if name in ratings else ():
            for figure in figures_of_row(*row_at(place)):
                if question := figure.measure.question:
                    mean = ratings[name].means[question]
                    ours = f"{mean:.2f}" if question in SCALES else f"{100 * mean:.0f}"
                    verdict = f"{ratings[name].items} rated sentences"
                    data = f"{figure.paper.paper}/{figure.of_column.data}"
                    on_its_data = any(dataset.stands_for == data for dataset in study.datasets.values())
                    kind: Kind = "ours" if on_its_data else "ours, other data"
                    yield (place, figure.of_column.heading), Known(ours, "", verdict, kind)
