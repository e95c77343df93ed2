"""The argument STUDY, and choices of data sets and systems by name, for all verbs about a study."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phrasemt.errors import PhrasemtError, did_you_mean
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

DEFAULT_STUDY = Path("config.yaml")
FILE_OR_NAME = "study file, or name of a study in results/"


def add_study(parser: Any, what: str = "study file") -> None:
    """Add STUDY, the first argument of every verb about a study, which is also the option --study of all verbs."""
    parser.add_argument(
        "study",
        nargs="?",
        type=Path,
        action=_Given,
        default=DEFAULT_STUDY,
        metavar="STUDY",
        help=f"{what} (default: %(default)s)",
    )
    parser.add_argument("--study", type=Path, default=argparse.SUPPRESS, metavar="STUDY", help="the same, as an option")


class _Given(argparse.Action):
    """Stores an argument that is given. Without it, argparse would store the default over the option's value."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if values is not self.default:
            setattr(namespace, self.dest, values)


def add_dataset(parser: Any) -> None:
    """Add the option --dataset."""
    parser.add_argument("--dataset", metavar="NAME", help="data set of the study (default: the first)")


def add_profile(parser: Any) -> None:
    """Add the option --profile, for verbs that ask Snakemake."""
    parser.add_argument(
        "--profile", default="profiles/local", metavar="FOLDER", help="profile of Snakemake (default: %(default)s)"
    )


def name_behind_study(what: str) -> Callable[[str], str]:
    """Return the type of an argument behind STUDY. A study alone would be taken for it, because STUDY may be left out.

    what: the argument, as the help shows it.
    """

    def read(text: str) -> str:
        if Path(text).suffix in (".yaml", ".yml"):
            raise argparse.ArgumentTypeError(f"{text} is a study; {what} behind it is missing")
        return text

    return read


def study_name(study: Path) -> str:
    """Return the name of a study. study: its file, whose name has a suffix, or its name."""
    return load_study(study).study if study.suffix else str(study)


def chosen_dataset(options: argparse.Namespace) -> tuple[Study, str]:
    """Return the study and the name of a data set in it. Raises PhrasemtError when one of them does not exist."""
    study = load_study(options.study)
    return study, choose("dataset", options.dataset, list(study.datasets))


def choose(kind: str, wanted: str | None, known: list[str]) -> str:
    """Return `wanted`, or the first known name for None. Raises PhrasemtError for an unknown name."""
    if wanted is not None and wanted not in known:
        near = did_you_mean(wanted, known)
        raise PhrasemtError(f"no such {kind}", where=wanted, expected=f"one of {', '.join(known)}{near}")
    return wanted or known[0]
