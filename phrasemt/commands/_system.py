"""The options --study, --system, --seed and --dataset, for commands about one trained system."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemt.commands._arguments import add_study_option, choose, in_range
from phrasemt.errors import PhrasemtError
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
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


def add_training(parser: Any, *, several: bool = False) -> None:
    """Add the options that choose a training of a study. several: --system and --seed may be repeated."""
    how = {"action": "append"} if several else {}
    repeated = "; may be repeated, for an ensemble" if several else ""
    parser.add_argument("--system", **how, metavar="NAME", help=f"system of the study{repeated}")
    seed = f"seed of its training (default: the first of the system){repeated}"
    parser.add_argument("--seed", type=in_range(int, 0), **how, metavar="N", help=seed)
    parser.add_argument("--dataset", metavar="NAME", help="data set of the study (default: the first)")


def add_system(parser: Any, *, several: bool = False) -> None:
    """Add the options that choose a trained system, or several: of a study, or the folder of an export."""
    where = parser.add_mutually_exclusive_group()
    add_study_option(where)
    folder = f"folder of `phrasemt export`, in place of a study{'; may be repeated' if several else ''}"
    where.add_argument("--model", type=Path, action="append" if several else None, metavar="FOLDER", help=folder)
    add_training(parser, several=several)


def add_cores(parser: Any) -> None:
    """Add the option --cores."""
    here = len(os.sched_getaffinity(0))
    kind = in_range(int, 1, here, because="the cores that this process may use")
    parser.add_argument("--cores", type=kind, default=here, metavar="N", help="cores to use (default: all)")


def system_files(options: argparse.Namespace) -> list[TrainedSystem]:
    """The settings and files of the systems that the options of `add_system` choose.

    Raises the errors of `chosen_trainings`, `TrainedSystem.of_study` and `read_model_folder`, and PhrasemtError for
    options without effect.
    """
    if options.model is None:
        return [training.files() for training in chosen_trainings(options)]
    folders = _listed(options.model)
    for name in ("system", "seed", "dataset"):
        if getattr(options, name) is not None:
            what = f"an exported folder contains one system, so --{name} has no effect"
            raise PhrasemtError(what, where=folders[0], next_step="leave it out")
    return [read_model_folder(folder) for folder in folders]


def chosen_trainings(options: argparse.Namespace) -> list[ChosenTraining]:
    """The trainings of all systems of the command line with all its seeds; without a seed the first of each system.

    Raises PhrasemtError for a study, system or seed that is not there.
    """
    study = load_study(options.study)
    dataset = choose("data set", options.dataset, list(study.datasets))
    chosen = []
    for system in (chosen_system(study, name) for name in _listed(options.system)):
        known = study.seeds_of(system)
        for seed in _listed(options.seed):
            if seed is not None and seed not in known:
                expected = f"one of {', '.join(map(str, known))}"
                raise PhrasemtError("no such seed", where=f"--seed {seed}", expected=expected)
            chosen.append(ChosenTraining(study, dataset, system, known[0] if seed is None else seed))
    return chosen


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def chosen_system(study: Study, wanted: str | None) -> str:
    """The system that --system names, or the only one. Raises PhrasemtError for an unknown or a missing name."""
    if wanted is None and len(study.models) > 1:
        raise PhrasemtError("which system?", where="--system", expected=f"one of {', '.join(study.models)}")
    return choose("system", wanted, list(study.models))
