"""`phrasemt show`: print the main results of a study, all its numbers, or write the figures of its report."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.table import Table
from phrasemt.commands._arguments import Output, add_study, changes_of, finished_file, print_changes, study_name
from phrasemt.files.lines import read_lines, write_text
from phrasemt.report.summary import GAIN, Rows, main_rows
from phrasemt.runs.display import table as aligned

_WIDTH, _LONGEST_TITLE = 100, 50  # characters of a line, and of the title of a system in it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser, by_name=True)
    parser.add_argument("--full", action="store_true", help="print table.md, which has all numbers")
    parser.add_argument("--figures", type=Output, metavar="FOLDER", help="write the figures of the report as SVG files")


def run(options: argparse.Namespace) -> None:
    """Print the table, or write the figures. Raises PhrasemtError, with the command that makes what is not there."""
    paths = Paths(study_name(options.study))
    report, wanted = Path(paths.report), paths.markdown_table if options.full else paths.table
    missing = "there are no results yet"
    changes = changes_of(options.study)
    if options.figures is not None:
        finished_file(paths.report, missing, options.study)
        changes.refuse()
        _write_figures(report, options.figures)
        return
    results = finished_file(wanted, missing, options.study)
    print_changes(changes)
    print(*(read_lines(results) if options.full else main_results(Table.read(results))), sep="\n")
    page = f"; page: {report}" if report.exists() else ""
    print(f"\nAll numbers: phrasemt show --full, {paths.markdown_table}{page}")


def main_results(results: Table) -> Iterator[str]:
    """Yield the first table of each test set and its notes, in lines of 100 characters."""
    yield f"{results.title} ({results.study})"
    said: set[str] = set()
    for block in (block for block in results.blocks if block.kind in ("scores", "perplexity")):
        yield from ("", block.heading, "", *_fitting(main_rows(block)))
        notes = [note for note in block.notes if note not in said]
        yield from [""] * bool(notes)
        for note in notes:
            yield from textwrap.wrap(note, _WIDTH, break_long_words=False, break_on_hyphens=False)
        said.update(block.notes)


def _fitting(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table, without the last columns where it is too wide."""
    rows = [[textwrap.shorten(row[0], _LONGEST_TITLE, placeholder=" …"), *row[1:]] for row in rows]
    for columns in range(len(rows[0]), 1, -1):
        numbers = [heading for heading in rows[0][1:columns] if heading != GAIN]
        lines = list(aligned([row[:columns] for row in rows], right_aligned=numbers, indent="  "))
        if max(map(len, lines)) <= _WIDTH or columns == 2:
            yield from lines
            return


def _write_figures(report: Path, folder: Path) -> None:
    from phrasemt.report.page import drawings_in  # the table alone needs no templates

    folder.mkdir(parents=True, exist_ok=True)
    for drawing in drawings_in(report.read_text(encoding="utf-8")):
        name = re.sub(r"[^\w.]+", "-", drawing.title).strip("-").lower()
        path = folder / f"{name}.svg"
        write_text(path, drawing.file)
        print(path)
