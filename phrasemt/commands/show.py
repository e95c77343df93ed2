"""`phrasemt show`: print the results table of a study, or write the figures of its report."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.commands._arguments import (
    FILE_OR_NAME,
    Output,
    add_study,
    changes_of,
    finished_file,
    print_changes,
    study_name,
)
from phrasemt.files.lines import read_lines, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser, FILE_OR_NAME)
    parser.add_argument(
        "--figures", type=Output, metavar="FOLDER", help="write the figures of the report as SVG files for white paper"
    )


def run(options: argparse.Namespace) -> None:
    """Print the table, or write the figures. Raises PhrasemtError, with the command that makes what is not there."""
    paths = Paths(study_name(options.study))
    report, wanted = Path(paths.report), paths.markdown_table if options.figures is None else paths.report
    found = finished_file(wanted, "there are no results yet", options.study)
    changes = changes_of(options.study)
    if options.figures is not None:
        if changes is not None:
            changes.refuse()
        _write_figures(report, options.figures)
        return
    print_changes(changes)
    for line in read_lines(found):
        print(line)
    if report.exists():
        print(f"\nReport: {report}")


def _write_figures(report: Path, folder: Path) -> None:
    # The table alone needs no drawing library.
    from phrasemt.report.page import drawings_in

    folder.mkdir(parents=True, exist_ok=True)
    for drawing in drawings_in(report.read_text(encoding="utf-8")):
        name = re.sub(r"[^\w.]+", "-", drawing.title).strip("-").lower()
        path = folder / f"{name}.svg"
        write_text(path, drawing.svg)
        print(path)
