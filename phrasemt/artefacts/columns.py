"""Columns over the rows of a split: packed examples, phrases and chunks (format: phrasemt/files/columns.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.artefact import Artefact, of_dataset
from phrasemt.artefacts.corpus import Vocabulary
from phrasemt.errors import check_digest
from phrasemt.files.columns import ColumnFile, RowBatch, damaged, write_columns
from phrasemt.symbols import CHUNK_LABELS, UNK


class Examples(Artefact, pattern=of_dataset("examples/{split}.arrow")):
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
        columns = ColumnFile.open(path, cls.sides)
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
        self.check_ids(len(source), len(target))

    def check_ids(self, source_size: int, target_size: int) -> None:
        """Check that each id is `<unk>` or the id of an ordinary subword.

        Raises DamagedFileError for a special symbol and for an id that is not smaller than the vocabulary's size.
        """
        for side, size in zip(self.sides, (source_size, target_size), strict=True):
            self.columns.check_values(side, smallest=UNK, size=size)


class PhraseColumns(Artefact, pattern=of_dataset("phrases/{segmenter}/{split}.arrow")):
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
        return ColumnFile.open(path, cls.columns)


class ChunkColumns(Artefact, pattern=of_dataset("chunks/{split}.arrow")):
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
        return ColumnFile.open(path, cls.columns)
