"""The parts of the results table: blocks, rows and cells. A cell names the files that its number comes from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Block, BlockKind, Cell, Column, Row
from phrasemt.errors import DataError, MismatchError, check_equal
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
    parts: Callable[[Any], Mapping[Key, Part]],
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


@dataclass(frozen=True, kw_only=True)
class Runs(Generic[Part]):
    """The parts of the score files of one system on one test set, by seed, and these files."""

    parts: Mapping[int, Part]
    sources: Sequence[DigestedFile]

    @property
    def first(self) -> Part:
        """The part of the first seed."""
        return next(iter(self.parts.values()))

    def mean(self, value: Callable[[Part], float], signature: str, *, decimals: int = 2) -> Cell:
        """The cell of the mean of a value."""
        by_seed = {seed: value(part) for seed, part in self.parts.items()}
        return mean_cell(by_seed, signature=signature, sources=self.sources, decimals=decimals)


def runs_in(grid: Grid[Part], system: str, settings: MakeTable) -> Runs[Part]:
    """The runs of a system in a grid whose places end with system and seed."""
    entries = {seed: grid[system, seed] for seed in settings.seeds_of[system]}
    parts = {seed: part for seed, (_, part) in entries.items()}
    return Runs(parts=parts, sources=[source for source, _ in entries.values()])


def make_blocks(
    settings: MakeTable,
    kind: BlockKind,
    what: str,
    paths: Sequence[Path],
    model: type[Artefact],
    systems: Sequence[str],
    *,
    places: Sequence[tuple[str, str]],
    columns: Sequence[Column],
    cells: Callable[[Runs[Any]], dict[str, Cell]],
    sizes: Sequence[str] = ("sentences",),
    note: str,
) -> Iterator[tuple[Block, dict[str, Runs[Any]]]]:
    """Yield a block with a row for each of these systems, and their runs, for each place: data set and test set or dev.

    what, paths, model: as of `read_grid`; the parts of a file are its `by_place`. cells: those of a row, some columns
    may be missing. sizes: fields that all parts of a place must agree on, sentences first. Raises the errors of
    `read_grid`, and MismatchError naming the first file with other sizes.
    """
    needed = [(*place, *run) for place in places for run in runs_of(settings, systems)]
    grid = read_grid(what, paths, model, lambda file: file.by_place, needed)
    titles = dict(settings.systems)
    for place in places if systems else ():
        chosen = select_test_set(grid, place)
        runs, rows = {}, []
        for system in systems:
            runs[system] = runs_in(chosen, system, settings)
            found = cells(runs[system])
            in_order = {column.key: found[column.key] for column in columns if column.key in found}
            rows.append(Row(system=system, title=titles[system], cells=in_order))
        size = _common_size(place[1], chosen, sizes)
        block = Block(
            kind=kind,
            dataset=place[0],
            test_set=place[1],
            size=size,
            columns=[column for column in columns if any(column.key in row.cells for row in rows)],
            rows=rows,
            notes=[note_on_seeds(settings), note],
        )
        yield block, runs


def _common_size(test_set: str, grid: Grid[Any], names: Sequence[str]) -> int:
    """The first of the sizes, which all parts have. Raises MismatchError naming the first file that differs."""
    sizes = [(source.path, {name: getattr(part, name) for name in names}) for source, part in grid.values()]
    first_path, first = sizes[0]
    what, next_step = f"{test_set} cannot be compared with {first_path}", "score all systems on the same test set"
    for path, found in sizes:
        check_equal(first, found, what, where=path, next_step=next_step)
    return int(first[names[0]])


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


def dev_bleu_signature(tokenizer: str) -> str:
    """The beginning of the signature of dev BLEU. tokenizer: sacreBLEU's; with 13a, BLEU is computed on tokens."""
    tokens, smoothing = ("none", "none") if tokenizer == "13a" else (tokenizer, "exp")
    return f"BLEU|case:mixed|tok:{tokens}|smooth:{smoothing}"


def note_on_seeds(settings: MakeTable) -> str:
    """Return the note that says which trainings stand behind the numbers of the study."""
    if len(settings.seeds) == 1:
        return f"One training per system (seed {settings.seeds[0]}). The variation between trainings was not measured."
    seeds = ", ".join(map(str, settings.seeds))
    note = f"Mean ± sample standard deviation over {len(settings.seeds)} trainings per system (seeds {seeds})."
    others = {*settings.outside, *settings.unseeded}
    numbers = {system: len(of_system) for system, of_system in settings.seeds_of.items() if system not in others}
    fewer = [
        f"{title} ({numbers[name]})"
        for name, title in settings.systems
        if numbers.get(name, len(settings.seeds)) < len(settings.seeds)
    ]
    return f"{note} Fewer trainings, of the first seeds: {', '.join(fewer)}." if fewer else note
