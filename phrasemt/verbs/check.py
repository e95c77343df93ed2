"""`phrasemt check`: report all mistakes in a study file, or print one line about the study and its warnings."""

from __future__ import annotations

import argparse
import logging

from phrasemt.verbs._study import add_study
from phrasemt.workflow.check import read_study, warnings_of

log = logging.getLogger("phrasemt.check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser)


def run(options: argparse.Namespace) -> None:
    """Print one line about the study, and log its warnings. Raises StudyError with all mistakes."""
    study = read_study(options.study)
    for warning in warnings_of(study):
        log.warning("phrasemt check: warning: %s: %s", options.study, warning)
    print(
        f"{options.study}: study {study.study}; data sets: {', '.join(study.datasets)}; "
        f"systems: {', '.join(study.systems)}; seeds: {', '.join(map(str, study.seeds))}"
    )
