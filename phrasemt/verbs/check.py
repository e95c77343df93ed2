"""`phrasemt check`: is a study right? Says all that is wrong with it, or what it is about."""

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
    """Prints one line about the study; raises StudyError with all its mistakes."""
    study = read_study(options.study)
    print(
        f"{options.study}: study {study.study}; data sets: {', '.join(study.datasets)}; "
        f"systems: {', '.join(study.systems)}; seeds: {', '.join(map(str, study.seeds))}"
    )
