"""The example store: the sentence pairs of a split as subword ids, in a column file with the columns source and target.

The ids contain no special symbol except `<unk>`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.errors import MismatchError
from phrasemt.files.columns import ColumnFile, damaged
from phrasemt.symbols import UNK
from phrasemt.text.vocab import Vocabulary

COLUMNS = ("source", "target")


def describe(source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> dict[str, str]:
    """Return the description of an example store: the digests of the vocabularies that its ids refer to."""
    return {"source_vocabulary": source_vocabulary.digest, "target_vocabulary": target_vocabulary.digest}


class Examples:
    """Sentence pairs of a split by position, 0 <= position < len. Use `open` to make one.

    source_lengths, target_lengths: subwords of each sentence without `</s>` (int32).
    rows: row of each pair in the concatenated raw texts (int64).
    All three read from the memory-mapped file on access. columns: the file.
    """

    def __init__(self, columns: ColumnFile) -> None:
        self.columns = columns
        self.path = columns.path
        self.rows = columns.rows
        self.source_lengths, self.target_lengths = (columns.lengths(side) for side in COLUMNS)

    @classmethod
    def open(cls, path: Path) -> Examples:
        """Open a file that `pack_examples` wrote. Ids are read later, on access.

        Raises DamagedFileError for a file that is truncated, corrupt, or of another schema or format version.
        """
        columns = ColumnFile.open(path, COLUMNS)
        if missing := {f"{side}_vocabulary" for side in COLUMNS} - columns.description.keys():
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
        for side, vocabulary in zip(COLUMNS, (source, target), strict=True):
            packed = self.columns.description[f"{side}_vocabulary"]
            if packed != vocabulary.digest:
                raise MismatchError(
                    f"the examples were packed with another {side} vocabulary",
                    where=self.path,
                    expected=f"sha256 {vocabulary.digest[:12]}",
                    found=f"sha256 {packed[:12]}",
                    next_step="run pack_examples with the vocabularies of this data set",
                )
        self.check_ids(len(source), len(target))

    def check_ids(self, source_size: int, target_size: int) -> None:
        """Check that each id is `<unk>` or the id of an ordinary subword.

        Raises DamagedFileError for a special symbol and for an id that is not smaller than the vocabulary's size.
        """
        for side, size in zip(COLUMNS, (source_size, target_size), strict=True):
            self.columns.check_values(side, smallest=UNK, size=size)
