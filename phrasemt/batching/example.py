"""The example store: a split as subword ids, memory-mapped.

An Arrow IPC file, uncompressed, with the columns row (int64), source and target (list<int32>), in record batches. Ids
hold no special symbols but `<unk>`. What is read of it lies in the page cache, which the system shares between
processes and takes back when it needs memory.
"""

from __future__ import annotations

import bisect
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.symbols import UNK
from phrasemt.text.vocab import Vocabulary

FORMAT = 1
METADATA_KEY = b"phrasemt"
SCHEMA = pa.schema([("row", pa.int64()), ("source", pa.list_(pa.int32())), ("target", pa.list_(pa.int32()))])
_SIDES = ("source", "target")


def describe(source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> dict[bytes, bytes]:
    """The schema metadata of a store packed with these vocabularies."""
    description = {
        "format": FORMAT,
        "source_vocabulary": source_vocabulary.digest,
        "target_vocabulary": target_vocabulary.digest,
    }
    return {METADATA_KEY: json.dumps(description, sort_keys=True).encode()}


class Examples:
    """Sentence pairs of a split by position, 0 <= position < len.

    source_lengths, target_lengths: subwords of each sentence without `</s>` (int32). source_vocabulary,
    target_vocabulary: digests of the vocabularies the ids belong to. Made by `open`.
    """

    def __init__(self, path: Path, batches: list[pa.RecordBatch], description: dict[str, Any]) -> None:
        self.path = path
        self.source_vocabulary = description["source_vocabulary"]
        self.target_vocabulary = description["target_vocabulary"]
        self._rows = [batch.column("row").to_numpy() for batch in batches]
        self._starts = np.cumsum([0, *(len(rows) for rows in self._rows)]).tolist()
        self._sources, self._targets = ([_Sentences(batch.column(side)) for batch in batches] for side in _SIDES)
        self.source_lengths, self.target_lengths = (
            np.concatenate([np.empty(0, np.int32), *(np.diff(sentences.offsets) for sentences in side)])
            for side in (self._sources, self._targets)
        )

    @classmethod
    def open(cls, path: Path) -> Examples:
        """Open a file of `pack_examples`; its ids are not read yet.

        Raises DamagedFileError when it is cut off, altered in its structure, or of another schema or format version.
        """
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            description = _read_description(path, reader.schema)
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate(full=True)  # offsets increase and stay within the ids
                if any(column.null_count for column in batch.columns):
                    raise _damaged(path, found="missing values")
            return cls(path, batches, description)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(path, found=error) from None

    def __len__(self) -> int:
        return int(self._starts[-1])

    @functools.cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of each pair in the concatenation of the raw inputs."""
        return np.concatenate([np.empty(0, np.int64), *self._rows])

    def source(self, position: int) -> NDArray[np.int32]:
        """Source ids of a pair, a view of the file."""
        return self._sentence(self._sources, position)

    def target(self, position: int) -> NDArray[np.int32]:
        """Target ids of a pair, a view of the file."""
        return self._sentence(self._targets, position)

    def _sentence(self, side: list[_Sentences], position: int) -> NDArray[np.int32]:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} of {len(self)} examples")
        batch = bisect.bisect_right(self._starts, position) - 1
        return side[batch][position - self._starts[batch]]

    def check_vocabularies(self, source: Vocabulary, target: Vocabulary) -> None:
        """Make sure that the ids are those of these vocabularies.

        Raises MismatchError for other vocabularies, DamagedFileError for ids that they do not have.
        """
        for side, packed, vocabulary in (
            ("source", self.source_vocabulary, source),
            ("target", self.target_vocabulary, target),
        ):
            if packed != vocabulary.digest:
                raise MismatchError(
                    f"examples were packed with another {side} vocabulary",
                    where=self.path,
                    expected=f"sha256 {vocabulary.digest[:12]}",
                    found=f"sha256 {packed[:12]}",
                    next_step="run pack_examples with the vocabularies of this data set",
                )
        self.check_ids(len(source), len(target))

    def check_ids(self, source_size: int, target_size: int) -> None:
        """Make sure that all ids are `<unk>` or ordinary ones below the vocabularies' sizes.

        Raises DamagedFileError. Reads the file batch by batch outside the memory map, so that nothing stays in memory.
        """
        with pa.ipc.open_file(pa.OSFile(str(self.path))) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                for side, size in zip(_SIDES, (source_size, target_size), strict=True):
                    ids = _Sentences(batch.column(side)).ids
                    if len(ids) and not (ids.min() >= UNK and ids.max() < size):
                        raise _damaged(
                            self.path,
                            expected=f"{side} ids from {UNK} to {size - 1}",
                            found=f"{ids.min()} to {ids.max()} in record batch {number}",
                        )


class _Sentences:
    """A list<int32> column as numpy views: ids of sentence i are ids[offsets[i]:offsets[i + 1]]."""

    def __init__(self, column: pa.ListArray) -> None:
        self.offsets: NDArray[np.int32] = column.offsets.to_numpy()
        self.ids: NDArray[np.int32] = column.values.to_numpy()

    def __getitem__(self, number: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[number] : self.offsets[number + 1]]


def _read_description(path: Path, schema: pa.Schema) -> dict[str, Any]:
    description: dict[str, Any] = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if description.get("format") != FORMAT:
        raise _damaged(path, expected=f"format version {FORMAT}", found=description.get("format", "none"))
    if not schema.equals(SCHEMA):
        raise _damaged(path, expected=_one_line(SCHEMA), found=_one_line(schema))
    if missing := {f"{side}_vocabulary" for side in _SIDES} - description.keys():
        raise _damaged(path, expected=", ".join(sorted(missing)), found="none")
    return description


def _one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _damaged(path: Path, *, expected: object = None, found: object) -> DamagedFileError:
    return DamagedFileError(
        "not a whole example store", where=path, expected=expected, found=found, next_step="delete it and run again"
    )
