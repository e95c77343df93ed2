"""What a table is made of: blocks of rows of cells, each with the files that its number comes from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel

from phrasemt.errors import DataError, MismatchError
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.scoring.scores import read_artefact
from phrasemt.scoring.significance import PValues
from phrasemt.settings import TableSettings

DIFFERENCE = "Δ"


class Source(Settings):
    """A file that a number was computed from."""

    path: str
    sha256: str


Artefact = TypeVar("Artefact", bound=BaseModel)
Part = TypeVar("Part", bound=BaseModel)
Key = tuple[str | int, ...]
Grid = dict[Key, tuple[Source, Part]]


class Cell(Settings):
    """A number of the table. value: unrounded; text: as printed; low, high: 95 % interval of a difference."""

    value: float
    text: str
    mark: str = ""
    signature: str
    sources: list[Source]
    by_seed: dict[int, float] | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    p_values: PValues | None = None


class Column(Settings):
    """key: of the cells in the rows; meaning: one line for the legend, empty where the heading says it."""

    key: str
    heading: str
    meaning: str = ""


class Row(Settings):
    """A system, or with an empty name what no system is needed for. The baseline has no cells for differences."""

    system: str
    title: str
    cells: dict[str, Cell]

    def printed(self, column: Column) -> str:
        """What stands in a column: the number with its mark, nothing for a difference of the baseline."""
        return self.cells[column.key].text + self.cells[column.key].mark if column.key in self.cells else ""


class Block(Settings):
    """Rows about one test set, or about the contrastive pairs of a data set (no test_set). size: sentences or pairs."""

    kind: Literal["scores", "perplexity", "chunks", "contrasts"]
    dataset: str
    test_set: str | None = None
    size: int
    columns: list[Column]
    rows: list[Row]
    notes: list[str]

    @property
    def name(self) -> str:
        """Of labels and links: no other block of the table has it."""
        return "-".join(filter(None, (self.kind, self.dataset, self.test_set)))

    @property
    def heading(self) -> str:
        if self.test_set is None:
            return f"{self.dataset}, {self.size:,} contrastive pairs"
        what = "" if self.kind == "scores" else f", {self.kind}"
        return f"{self.dataset}, {self.test_set}{what} ({self.size:,} sentences)"


class Table(Settings):
    """The file table.json. systems: name and title, in the order of the study."""

    format: Literal[1]
    study: str
    title: str
    baseline: str
    systems: list[tuple[str, str]]
    seeds: list[int]
    blocks: list[Block]
    signatures: list[str]
    command: str

    @property
    def notes(self) -> list[str]:
        """The notes of all blocks, each once."""
        return list(dict.fromkeys(note for block in self.blocks for note in block.notes))


def read_grid(
    what: str,
    paths: Sequence[Path],
    model: type[Artefact],
    parts: Callable[[Artefact], Mapping[Key, Part]],
    needed: Sequence[Key],
) -> Grid[Part]:
    """The parts of the files by their place in the grid, with the file; each place has exactly one.

    Raises DataError for a hole in the grid, naming it, and MismatchError for a file that does not belong to it.
    """
    found: Grid[Part] = {}
    for path in paths:
        source = Source(path=str(path), sha256=digest_file(path))
        for place, part in parts(read_artefact(path, model)).items():
            problem = f"second {what} for" if place in found else f"{what} that the table has no place for:"
            if place in found or place not in needed:
                raise MismatchError(
                    f"{problem} {' '.join(map(str, place))}", where=path, next_step="give each file of the study once"
                )
            found[place] = source, part
    if missing := [place for place in needed if place not in found]:
        raise DataError(
            f"the table would have a hole: no {what} for {' '.join(map(str, missing[0]))}",
            expected=len(needed),
            found=len(found),
            next_step="run the workflow again; it makes what is missing",
        )
    return found


def of_test_set(grid: Grid[Part], test_set: tuple[str, str]) -> Grid[Part]:
    """What is about a test set, by system and seed."""
    return {place[2:]: entry for place, entry in grid.items() if place[:2] == test_set}


def check_equal(test_set: str, grid: Grid[Part], about: Callable[[Part], dict[str, int]]) -> None:
    """Checks that numbers stand side by side which are about the same.

    Raises MismatchError naming the first file that is about something else than the first one.
    """
    (first_source, first), *others = grid.values()
    for source, part in others:
        if about(part) != about(first):
            raise MismatchError(
                f"{test_set} cannot be compared with {first_source.path}",
                where=source.path,
                expected=about(first),
                found=about(part),
                next_step="score all systems on the same test set",
            )


def mean_cell(by_seed: dict[int, float], *, signature: str, sources: Sequence[Source], decimals: int = 2) -> Cell:
    """The mean over seeds with its standard deviation, where there are several."""
    values = list(by_seed.values())
    deviation = statistics.stdev(values) if len(values) > 1 else None
    value = math.fsum(values) / len(values)
    spread = "" if deviation is None else f" ± {deviation:.{decimals}f}"
    return Cell(
        value=value,
        text=f"{value:.{decimals}f}{spread}",
        signature=signature,
        sources=list(sources),
        by_seed=by_seed,
        deviation=deviation,
    )


def note_on_seeds(settings: TableSettings) -> str:
    seeds = ", ".join(map(str, settings.seeds))
    if len(settings.seeds) == 1:
        return f"One training per system (seed {seeds}): how much trainings differ from each other is not measured."
    return f"Mean ± sample standard deviation over {len(settings.seeds)} trainings per system (seeds {seeds})."
