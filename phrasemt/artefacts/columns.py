"""Vocabularies, and columns over the rows of a split: examples of ids, phrases, chunks (phrasemt/files/columns.py)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError, check_digest
from phrasemt.files.columns import ColumnFile, RowBatch, damaged, write_columns
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.files.system import digest_file
from phrasemt.symbols import CHUNK_LABELS, SPECIAL_TOKENS, UNK


class _Ids(dict[str, int]):
    def __missing__(self, subword: str) -> int:
        return UNK


class Vocabulary:
    """Subwords and their ids. digest: sha256 of the file, which identifies the vocabulary.

    A file has one line `subword<TAB>count` per id: first the special symbols with count 0, then the subwords of the
    training text by decreasing count, and by code point for equal counts.
    """

    def __init__(self, subwords: Sequence[str], *, digest: str) -> None:
        self._subwords = list(subwords)
        self.digest = digest
        # Without the special symbols, so that a word like "</s>" in a text cannot end a sentence.
        first = len(SPECIAL_TOKENS)
        self._ids = _Ids((subword, first + place) for place, subword in enumerate(self._subwords[first:]))

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """Read a file of `build_vocabulary`.

        Raises DamagedFileError, with the line, for a missing special symbol, a repeated subword or a wrong count.
        """
        subwords: dict[str, None] = {}
        special = [f"{token}\t0" for token in SPECIAL_TOKENS]
        for number, (line, expected) in enumerate(itertools.zip_longest(read_lines(path), special), start=1):
            subword, _, count = (line or "").rpartition("\t")
            if expected not in (None, line) or not subword or not count.isdecimal() or subword in subwords:
                raise DamagedFileError(
                    "not a vocabulary",
                    where=f"{path}, line {number}",
                    expected=repr(expected) if expected else "subword<TAB>count, each subword once",
                    found=repr((line or "")[:80]),
                    next_step="delete the file and run build_vocabulary again",
                )
            subwords[subword] = None
        return cls(list(subwords), digest=digest_file(path))

    @staticmethod
    def write(path: Path, ranked: Sequence[tuple[str, int]]) -> int:
        """Write the special symbols and these subwords with their counts; return the number of ids."""
        special = [(token, 0) for token in SPECIAL_TOKENS]
        return write_lines(path, (f"{subword}\t{count}" for subword, count in [*special, *ranked]))

    def __len__(self) -> int:
        return len(self._subwords)

    def ids(self, subwords: Sequence[str]) -> NDArray[np.int32]:
        """The ids of subwords, int32 [n]; `<unk>` for unknown subwords and for words that equal a special symbol."""
        return np.fromiter(map(self._ids.__getitem__, subwords), dtype=np.int32, count=len(subwords))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._subwords[number] for number in ids]


class Vocabularies(NamedTuple):
    """The vocabularies of source and target."""

    source: Vocabulary
    target: Vocabulary

    @classmethod
    def read(cls, source: Path, target: Path) -> Vocabularies:
        return cls(Vocabulary.read(source), Vocabulary.read(target))


class Examples:
    """Sentence pairs of a split as subword ids, by position, 0 <= position < len. Use `open` to make one.

    The ids contain no special symbol except `<unk>`.

    source_lengths, target_lengths: subwords of each sentence without `</s>` (int32).
    rows: row of each pair in the concatenated raw texts (int64).
    All three read from the memory-mapped file on access. columns: the file.
    """

    sides = ("source", "target")

    def __init__(self, columns: ColumnFile) -> None:
        self.columns = columns
        self.path = columns.path
        self.rows = columns.rows
        self.source_lengths, self.target_lengths = (columns.lengths(side) for side in self.sides)

    @classmethod
    def write(
        cls,
        path: Path,
        texts: tuple[Path, Path],
        vocabularies: tuple[Vocabulary, Vocabulary],
        batches: Iterable[RowBatch],
    ) -> int:
        """Write the ids of both sides; return the number of pairs. texts: of the subwords; batches: by side."""
        digests = {
            f"{side}_vocabulary": vocabulary.digest for side, vocabulary in zip(cls.sides, vocabularies, strict=True)
        }
        sides = dict(zip(cls.sides, texts, strict=True))
        return write_columns(path, columns=cls.sides, texts=sides, description=digests, batches=batches)

    @classmethod
    def open(cls, path: Path) -> Examples:
        """Open a file that `pack_examples` wrote. Ids are read later, on access.

        Raises DamagedFileError for a file that is truncated, corrupt, or of another schema or format version.
        """
        columns = ColumnFile(path, cls.sides)
        if missing := {f"{side}_vocabulary" for side in cls.sides} - columns.description.keys():
            raise damaged(path, expected=", ".join(sorted(missing)), found="none")
        return cls(columns)

    def __len__(self) -> int:
        return len(self.columns)

    def source(self, position: int) -> NDArray[np.int32]:
        """Return the source ids of a pair, as a view of the memory-mapped file."""
        return self.columns.values("source", position)

    def target(self, position: int) -> NDArray[np.int32]:
        """Return the target ids of a pair, as a view of the memory-mapped file."""
        return self.columns.values("target", position)

    def check_vocabularies(self, source: Vocabulary, target: Vocabulary) -> None:
        """Check that the pairs were packed with these vocabularies.

        Raises MismatchError for other vocabularies and DamagedFileError for an id outside of a vocabulary.
        """
        for side, vocabulary in zip(self.sides, (source, target), strict=True):
            packed = self.columns.description[f"{side}_vocabulary"]
            what = f"the examples were packed with another {side} vocabulary"
            next_step = "run pack_examples with the vocabularies of this data set"
            check_digest(vocabulary.digest, packed, what, where=self.path, next_step=next_step)


class PhraseColumns:
    """The phrases of the sources of a split: for each row the increasing ends of its phrases, in encoder positions.

    The last end is the number of encoder positions, `</s>` included.
    """

    columns = ("ends",)

    @classmethod
    def write(cls, path: Path, text: Path, segmentation: Mapping[str, Any], batches: Iterable[RowBatch]) -> int:
        """Write phrases; return the number of rows. text: the subwords. segmentation: its settings."""
        return write_columns(
            path,
            columns=cls.columns,
            texts={"source": text},
            description={"segmentation": dict(segmentation)},
            batches=batches,
        )

    @classmethod
    def open(cls, path: Path) -> ColumnFile:
        """Open a file; `segmentation` of its description holds the settings of the segmentation."""
        return ColumnFile(path, cls.columns)


class ChunkColumns:
    """The chunks of the targets of a split: for each row the starts of its chunks in subwords, `</s>` last.

    labels: of each chunk, an index into CHUNK_LABELS.
    """

    columns = ("starts", "labels")

    @classmethod
    def write(cls, path: Path, text: Path, origin: str, batches: Iterable[RowBatch]) -> int:
        """Write chunks; return the number of rows. text: the subwords. origin: of the chunks."""
        return write_columns(
            path,
            columns=cls.columns,
            texts={"target": text},
            description={"origin": origin, "labels": CHUNK_LABELS},
            batches=batches,
        )

    @classmethod
    def open(cls, path: Path) -> ColumnFile:
        return ColumnFile(path, cls.columns)
