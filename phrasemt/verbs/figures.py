"""`phrasemt figures`: write the figures of a study as SVG files, for papers and slides.

They are those of its report. `tensorboard --logdir results` draws the curves of trainings that still run.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.report.figures import svg_file
from phrasemt.report.page import drawings_in
from phrasemt.verbs._output import Output
from phrasemt.verbs._study import FILE_OR_NAME, add_study, study_name
from phrasemt.workflow.paths import Paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the figures of a study's report as SVG files in colours for white paper, named by their titles."
    )
    add_study(parser, FILE_OR_NAME)
    parser.add_argument("--output", type=Output, required=True, metavar="FOLDER", help="where the files are written")


def run(options: argparse.Namespace) -> None:
    """Write the files and print their paths. Raises PhrasemtError for a study without a report."""
    study = study_name(options.study)
    report = Path(Paths(study).report)
    page = report.read_text(encoding="utf-8") if report.is_file() else ""
    drawings = drawings_in(page)
    if not drawings:
        what, next_step = "no figures of this study yet", "snakemake --profile profiles/local --configfile STUDY.yaml"
        raise PhrasemtError(what, where=report, next_step=next_step)
    options.output.mkdir(parents=True, exist_ok=True)
    for drawing in drawings:
        name = re.sub(r"[^\w.]+", "-", drawing.title).strip("-").lower()
        path = options.output / f"{name}.svg"
        write_text(path, svg_file(drawing))
        print(path)
