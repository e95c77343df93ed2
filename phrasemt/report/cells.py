"""The parts of the results table: blocks, rows and cells. A cell names the files that its number comes from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel

from phrasemt.errors import DataError, MismatchError
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.scoring.scores import read_artefact
from phrasemt.scoring.significance import PValues
from phrasemt.stages.report import MakeTable
from phrasemt.study.claims import Claim

DIFFERENCE = "Δ"
Verdict = Literal["reproduced", "within noise", "not reproduced", "other data", "not run"]


class ScoreSource(Settings):
    """A file that a number was computed from."""

    path: str
    sha256: str


Artefact = TypeVar("Artefact", bound=BaseModel)
Part = TypeVar("Part", bound=BaseModel)
Key = tuple[str | int, ...]
Grid = dict[Key, tuple[ScoreSource, Part]]


class Cell(Settings):
    """A number of the table.

    value: unrounded. text: as printed. mark: of significance. signature: the convention of the score.
    by_seed, deviation: of a mean, the values and their sample standard deviation.
    low, high: 95 % interval, of scores and of differences. Of a difference, p_values: of all tests; p_value: corrected
    for the number of systems, the mark shows it; seeds_needed: trainings that would show it (`OverSeeds`).
    decimals: with which the number and its interval are printed.
    """

    value: float
    text: str
    decimals: int = 2
    mark: str = ""
    signature: str
    sources: list[ScoreSource]
    by_seed: dict[int, float] | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    p_values: PValues | None = None
    p_value: float | None = None
    seeds_needed: int | None = None

    def interval(self, sign: str = "") -> str:
        """The 95 % interval as it is printed, empty if there is none. sign: `+` for a difference."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.low:{sign}.{self.decimals}f} to {self.high:{sign}.{self.decimals}f}"


class Column(Settings):
    """A column of a block. key: of its cells in each row. meaning: line of the legend, empty if none is needed."""

    key: str
    heading: str
    meaning: str = ""


class Row(Settings):
    """A row of a block. system: empty for a row that is not about a system. Rows may lack cells of some columns."""

    system: str
    title: str
    cells: dict[str, Cell]

    def printed(self, column: Column) -> str:
        """Return the text of a column: the number with its mark, or nothing for a missing cell."""
        return self.cells[column.key].text + self.cells[column.key].mark if column.key in self.cells else ""


class Block(Settings):
    """Rows about a test set, about a set of contrastive pairs, or about averaged weights on dev.

    Contrastive pairs have a contrast_set and no test_set. kind: `mistakes` for the pairs of a set by kind of mistake,
    `contrasts` by distance. mistake: the kind, if the block is about one of several. size: of sentences or pairs.
    """

    kind: Literal["scores", "perplexity", "chunks", "mistakes", "contrasts", "averages", "length penalty"]
    dataset: str
    test_set: str | None = None
    contrast_set: str | None = None
    mistake: str | None = None
    size: int
    columns: list[Column]
    rows: list[Row]
    notes: list[str]

    @property
    def name(self) -> str:
        """Name for labels and links, unique in the table."""
        return "-".join(filter(None, (self.kind, self.dataset, self.test_set, self.contrast_set, self.mistake)))

    @property
    def heading(self) -> str:
        if self.test_set is None:
            place = ", ".join(filter(None, (self.dataset, self.contrast_set, self.mistake)))
            return f"{place}, {self.size:,} contrastive pairs"
        what = "" if self.kind == "scores" else f", {self.kind}"
        return f"{self.dataset}, {self.test_set}{what} ({self.size:,} sentences)"


class ScorecardEntry(Claim):
    """A printed figure (`Claim`) beside ours.

    title: of the system. ours: our figure on the test sets, with its interval; None if the study lacks it. difference:
    ours to our baseline. gap: ours minus printed, on the data of the paper only. finding: what is known on other data,
    or why nothing is.
    """

    title: str
    ours: Cell | None = None
    difference: Cell | None = None
    gap: float | None = None
    verdict: Verdict
    finding: str

    @property
    def printed_text(self) -> str:
        """The figure as the paper prints it."""
        return f"{self.printed:{'+' if self.is_difference else ''}.{self.decimals}f}"


class Scorecard(Settings):
    """The figures of the papers beside ours (phrasemt/report/scorecard.py).

    footnotes: the notes of all entries, each once: discrepancies in the papers.
    """

    entries: list[ScorecardEntry]
    footnotes: list[str]
    note: str


class Table(Settings):
    """The content of table.json. systems: name and title, in the order of the study. trained: the seeds of each system
    that was trained. seeds: of the study. baseline: of the study. baselines: of each other system, what its differences
    are to.

    scorecard: None if no system stands for a row of a paper.
    """

    format: Literal[2]
    study: str
    title: str
    baseline: str
    baselines: dict[str, str]
    systems: list[tuple[str, str]]
    trained: dict[str, list[int]]
    seeds: list[int]
    scorecard: Scorecard | None = None
    blocks: list[Block]
    signatures: list[str]
    command: str

    @property
    def datasets(self) -> list[str]:
        """The data sets of all blocks, each once."""
        return list(dict.fromkeys(block.dataset for block in self.blocks))

    @property
    def notes(self) -> list[str]:
        """The notes of all blocks, each once."""
        return list(dict.fromkeys(note for block in self.blocks for note in block.notes))


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
        source = ScoreSource(path=str(path), sha256=digest_file(path))
        for place, part in parts(read_artefact(path, model)).items():
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


def mean_cell(by_seed: dict[int, float], *, signature: str, sources: Sequence[ScoreSource], decimals: int = 2) -> Cell:
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
