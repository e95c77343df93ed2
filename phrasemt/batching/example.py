"""The example store: a split as subword ids, in a column file with the columns source and target.

Ids hold no special symbols but `<unk>`.
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
    """The description of a store packed with these vocabularies."""
    return {"source_vocabulary": source_vocabulary.digest, "target_vocabulary": target_vocabulary.digest}


class Examples:
    """Sentence pairs of a split by position, 0 <= position < len.

    source_lengths, target_lengths: subwords of each sentence without `</s>` (int32). rows: row of each pair in the
    concatenation of the raw inputs (int64). All three are read from the file when asked. Made by `open`.
    """

    def __init__(self, columns: ColumnFile) -> None:
        self._columns = columns
        self.path = columns.path
        self.rows = columns.rows
        self.source_lengths, self.target_lengths = (columns.lengths(side) for side in COLUMNS)

    @classmethod
    def open(cls, path: Path) -> Examples:
        """Open a file of `pack_examples`; its ids are not read yet.

        Raises DamagedFileError when it is cut off, altered in its structure, or of another schema or format version.
        """
        columns = ColumnFile.open(path, COLUMNS)
        if missing := {f"{side}_vocabulary" for side in COLUMNS} - columns.description.keys():
            raise damaged(path, expected=", ".join(sorted(missing)), found="none")
        return cls(columns)

    def __len__(self) -> int:
        return len(self._columns)

    def source(self, position: int) -> NDArray[np.int32]:
        """Source ids of a pair, a view of the file."""
        return self._columns.values("source", position)

    def target(self, position: int) -> NDArray[np.int32]:
        """Target ids of a pair, a view of the file."""
        return self._columns.values("target", position)

    def check_vocabularies(self, source: Vocabulary, target: Vocabulary) -> None:
        """Make sure that the ids are those of these vocabularies.

        Raises MismatchError for other vocabularies, DamagedFileError for ids that they do not have.
        """
        for side, vocabulary in zip(COLUMNS, (source, target), strict=True):
            packed = self._columns.description[f"{side}_vocabulary"]
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
        """Make sure that all ids are `<unk>` or ordinary ones below the vocabularies' sizes: else DamagedFileError."""
        for side, size in zip(COLUMNS, (source_size, target_size), strict=True):
            self._columns.check_values(side, smallest=UNK, size=size)
