"""The parts of the results table: blocks, rows and cells. A cell names the files that its number comes from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Cell
from phrasemt.errors import DataError, MismatchError
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.stages.report import MakeTable

Artefact = TypeVar("Artefact", bound=JsonFile)
Part = TypeVar("Part", bound=Settings)
Key = tuple[str | int, ...]
Grid = dict[Key, tuple[DigestedFile, Part]]


def runs_of(settings: MakeTable, systems: Iterable[str]) -> list[tuple[str, int]]:
    """Each of these systems with each of its seeds."""
    return [(system, seed) for system in systems for seed in settings.seeds_of[system]]


def read_grid(
    what: str,
    paths: Sequence[Path],
    model: type[Artefact],
    parts: Callable[[Artefact], Mapping[Key, Part]],
    needed: Sequence[Key],
) -> Grid[Part]:
    """Read score files; return each part with its file, by its place in a grid such as (test set, system, seed).

    what: the kind of score, for messages. model, parts: the type of a file, and its parts by place. needed: the places
    of the grid. Raises DataError naming a place without a part, and MismatchError for a second part of a place and for
    a part outside of the grid.
    """
    found: Grid[Part] = {}
    for path in paths:
        source = DigestedFile(path=str(path), sha256=digest_file(path))
        for place, part in parts(model.read(path)).items():
            problem = f"second {what} for" if place in found else f"{what} outside of the table:"
            if place in found or place not in needed:
                raise MismatchError(
                    f"{problem} {' '.join(map(str, place))}", where=path, next_step="give each file of the study once"
                )
            found[place] = source, part
    if missing := [place for place in needed if place not in found]:
        raise DataError(
            f"the table would be incomplete: no {what} for {' '.join(map(str, missing[0]))}",
            expected=len(needed),
            found=len(found),
            next_step="run the workflow again, which makes the missing files",
        )
    return found


def select_test_set(grid: Grid[Part], test_set: tuple[str, str]) -> Grid[Part]:
    """Return the part of a grid for a test set (data set, name), by system and seed."""
    return {place[2:]: entry for place, entry in grid.items() if place[:2] == test_set}


def check_same_size(test_set: str, grid: Grid[Part], sizes: Callable[[Part], dict[str, int]]) -> None:
    """Check that all parts were measured on equally many sentences, tokens and so on.

    Raises MismatchError naming the first file that differs from the first one.
    """
    (first_source, first), *others = grid.values()
    for source, part in others:
        if sizes(part) != sizes(first):
            raise MismatchError(
                f"{test_set} cannot be compared with {first_source.path}",
                where=source.path,
                expected=sizes(first),
                found=sizes(part),
                next_step="score all systems on the same test set",
            )


def mean_cell(by_seed: dict[int, float], *, signature: str, sources: Sequence[DigestedFile], decimals: int = 2) -> Cell:
    """Make the cell of a mean over seeds, with the standard deviation if there are several seeds."""
    values = list(by_seed.values())
    deviation = statistics.stdev(values) if len(values) > 1 else None
    value = math.fsum(values) / len(values)
    spread = "" if deviation is None else f" ± {deviation:.{decimals}f}"
    return Cell(
        value=value,
        text=f"{value:.{decimals}f}{spread}",
        decimals=decimals,
        signature=signature,
        sources=list(sources),
        by_seed=by_seed,
        deviation=deviation,
    )


def note_on_seeds(settings: MakeTable) -> str:
    """Return the note that says which trainings stand behind the numbers of the study."""
    if len(settings.seeds) == 1:
        return f"One training per system (seed {settings.seeds[0]}). The variation between trainings was not measured."
    seeds = ", ".join(map(str, settings.seeds))
    note = f"Mean ± sample standard deviation over {len(settings.seeds)} trainings per system (seeds {seeds})."
    others = {*settings.outside, *settings.ensembles, *settings.unseeded}
    numbers = {system: len(of_system) for system, of_system in settings.seeds_of.items() if system not in others}
    fewer = [
        f"{title} ({numbers[name]})"
        for name, title in settings.systems
        if numbers.get(name, len(settings.seeds)) < len(settings.seeds)
    ]
    return f"{note} Fewer trainings, of the first seeds: {', '.join(fewer)}." if fewer else note
