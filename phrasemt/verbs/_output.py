"""Outputs of commands: none may replace what the command reads, or what a study is made of.

An argument that names an output has the type `Output`; all other paths of a command line are inputs. The command line
calls `refuse_inputs` before the command begins, so no command can forget it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PosixPath

from phrasemt.artefacts.sidecar import sidecar_path
from phrasemt.errors import PhrasemtError
from phrasemt.files.continued import parts_of
from phrasemt.stages import STAGES
from phrasemt.study.reading import load_study


class Output(PosixPath):
    """A file that a command writes."""


def refuse_inputs(options: argparse.Namespace) -> None:
    """Raise PhrasemtError if a file that a command would write is there and must not be replaced.

    It must not when the command reads it, under whatever name or link; and no verb replaces a file that a stage wrote,
    or that the study of its command line names.
    """
    values = [one for value in vars(options).values() for one in (value if isinstance(value, list) else [value])]
    outputs = [name for path in values if isinstance(path, Output) for name in (path, *parts_of(path))]
    outputs = [path for path in outputs if path.is_file()]
    inputs = [path for path in values if isinstance(path, Path) and not isinstance(path, Output)]
    for output in outputs:
        if any(_is_in(output, path) for path in inputs) or _is_standard_input(output):
            what = "the output would replace what is read"
        elif options.verb not in STAGES and sidecar_path(output).is_file():
            what = "the output would replace a file that a stage of a study wrote"
        elif options.verb not in STAGES and any(_is_in(output, path) for path in _named(inputs)):
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
    from phrasemt.runs.garbage import named_paths  # imports libraries, and few outputs are there already

    for path in inputs:
        if path.suffix == ".yaml" and path.is_file():
            with contextlib.suppress(PhrasemtError):  # the command itself says what is wrong with it
                yield from named_paths(load_study(path))
