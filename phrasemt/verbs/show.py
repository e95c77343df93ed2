"""`phrasemt show`: print the results table of a study, and the path of its report."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.verbs._study import FILE_OR_NAME, add_study, study_name
from phrasemt.workflow.paths import Paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser, FILE_OR_NAME)


def run(options: argparse.Namespace) -> None:
    """Print the table. Raises PhrasemtError, with the command that makes the table, when there is none."""
    study: Path = options.study
    paths = Paths(study_name(study))
    table, report = Path(paths.markdown_table), Path(paths.report)
    if not table.exists():
        next_step = f"snakemake --profile profiles/local --configfile {study if study.suffix else 'STUDY.yaml'}"
        raise PhrasemtError("there are no results yet", where=table, next_step=next_step)
    for line in read_lines(table):
        print(line)
    if report.exists():
        print(f"\nReport: {report}")
