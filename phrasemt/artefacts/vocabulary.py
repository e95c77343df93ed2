"""Vocabularies: the ids of subwords, or of whole words."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.artefact import Artefact, of_dataset
from phrasemt.errors import DamagedFileError
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.symbols import SPECIAL_TOKENS, UNK


class _Ids(dict[str, int]):
    def __missing__(self, subword: str) -> int:
        return UNK


class Vocabulary(Artefact, pattern=of_dataset("vocabulary.{language}.tsv")):
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
