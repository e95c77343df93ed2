"""`phrasemt check`: report all mistakes in a study file, or print one line about the study."""

from __future__ import annotations

import argparse
from typing import Any

from phrasemt.verbs._study import add_study
from phrasemt.workflow.check import read_study


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser("check", help="check a study file without running anything")
    add_study(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print one line about the study. Raises StudyError with all mistakes."""
    study = read_study(options.study)
    print(
        f"{options.study}: study {study.study}; data sets: {', '.join(study.datasets)}; "
        f"systems: {', '.join(study.systems)}; seeds: {', '.join(map(str, study.seeds))}"
    )
