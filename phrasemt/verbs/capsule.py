"""`phrasemt capsule`: pack the table of a study with everything that its numbers are computed from."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasemt.report.capsule import write_capsule
from phrasemt.runs.units import size
from phrasemt.study.reading import load_study
from phrasemt.verbs._output import Output
from phrasemt.verbs._study import add_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one zip file with the study, tables, scores, comparisons, translations, sidecars, checksums "
        "of all artefacts, and references where their licence allows copies. `phrasemt verify FILE.zip` computes the "
        "numbers again. Equal studies give equal files."
    )
    add_study(parser)
    parser.add_argument("--output", type=Output, metavar="FILE", help="zip file (default: <study>.zip)")
    parser.add_argument(
        "--all-references", action="store_true", help="pack references whose licence is not known to allow copies, too"
    )


def run(options: argparse.Namespace) -> None:
    """Write the capsule. Raises PhrasemtError if there is no table, DamagedFileError for an altered file."""
    study = load_study(options.study)
    capsule: Path = options.output or Path(f"{study.study}.zip")
    manifest = write_capsule(study, capsule, all_references=options.all_references)
    for file in (file for file in manifest.files if file.member is None):
        print(f"left out, because the registry does not say that it may be copied: {file.path}")
    print(f"{capsule}: {size(capsule.stat().st_size)}. Next: `phrasemt verify {capsule}`")
