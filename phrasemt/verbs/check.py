"""`phrasemt check`: report all mistakes in study files, or print one line about each study and its warnings."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from phrasemt.errors import StudyError
from phrasemt.workflow.check import read_study, warnings_of

log = logging.getLogger("phrasemt.check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = [Path("config.yaml")]
    parser.add_argument(
        "studies", nargs="*", type=Path, default=default, metavar="STUDY", help="study files (default: config.yaml)"
    )


def run(options: argparse.Namespace) -> None:
    """Print one line about each study, and log its warnings. Raises StudyError for a bad one, after the others."""
    bad: list[StudyError] = []
    for path in options.studies:
        try:
            study = read_study(path)
        except StudyError as error:
            bad.append(error)
            continue
        for warning in warnings_of(study):
            log.warning("phrasemt check: warning: %s: %s", path, warning)
        print(
            f"{path}: study {study.study}; data sets: {', '.join(study.datasets)}; "
            f"systems: {', '.join(study.systems)}; seeds: {', '.join(map(str, study.seeds))}"
        )
    for one in bad[:-1]:
        log.error("phrasemt check: error: %s", one)
    if bad:
        raise bad[-1]
