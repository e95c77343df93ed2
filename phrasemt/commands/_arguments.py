"""Arguments that several commands share: the study, trained systems, choices by name, numbers in a range, outputs.

None of the outputs of a command may replace what the command reads, or what a study is made of. An argument that names
an output has the type `Output`; all other paths of a command line are inputs. The command line calls `refuse_inputs`
before the command begins, so no command can forget it.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import Any

from phrasemt.artefacts.sidecar import Evidence, sidecar_path
from phrasemt.errors import PhrasemtError, did_you_mean
from phrasemt.fields import Settings
from phrasemt.files.lines import remove_leftovers
from phrasemt.stages import STAGES
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.changes import Changes, changes_among, changes_since
from phrasemt.workflow.trained_system import TrainedSystem, read_model_folder

DEFAULT_STUDY = Path("config.yaml")
FILE_OR_NAME = "study file, or name of a study in results/"
_LONGEST = 40  # characters of a wrong argument in a message


def add_study(parser: Any, *, by_name: bool = False) -> None:
    """Add STUDY, the first argument of commands about a study, which is also the option --study of all commands.

    by_name: the name of a study will do.
    """
    parser.add_argument(
        "study",
        nargs="?",
        type=Path,
        action=_Given,
        default=DEFAULT_STUDY,
        metavar="STUDY",
        help=f"{FILE_OR_NAME if by_name else 'study file'} (default: %(default)s)",
    )
    parser.add_argument("--study", type=Path, default=argparse.SUPPRESS, metavar="STUDY", help="the same, as an option")


class _Given(argparse.Action):
    """Stores an argument that is given. Without it, argparse would store the default over the option's value."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if values is not self.default:
            setattr(namespace, self.dest, values)


def add_study_option(parser: Any) -> None:
    """Add --study, for commands whose first argument is something else."""
    parser.add_argument(
        "--study", type=Path, default=DEFAULT_STUDY, metavar="STUDY", help="study file (default: %(default)s)"
    )


def add_dataset(parser: Any) -> None:
    parser.add_argument("--dataset", metavar="NAME", help="data set of the study (default: the first)")


def add_json(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_profile(parser: Any) -> None:
    """Add the option --profile, for commands that ask Snakemake."""
    parser.add_argument(
        "--profile", default="profiles/local", metavar="FOLDER", help="profile of Snakemake (default: %(default)s)"
    )


def study_name(study: Path) -> str:
    """Return the name of a study. study: its file, whose name has a suffix, or its name."""
    return load_study(study).study if study.suffix else str(study)


def finished_file(path: str | Path, what: str, study: Path) -> Path:
    """A file that a run of the study makes.

    Raises PhrasemtError, which says `what`, if it is not there yet, and DamagedFileError as `Evidence.check`.
    """
    if not Path(path).is_file():
        next_step = f"phrasemt run {study if study.suffix else 'STUDY'}"
        raise PhrasemtError(what, where=path, found="no such file", next_step=next_step)
    return as_written(path)


def as_written(path: str | Path) -> Path:
    """A file of a study. Raises DamagedFileError if a stage wrote it and it is another one now."""
    Evidence().check(Path(path))
    return Path(path)


def refuse_changes(study: Study, files: Iterable[str | Path]) -> None:
    """Raise MismatchError if the study would make these files otherwise now."""
    changes_among(study, {str(path): sidecar_path(path) for path in files}).refuse()


def changes_of(study: Path) -> Changes:
    """What has changed since the results of a study were made; none for a name, which has no settings to compare."""
    return changes_since(load_study(study)) if study.suffix else Changes(str(study))


def print_changes(changes: Changes) -> None:
    """Print one line if the results of a study were made with other settings."""
    if changes.line is not None:
        print(changes.line)


def chosen_dataset(options: argparse.Namespace) -> tuple[Study, str]:
    """Return the study and the name of a data set in it. Raises PhrasemtError when one of them does not exist."""
    study = load_study(options.study)
    return study, choose("data set", options.dataset, list(study.datasets))


def choose(kind: str, wanted: str | None, known: list[str]) -> str:
    """Return `wanted`, or the first known name for None. Raises PhrasemtError for an unknown name."""
    if wanted is not None and wanted not in known:
        near = did_you_mean(wanted, known)
        raise PhrasemtError(f"no such {kind}", where=wanted, expected=f"one of {', '.join(known)}{near}")
    return wanted or known[0]


def in_range(
    kind: type[int] | type[float], low: float, high: float = math.inf, *, because: str = ""
) -> Callable[[str], float]:
    """Return a function for `add_argument(type=...)`, which reads a finite number from `low` to `high`.

    because: the reason for the highest number, for the message.
    """

    def read(text: str) -> float:
        try:
            found = kind(text)
        except ValueError:
            found = math.nan
        if not low <= found <= high or found == math.inf:
            what = "whole number" if kind is int else "number"
            limit = "" if math.isinf(high) else f" to {high:.10g}"
            reason = f", {because}" if because else ""
            given = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
            raise argparse.ArgumentTypeError(f"expected a {what} from {low:.10g}{limit}{reason}, found {given!r}")
        return found

    return read


class Output(PosixPath):
    """A file that a command writes."""


def refuse_inputs(options: argparse.Namespace) -> None:
    """Raise PhrasemtError if a file that a command would write is there and must not be replaced.

    Removes what a killed command has left of its outputs.

    It must not when the command reads it, under whatever name or link. Only stages replace files that a stage wrote, or
    that the study of the command line names.
    """
    values = [
        argument for value in vars(options).values() for argument in (value if isinstance(value, list) else [value])
    ]
    for path in values:
        if isinstance(path, Output):
            remove_leftovers(path)
    outputs = [path for path in values if isinstance(path, Output) and path.is_file()]
    inputs = [path for path in values if isinstance(path, Path) and not isinstance(path, Output)]
    for output in outputs:
        if any(_is_in(output, path) for path in inputs) or _is_standard_input(output):
            what = "the output would replace what is read"
        elif options.command not in STAGES and sidecar_path(output).is_file():
            what = "the output would replace a file that a stage of a study wrote"
        elif options.command not in STAGES and any(_is_in(output, path) for path in _named(inputs)):
            what = "the output would replace a file that the study names"
        else:
            continue
        raise PhrasemtError(what, where=output, next_step="name another output")


def _is_in(output: Path, place: Path) -> bool:
    """Whether an output is this file, or lies in this folder."""
    if place.is_file():
        return output.samefile(place)
    return place.is_dir() and output.resolve().is_relative_to(place.resolve())


def _is_standard_input(output: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(0), output.stat())
    except OSError:  # closed
        return False


def _named(inputs: list[Path]) -> Iterator[Path]:
    """The files and folders that the studies among the inputs name."""
    for path in inputs:
        if path.suffix == ".yaml" and path.is_file():
            with contextlib.suppress(PhrasemtError):  # the command itself says what is wrong with it
                yield from named_paths(load_study(path))


def named_paths(settings: object) -> Iterator[Path]:
    """Files and folders that a study, or a part of one, names by their paths."""
    parts: Iterable[object] = ()
    if isinstance(settings, Path):
        yield settings
    elif isinstance(settings, Settings):
        parts = (value for _, value in settings)
    elif isinstance(settings, Mapping):
        parts = settings.values()
    elif isinstance(settings, list | tuple):
        parts = settings
    for part in parts:
        yield from named_paths(part)


@dataclass(frozen=True)
class ChosenTraining:
    """One training of a study."""

    study: Study
    dataset: str
    system: str
    seed: int

    def files(self) -> TrainedSystem:
        """The settings and files of the trained system. Raises the errors of `of_study` and `refuse_changes`."""
        system = TrainedSystem.of_study(self.study, self.dataset, self.system, self.seed)
        refuse_changes(self.study, system.files.values())
        return system


def add_training(parser: Any, *, several: bool = False, study: bool = True) -> None:
    """Add the options that choose a training of a study. several: --system and --seed may be repeated.

    study: --study, too.
    """
    if study:
        add_study_option(parser)
    how = {"action": "append"} if several else {}
    repeated = "; may be repeated, for an ensemble" if several else ""
    parser.add_argument("--system", **how, metavar="NAME", help=f"system of the study{repeated}")
    seed = f"seed of its training (default: the first of the system){repeated}"
    parser.add_argument("--seed", type=in_range(int, 0), **how, metavar="N", help=seed)
    add_dataset(parser)


def add_system(parser: Any, *, several: bool = False) -> None:
    """Add the options that choose a trained system, or several: of a study, or the folder of an export."""
    where = parser.add_mutually_exclusive_group()
    add_study_option(where)
    folder = f"folder of `phrasemt export`, in place of a study{'; may be repeated' if several else ''}"
    where.add_argument("--model", type=Path, action="append" if several else None, metavar="FOLDER", help=folder)
    add_training(parser, several=several, study=False)


def add_cores(parser: Any) -> None:
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
    study, dataset = chosen_dataset(options)
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
