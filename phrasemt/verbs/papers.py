"""`phrasemt papers [PAPER]`: list every figure that the papers print, and what a study knows of it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.table import ScorecardEntry, Table
from phrasemt.errors import PhrasemtError
from phrasemt.printed.results import Figure, Paper, figures, load_papers, paper_named
from phrasemt.verbs._study import FILE_OR_NAME, study_name
from phrasemt.verbs._tables import table
from phrasemt.workflow.paths import Paths

Entries = dict[tuple[str, str], list[ScorecardEntry]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="one paper, e.g. xu2020 (default: all)")
    parser.add_argument(
        "--study", type=Path, metavar="STUDY", help=f"{FILE_OR_NAME}; adds our figures and the verdicts"
    )


def run(options: argparse.Namespace) -> None:
    """Print all figures. Raises DataError for an unknown paper, and PhrasemtError for a study without a table."""
    papers = [paper_named(options.paper)] if options.paper else list(load_papers().values())
    entries = None if options.study is None else _entries(options.study)
    sys.stdout.write("\n".join("\n".join(_describe(paper, entries)) + "\n" for paper in papers))


def _entries(study: Path) -> Entries:
    """The entries of the scorecard of a study, by the place of the row and the heading of the column."""
    path = Path(Paths(study_name(study)).table)
    if not path.exists():
        raise PhrasemtError("the study has no table yet", where=path, next_step="run the study, or leave out --study")
    scorecard = Table.read(path).scorecard
    found: Entries = defaultdict(list)
    for entry in scorecard.entries if scorecard else []:
        found[entry.place, entry.heading].append(entry)
    return found


def _describe(paper: Paper, entries: Entries | None) -> Iterator[str]:
    yield f"{paper.paper}: {paper.authors}, {paper.title} ({paper.venue})"
    yield "data, for stands_for of a data set:"
    yield from (f"  {paper.paper}/{name}: {data.about}" for name, data in paper.data.items())
    numbers = {note: number for number, note in enumerate(paper.notes.values(), start=1)}
    yield from table(list(_rows(paper, entries, numbers)), right_aligned=("printed", "ours", "gap"))
    for name, measure in paper.measures.items():
        yield from textwrap.wrap(f"{name}: {measure.convention}", 110, subsequent_indent="    ")
    for note, number in numbers.items():
        yield from textwrap.wrap(note, 110, initial_indent=f"[{number}] ", subsequent_indent="    ")


def _rows(paper: Paper, entries: Entries | None, numbers: dict[str, int]) -> Iterator[tuple[str, ...]]:
    yield "row, for stands_for of a system", "figure", "printed", "ours", "gap", "verdict", "convention", "notes"
    for figure in figures(paper):
        place = f"{paper.paper}/{figure.table}/{figure.row}"
        sign = "+" if figure.of_column.difference_to else ""
        start = place, figure.of_column.heading, f"{figure.cell.value:{sign}.{figure.measure.decimals}f}"
        end = _convention(figure), "".join(f"[{numbers[note]}]" for note in figure.notes)
        known = [] if entries is None else entries.get((place, figure.of_column.heading), [])
        for entry in known:
            ours, gap = "" if entry.ours is None else entry.ours.text, "" if entry.gap is None else f"{entry.gap:+.2f}"
            yield *start, ours, gap, entry.verdict + (f": {entry.finding}" if entry.finding else ""), *end
        if not known:
            yield *start, "", "", "" if entries is None else "not run", *end


def _convention(figure: Figure) -> str:
    data = "" if figure.of_column.data is None else f"{figure.of_column.data}: "
    compared = "" if figure.measure.ours is not None and figure.test_sets else " (no column of our table)"
    return f"{data}{figure.of_column.measure}{compared}"
