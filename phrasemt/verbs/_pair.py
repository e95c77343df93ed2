"""The argument SPLIT:ROW, and the place of a sentence pair in the files of its split, for verbs about one pair."""

from __future__ import annotations

import argparse
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.study.schema import Study
from phrasemt.verbs._study import add_dataset, add_study, choose, chosen_dataset, name_behind_study
from phrasemt.workflow.paths import Paths

_ROW = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A pair that cleaning kept. row: its line in the raw text; line: in the files of its split. Both count from 0."""

    study: Study
    dataset: str
    paths: Paths
    split: str
    row: int
    line: int


def add_arguments(parser: Any) -> None:
    """Add the arguments STUDY and SPLIT:ROW, and the option --dataset."""
    add_study(parser)
    help = "pair, such as test:17; rows of the raw text count from 0"
    parser.add_argument("pair", type=name_behind_study("SPLIT:ROW"), metavar="SPLIT:ROW", help=help)
    add_dataset(parser)


def chosen_pair(options: argparse.Namespace) -> Pair:
    """Return the pair that the command line names.

    Raises PhrasemtError when the pair does not exist, was dropped by cleaning, or is not prepared yet.
    """
    study, dataset = chosen_dataset(options)
    split, _, number = options.pair.partition(":")
    if not _ROW.fullmatch(number):
        raise PhrasemtError("not a pair", where=options.pair[:100], expected="SPLIT:ROW, e.g. test:17")
    split = choose("split", split, list(study.datasets[dataset].split_names))
    paths = Paths.of(study, dataset)
    examples = Path(paths.examples.at(split=split))
    if not examples.exists():
        next_step = f"snakemake --profile profiles/local --configfile {options.study}"
        raise PhrasemtError(f"{split} is not prepared yet", where=examples, found="no such file", next_step=next_step)
    line = _line_of_row(Path(paths.rows.at(split=split)), int(number))
    return Pair(study=study, dataset=dataset, paths=paths, split=split, row=int(number), line=line)


def nth(path: Path, line: int) -> str:
    """Return a line of a file. Lines count from 0. Raises DamagedFileError for a file with fewer lines."""
    found = next(itertools.islice(read_lines(path), line, None), None)
    if found is None:
        raise DamagedFileError(
            "the file has too few lines",
            where=path,
            expected=f"more than {line}",
            next_step="delete it and run the study",
        )
    return found


def damaged(path: Path, stage: str, found: str) -> DamagedFileError:
    """Return the error about a file that has not the form that its stage writes."""
    return DamagedFileError(
        f"not a file of {stage}", where=path, found=found[:200], next_step="delete it and run the study"
    )


def _line_of_row(rows: Path, row: int) -> int:
    path = rows
    try:
        for line, text in enumerate(read_lines(path)):
            if int(text) == row:
                return line
        path = Path(Sidecar.beside(rows).outputs["dropped"].path)
        dropped = DroppedPairs.read(path)
        for pair in dropped.dropped:
            if pair.row == row:
                raise PhrasemtError(
                    "clean_pairs dropped this pair", where=f"row {row}", found=f"{pair.filter} {pair.value}"
                )
        last = dropped.raw_pairs - 1
        if dropped.left_out and row <= last:
            raise PhrasemtError("the sample of this data set leaves this pair out", where=f"row {row}")
    except (ValueError, IndexError) as error:
        raise damaged(path, "clean_pairs", repr(error)) from None
    raise PhrasemtError("no such row", where=rows, expected=f"0 to {last}", found=row)
