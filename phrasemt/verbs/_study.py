"""What verbs about a study have in common: the argument STUDY, and what they choose in the study by name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from phrasemt.errors import PhrasemtError
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

FILE_OR_NAME = "study file, or name of a study in results/"


def add_study(parser: Any, what: str = "study file") -> None:
    """The first argument of every verb about a study."""
    parser.add_argument(
        "study",
        nargs="?",
        type=Path,
        default=Path("config.yaml"),
        metavar="STUDY",
        help=f"{what} (default: %(default)s)",
    )


def add_dataset(parser: Any) -> None:
    """The option --dataset."""
    parser.add_argument("--dataset", metavar="NAME", help="data set of the study (default: the first)")


def study_name(study: Path) -> str:
    """The name of a study that is given by its file, which has a suffix, or by its name."""
    return load_study(study).study if study.suffix else str(study)


def chosen_dataset(options: argparse.Namespace) -> tuple[Study, str]:
    """The study and the name of a data set in it. Raises PhrasemtError when one of them does not exist."""
    study = load_study(options.study)
    return study, choose("dataset", options.dataset, list(study.datasets))


def choose(kind: str, wanted: str | None, known: list[str]) -> str:
    """The name that was asked for, or the first one. Raises PhrasemtError when it is not known."""
    if wanted is not None and wanted not in known:
        raise PhrasemtError(f"no such {kind}", where=wanted, expected=f"one of {', '.join(known)}")
    return wanted or known[0]
