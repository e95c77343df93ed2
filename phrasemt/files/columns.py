"""Column files: the Arrow files with lists of integers for each row of a split, which training and search read.

A file is an uncompressed Arrow IPC file with the column `row` (int64) and columns of lists (list<int32>), and a JSON
description in its metadata, with the sha256 of the texts that the rows belong to. Packed examples, phrases and chunks
of a split are separate files over the same rows, so a new segmentation rewrites no other file. Files are memory-mapped.
Integers are read through numpy: `take` of Arrow's chunked arrays needs twice the time and four times the memory (a
million pairs).
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError, MismatchError, check_digest
from phrasemt.files.lines import errors_of, write_atomic
from phrasemt.files.system import digest_file

FORMAT = 2
_KEY = b"phrasemt"  # of the JSON in the metadata of an Arrow file


@dataclass(frozen=True)
class RaggedArray:
    """Lists, one a row. lengths: int32 [rows]; values: int32 [sum of lengths], the lists one after the other."""

    lengths: NDArray[np.int32]
    values: NDArray[np.int32]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int] | NDArray[Any]]) -> RaggedArray:
        lengths = np.array([len(values) for values in lists], dtype=np.int32)
        joined = np.concatenate([np.empty(0, np.int32), *(np.asarray(values, dtype=np.int32) for values in lists)])
        return cls(lengths, joined.astype(np.int32, copy=False))

    @classmethod
    def joined(cls, parts: Sequence[RaggedArray]) -> RaggedArray:
        return cls(np.concatenate([part.lengths for part in parts]), np.concatenate([part.values for part in parts]))

    def array(self) -> pa.ListArray:
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(self.lengths, dtype=np.int32)])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(self.values))


RowBatch = tuple[NDArray[np.int64], Mapping[str, RaggedArray]]  # rows, and the lists of each column


def write_columns(
    path: Path,
    *,
    columns: Sequence[str],
    texts: Mapping[str, Path],
    description: Mapping[str, Any],
    batches: Iterable[RowBatch],
) -> int:
    """Write a column file atomically, one record batch for each batch; returns the number of rows.

    texts: the texts, by side, whose lines are the rows. description: JSON values that `ColumnFile.description` returns.
    """
    digests = {side: digest_file(text) for side, text in texts.items()}
    schema = with_description(_schema(columns), format=FORMAT, texts=digests, **description)
    count = 0
    with write_atomic(path) as stream, pa.ipc.new_file(stream, schema) as writer:
        for rows, lists in batches:
            arrays = [pa.array(rows, pa.int64()), *(lists[column].array() for column in columns)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            count += len(rows)
    return count


class MappedIntegers:
    """One integer for each position, in a memory-mapped file: `integers[positions]` reads those of some positions."""

    def __init__(self, file: pa.Buffer, pieces: Sequence[pa.Array], dtype: type[np.integer[Any]]) -> None:
        """pieces: Arrow arrays of this type whose buffers lie in the file, one for each record batch."""
        pieces = [piece for piece in pieces if len(piece)]
        self._starts = np.cumsum([0, *map(len, pieces)])
        self.dtype = np.dtype(dtype)
        whole = len(file) // self.dtype.itemsize
        self._file = np.frombuffer(file, self.dtype, count=whole)
        # For each piece: place of an integer in the file minus its position.
        places = [(piece.buffers()[1].address - file.address) // self.dtype.itemsize + piece.offset for piece in pieces]
        self._shifts = np.array(places, dtype=np.int64) - self._starts[:-1]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _places(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        places: NDArray[np.int64] = positions + self._shifts[np.searchsorted(self._starts, positions, side="right") - 1]
        return places

    def __getitem__(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        return self._file[self._places(positions)]

    def tolist(self) -> list[int]:
        return [number for part in self.parts() for number in part.tolist()]

    def equal(self, other: MappedIntegers) -> bool:
        """Whether both hold the same integers."""
        pairs = zip(self.parts(), other.parts(), strict=False)
        return len(self) == len(other) and all(np.array_equal(one, another) for one, another in pairs)

    def parts(self, size: int = 2**16) -> Iterator[NDArray[Any]]:
        """All integers, `size` at a time."""
        for start in range(0, len(self), size):
            yield self[np.arange(start, min(start + size, len(self)))]


class _Lengths(MappedIntegers):
    """The lengths of lists, computed from the offsets in the file."""

    def __init__(self, file: pa.Buffer, lists: Sequence[pa.ListArray]) -> None:
        super().__init__(file, [column.offsets[:-1] for column in lists], np.int32)

    def __getitem__(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        places = self._places(positions)
        lengths: NDArray[np.int32] = self._file[places + 1] - self._file[places]
        return lengths


class ColumnFile:
    """A column file. Lists are read on demand, by position 0 <= position < len.

    description: the description given to `write_columns`. texts: sha256 of each text that was given to it, by side.
    rows: for each position its row in the concatenation of the raw texts.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        """Open a file that has these columns.

        Raises DamagedFileError if the file is cut off, or has other columns or another format.
        """
        with errors_of(path):
            file = pa.memory_map(str(path)).read_buffer()  # copies nothing
        try:
            reader, description = open_described(file, _schema(columns), FORMAT)
        except ValueError as error:
            raise damaged(path, found=error) from None
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        self.path = path
        self.description = description
        self.texts: dict[str, str] = description.pop("texts")
        self.rows = MappedIntegers(file, [batch.column("row") for batch in batches], np.int64)
        self._starts = np.cumsum([0, *map(len, batches)]).tolist()
        self._lengths = {column: _Lengths(file, [batch.column(column) for batch in batches]) for column in columns}
        self._lists = {column: [_Views(batch.column(column)) for batch in batches] for column in columns}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def lengths(self, column: str) -> MappedIntegers:
        return self._lengths[column]

    def values(self, column: str, position: int) -> NDArray[np.int32]:
        """The list at a position, a view of the file."""
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} of {len(self)} rows")
        batch = bisect.bisect_right(self._starts, position) - 1
        return self._lists[column][batch][position - self._starts[batch]]

    def check_texts(self, others: ColumnFile, *, next_step: str) -> None:
        """Check that the rows of both files are the same lines of the same texts.

        Raises MismatchError if row numbers differ, or the text of a side of this file.
        """
        where = f"{self.path}, {others.path}"
        if not self.rows.equal(others.rows):
            raise MismatchError(
                "the columns and the examples have different rows",
                where=where,
                expected=f"the {len(others)} row numbers of the examples",
                found=f"{len(self)} other row numbers",
                next_step=next_step,
            )
        for side, digest in self.texts.items():
            what = f"the columns belong to another {side} text than the examples"
            check_digest(others.texts.get(side), digest, what, where=where, next_step=next_step)


class _Views:
    """A list<int32> column as numpy views: list i is values[offsets[i]:offsets[i + 1]]."""

    def __init__(self, column: pa.ListArray) -> None:
        # By DLPack, because to_numpy() imports pandas if it is installed: a third of a second of each stage.
        self.offsets = cast("NDArray[np.int32]", np.from_dlpack(column.offsets))
        self.values = cast("NDArray[np.int32]", np.from_dlpack(column.values))

    def __getitem__(self, number: int) -> NDArray[np.int32]:
        return self.values[self.offsets[number] : self.offsets[number + 1]]


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([("row", pa.int64()), *((column, pa.list_(pa.int32())) for column in columns)])


def damaged(path: Path, *, expected: object = None, found: object) -> DamagedFileError:
    """The error for a column file that cannot be used."""
    what = "incomplete or damaged column file"
    return DamagedFileError(what, where=path, expected=expected, found=found, next_step="delete it and run again")


def with_description(schema: pa.Schema, **description: object) -> pa.Schema:
    """The schema with this JSON in its metadata. One of the values is the `format`."""
    return schema.with_metadata({_KEY: json.dumps(description, sort_keys=True).encode()})


def open_described(
    source: pa.NativeFile | pa.Buffer, schema: pa.Schema, number: int
) -> tuple[pa.ipc.RecordBatchFileReader, dict[str, Any]]:
    """Open a file of this schema and number of format; returns its reader and the other JSON.

    Raises ValueError, with the reason, for another file and for one that is cut off.
    """
    try:
        reader = pa.ipc.open_file(source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from None
    description: dict[str, Any] = json.loads((reader.schema.metadata or {}).get(_KEY, b"{}"))
    if (found := description.pop("format", None)) != number or not reader.schema.equals(schema):
        raise ValueError(
            f"format {found}, columns {_in_words(reader.schema)}, instead of format {number}, columns "
            f"{_in_words(schema)}"
        )
    return reader, description


def _in_words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
