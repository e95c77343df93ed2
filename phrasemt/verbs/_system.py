"""The options --study, --system, --seed and --dataset, for commands about one trained system."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemt.errors import PhrasemtError
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.verbs._arguments import add_study_option, choose, in_range
from phrasemt.workflow.model_folder import read_model_folder
from phrasemt.workflow.trained_system import TrainedSystem


@dataclass(frozen=True)
class ChosenTraining:
    """One training of a study."""

    study: Study
    dataset: str
    system: str
    seed: int

    def files(self) -> TrainedSystem:
        """The settings and files of the trained system. Raises the errors of `TrainedSystem.of_study`."""
        return TrainedSystem.of_study(self.study, self.dataset, self.system, self.seed)


def add_training(parser: Any) -> None:
    """Add the options that choose a training of a study."""
    parser.add_argument("--system", metavar="NAME", help="system of the study")
    parser.add_argument(
        "--seed", type=in_range(int, 0), metavar="N", help="seed of its training (default: the first of the system)"
    )
    parser.add_argument("--dataset", metavar="NAME", help="data set of the study (default: the first)")


def add_system(parser: Any) -> None:
    """Add the options that choose a trained system: one of a study, or the folder of an export."""
    where = parser.add_mutually_exclusive_group()
    add_study_option(where)
    where.add_argument("--model", type=Path, metavar="FOLDER", help="folder of `phrasemt export`, in place of a study")
    add_training(parser)


def add_cores(parser: Any) -> None:
    """Add the option --cores."""
    here = len(os.sched_getaffinity(0))
    kind = in_range(int, 1, here, because="the cores that this process may use")
    parser.add_argument("--cores", type=kind, default=here, metavar="N", help="default: all")


def system_files(options: argparse.Namespace) -> TrainedSystem:
    """The settings and files of the system that the options of `add_system` choose.

    Raises the errors of `chosen_training`, `TrainedSystem.of_study` and `read_model_folder`, and PhrasemtError for
    options without effect.
    """
    if options.model is None:
        return chosen_training(options).files()
    for name in ("system", "seed", "dataset"):
        if getattr(options, name) is not None:
            what = f"an exported folder holds one system, so --{name} has no effect"
            raise PhrasemtError(what, where=options.model, next_step="leave it out")
    return read_model_folder(options.model)


def chosen_training(options: argparse.Namespace) -> ChosenTraining:
    """The training that the command line names. Raises PhrasemtError for a study, system or seed that is not there."""
    study = load_study(options.study)
    system = chosen_system(study, options.system)
    seeds = study.seeds_of(system)
    if options.seed is not None and options.seed not in seeds:
        known = ", ".join(map(str, seeds))
        raise PhrasemtError("no such seed", where=f"--seed {options.seed}", expected=f"one of {known}")
    dataset = choose("dataset", options.dataset, list(study.datasets))
    return ChosenTraining(study, dataset, system, seeds[0] if options.seed is None else options.seed)


def chosen_system(study: Study, wanted: str | None) -> str:
    """The system that --system names, or the only one. Raises PhrasemtError for an unknown or a missing name."""
    if wanted is None and len(study.models) > 1:
        raise PhrasemtError("which system?", where="--system", expected=f"one of {', '.join(study.models)}")
    return choose("system", wanted, list(study.models))
