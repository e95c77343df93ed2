"""Every figure that a paper prints, with its convention (data: one YAML file for each paper, beside this module).

A row of a table lists its cells by column. `phrasemt papers` lists the figures. A system of a study stands for rows
(`stands_for: xu2020/table-2/max`), a data set for the data of a paper (`stands_for: xu2020/en-de`).
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from phrasemt.errors import DataError, check_equal, did_you_mean
from phrasemt.fields import Language, Name, Number, Settings, Title, refuse
from phrasemt.files.yaml import parse_yaml

FOLDER = Path(__file__).parent
LEDGER = FOLDER / "claims.md"  # docs/claims.md, which an installation without a clone lacks
Value = Annotated[float, Number()]
_Item = TypeVar("_Item")


class PaperText(Settings):
    """A part of a registered corpus."""

    corpus: Name
    part: Name


class PaperData(Settings):
    """A data set of a paper. train: its training texts in the registry; None if some of them are not in it.

    test_sets: the texts of each test set in the registry, one after the other; None for a test set that is not in
    the registry. A study that has the texts names its test set likewise. source_language: None for a language model.
    references: of each sentence of the test sets.
    """

    about: Title
    source_language: Language | None = None
    target_language: Language
    train: list[PaperText] | None = None
    test_sets: dict[Name, list[PaperText] | None] = Field(min_length=1)
    references: Annotated[int, Field(gt=0), Number(at_most=16, because="no test set has so many")] = 1


class Counterpart(Settings):
    """Where our own figure stands: the kind of block and the column of the results table."""

    kind: Literal["scores", "perplexity", "chunks"]
    column: Name


class Measure(Settings):
    """What a figure measures. tolerance: the largest gap that counts as reproduced, whatever the interval.

    margin: up to which two systems count as equal, half of the largest gain that the paper prints.
    ours: None if the results table has no such column. symbols: of each vocabulary, for counts of parameters. question:
    what raters answer (phrasemt/scoring/ratings.py).
    """

    convention: Title
    better: Literal["higher", "lower"] = "higher"
    decimals: Annotated[int, Field(ge=0, le=4), Number()] = 2
    tolerance: Annotated[float, Field(gt=0), Number()] | None = None
    margin: Annotated[float, Field(gt=0), Number()] | None = None
    ours: Counterpart | None = None
    symbols: Annotated[int, Field(gt=0), Number()] | None = None
    question: Name | None = None

    @model_validator(mode="after")
    def _compared_with_a_tolerance(self) -> Measure:
        if (self.ours is None) != (self.tolerance is None):
            raise ValueError("ours and tolerance belong together")
        return self


class PaperColumn(Settings):
    """A column. test_sets: the figure is the mean over them; none: the figure is about no whole test set.

    difference_to: the figure is the difference to this row. note: of all cells of the column.
    """

    heading: Title
    measure: Name
    data: Name | None = None
    test_sets: list[Name] = Field(default_factory=list)
    difference_to: Name | None = None
    note: Name | None = None


class PrintedCell(Settings):
    """A printed figure; null: the cell is empty in the paper. high: the end of a range that begins at the value.

    significant: the p-value below which the paper calls the difference significant. test_sets: if they are others than
    those of the column.
    """

    value: Value | None
    high: Value | None = None
    significant: Annotated[float, Field(gt=0, lt=1), Number()] | None = None
    note: Name | None = None
    test_sets: list[Name] | None = None


def _as_cell(value: Any) -> Any:
    return value if isinstance(value, dict) else {"value": value}


class PaperRow(Settings):
    """A row: a system of the paper. baseline: the row that the paper compares it with, if not that of the table.

    A baseline in another table is written `table/row`. preset, model: the system at the size of the paper, for costs.
    """

    title: Title
    baseline: str | None = None
    preset: Name | None = None
    model: dict[Name, Any] = Field(default_factory=dict)
    cells: dict[Name, Annotated[PrintedCell, BeforeValidator(_as_cell)]] = Field(default_factory=dict)


class PaperTable(Settings):
    """A table, or the figures that a figure or a text states. baseline: the row that the others are compared with."""

    caption: Title
    baseline: Name | None = None
    columns: dict[Name, PaperColumn] = Field(default_factory=dict)
    rows: dict[Name, PaperRow] = Field(min_length=1)


class Paper(Settings):
    """A paper with all of its figures. notes: discrepancies and open points by name (X16: docs/decisions.md)."""

    paper: Name
    authors: Title
    title: Title
    venue: Title
    data: dict[Name, PaperData] = Field(min_length=1)
    measures: dict[Name, Measure] = Field(min_length=1)
    notes: dict[Name, Title] = Field(default_factory=dict)
    tables: dict[Name, PaperTable] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_all_that_it_names(self) -> Paper:
        refuse(dict.fromkeys(self._missing_names()))
        return self

    def _missing_names(self) -> Iterator[str]:
        rows = {f"{name}/{row}" for name, table in self.tables.items() for row in table.rows}
        for name, table in self.tables.items():
            # What each name names, the name, and what there is.
            asked: list[tuple[str, str | None, Collection[str]]] = [("row", table.baseline, table.rows)]
            for column in table.columns.values():
                data = self.data.get(column.data or "")
                sets = data.test_sets if data else {}
                asked += [("measure", column.measure, self.measures), ("data", column.data, self.data)]
                asked += [("row", column.difference_to, table.rows), ("note", column.note, self.notes)]
                asked += [("test set", one, sets) for one in column.test_sets]
            for row in table.rows.values():
                asked.append(("row", row.baseline, rows if "/" in (row.baseline or "") else table.rows))
                asked += [("column", column, table.columns) for column in row.cells]
                asked += [("note", cell.note, self.notes) for cell in row.cells.values()]
            for kind, wanted, known in asked:
                if wanted is not None and wanted not in known:
                    yield f"tables.{name}: no such {kind}: {wanted}; there are: {', '.join(sorted(known)) or 'none'}"


def printed_mark(significant: float | None) -> str:
    """The mark of a p-value below which a paper calls a figure significant, as in our tables."""
    return "" if significant is None else "‡" if significant <= 0.01 else "†"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A printed figure with all that belongs to it. table, row, column: names in the file of the paper."""

    paper: Paper
    table: str
    row: str
    column: str
    of_table: PaperTable
    of_row: PaperRow
    of_column: PaperColumn
    cell: PrintedCell
    measure: Measure
    data: PaperData | None
    test_sets: list[str]

    @property
    def place(self) -> str:
        """The place of the row, `paper/table/row`."""
        return f"{self.paper.paper}/{self.table}/{self.row}"

    @property
    def printed_text(self) -> str:
        """The figure as it is printed; differences have a sign, and significant ones a mark."""
        sign = "+" if self.of_column.difference_to else ""
        text = f"{self.cell.value:{sign}.{self.measure.decimals}f}"
        if self.cell.high is not None:
            text += f" to {self.cell.high:.{self.measure.decimals}f}"
        return text + printed_mark(self.cell.significant)

    @property
    def notes(self) -> list[str]:
        return [self.paper.notes[name] for name in (self.cell.note, self.of_column.note) if name is not None]

    def difference_to(self, row: str) -> float | None:
        """The figure minus that of another row; None if one of them is not printed or covers other test sets.

        A figure that is itself the difference to that row is returned.
        """
        if self.of_column.difference_to == row:
            return self.cell.value
        other = self.of_table.rows[row].cells.get(self.column)
        if other is None or other.value is None or self.cell.value is None or other.test_sets != self.cell.test_sets:
            return None
        return self.cell.value - other.value


def file_of(paper: str) -> Path:
    """The file of the figures of a paper."""
    return FOLDER / f"{paper}.yaml"


@functools.cache
def load_papers() -> dict[str, Paper]:
    """The papers by name, in the order of their names. Raises DataError for a file with mistakes."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.yaml"))}


def _read(path: Path) -> Paper:
    try:
        paper = Paper.model_validate(parse_yaml(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        found = "; ".join(".".join(map(str, (*one["loc"], ""))) + f" {one['msg']}" for one in error.errors())
        raise DataError("the file of a paper has mistakes", where=path, found=found) from error
    except ValueError as error:
        raise DataError("the file of a paper is no YAML", where=path, found=str(error)) from error
    what, next_step = "the file has another name than the paper", "rename the file, or change `paper`"
    check_equal(path.stem, paper.paper, what, where=path, next_step=next_step)
    return paper


def paper_named(name: str) -> Paper:
    """The paper of this name. Raises DataError, which names the nearest one, for an unknown name."""
    return _known("paper", name, load_papers())


def figures(paper: Paper) -> Iterator[Figure]:
    for table_name, table in paper.tables.items():
        for row in table.rows:
            yield from figures_of_row(paper, table_name, row)


def figures_of_row(paper: Paper, table: str, row: str) -> Iterator[Figure]:
    """The printed figures of a row, in the order of the columns; empty cells are left out."""
    of_table = paper.tables[table]
    of_row = of_table.rows[row]
    for name, column in of_table.columns.items():
        cell = of_row.cells.get(name)
        if cell is not None and cell.value is not None:
            yield Figure(
                paper=paper,
                table=table,
                row=row,
                column=name,
                of_table=of_table,
                of_row=of_row,
                of_column=column,
                cell=cell,
                measure=paper.measures[column.measure],
                data=None if column.data is None else paper.data[column.data],
                test_sets=column.test_sets if cell.test_sets is None else cell.test_sets,
            )


def figure_at(place: str, column: str) -> Figure:
    """The printed figure in a column of the row at a place. Raises DataError for a place that no paper has."""
    (figure,) = (one for one in figures_of_row(*row_at(place)) if one.column == column)
    return figure


def row_at(place: str) -> tuple[Paper, str, str]:
    """Paper, table and row of a place such as `xu2020/table-2/max`.

    Raises DataError, which names the nearest place, for a place that no paper has.
    """
    known = {
        f"{paper.paper}/{name}/{row}": (paper, name, row)
        for paper in load_papers().values()
        for name, table in paper.tables.items()
        for row in table.rows
    }
    return _known("row of a paper", place, known)


def baseline_place(place: str) -> str | None:
    """The place of the row that a paper compares the row at a place with, such as `xu2020/table-2/base`, if any.

    Raises DataError for a place that no paper has.
    """
    paper, table_name, row = row_at(place)
    table = paper.tables[table_name]
    baseline = table.rows[row].baseline or table.baseline
    if baseline is None:
        return None
    return f"{paper.paper}/{baseline}" if "/" in baseline else f"{paper.paper}/{table_name}/{baseline}"


def data_at(place: str) -> PaperData:
    """The data set at a place such as `xu2020/en-de`. Raises DataError, which names the nearest place, for others."""
    known = {f"{paper.paper}/{name}": data for paper in load_papers().values() for name, data in paper.data.items()}
    return _known("data set of a paper", place, known)


def _known(kind: str, name: str, known: Mapping[str, _Item]) -> _Item:
    if name not in known:
        found, next_step = f"{name!r}{did_you_mean(name, known, cutoff=0.5)}", "run `phrasemt papers` to list them"
        raise DataError(f"no such {kind}", found=found, next_step=next_step)
    return known[name]
