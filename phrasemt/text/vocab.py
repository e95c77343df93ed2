"""The stage `build_vocabulary`, and vocabularies: subwords and their ids.

A vocabulary file has one line `subword<TAB>count` per id: first the special symbols with count 0, then the subwords of
the training text by decreasing count, and by code point for equal counts. With `unit: word` the entries are whole
words, and only the most frequent words have ids.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.stages.subwords import BuildVocabulary
from phrasemt.symbols import SEPARATOR, SPECIAL_TOKENS, UNK
from phrasemt.text.tokens import count_tokens

log = logging.getLogger("phrasemt.build_vocabulary")


def build_vocabulary(
    *,
    settings: BuildVocabulary,
    cores: int,
    source: Path,
    target: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    given: Sequence[Path] = (),
) -> None:
    """Give ids to the subwords of each side of the training text, or of both sides together (`settings.shared`).

    source, target: one file of a monolingual text, whose subwords are counted once.
    settings.words: largest number of whole words in a vocabulary; None for subwords, which all get ids.
    given: vocabularies of both sides, which are taken over in place of that; or nothing.
    Raises DataError if a side is empty, DamagedFileError for given files of another kind.
    """
    if given:
        for path, output in zip(given, (source_vocabulary, target_vocabulary), strict=True):
            Vocabulary.from_file(path)
            write_lines(output, read_lines(path))
        log.info("build_vocabulary: took the vocabularies of %s", given[0].parent)
        return
    sides = {source: source_vocabulary, target: target_vocabulary}
    counts = [count_tokens(side, cores=cores) for side in sides]
    for side, counts_of_side in zip(sides, counts, strict=True):
        if not counts_of_side:
            raise DataError("the text has no subwords", where=side, next_step="check the training text")
    if settings.shared:
        counts = [sum(counts, Counter[str]())] * len(sides)
    sizes = [
        _write(path, _ranked(counts_of_side, settings.words))
        for path, counts_of_side in zip(sides.values(), counts, strict=True)
    ]
    log.info(
        "build_vocabulary: %s symbols%s",
        " and ".join(f"{size:,} {side}" for size, side in zip(sizes, ("source", "target"), strict=True))
        if len(sizes) == 2
        else f"{sizes[0]:,}",
        ", one vocabulary for both" if settings.shared and len(sizes) == 2 else "",
    )


def _ranked(counts: Counter[str], words: int | None) -> list[tuple[str, int]]:
    """The entries of a vocabulary with their counts, in the order of their ids. words: as `settings.words`."""
    # A text may hold "</s>" as a word. This word is not the special symbol: it gets no id and is read as <unk>.
    ordinary = ((subword, count) for subword, count in counts.items() if subword not in SPECIAL_TOKENS)
    ranked = sorted(ordinary, key=lambda entry: (-entry[1], entry[0]))
    if words is None:
        return ranked
    # A whole word that ends in the mark of subwords gets no id either: after translation it would join the next word.
    return [(word, count) for word, count in ranked if not word.endswith(SEPARATOR)][:words]


def _write(path: Path, ranked: list[tuple[str, int]]) -> int:
    special = [(token, 0) for token in SPECIAL_TOKENS]
    return write_lines(path, (f"{subword}\t{count}" for subword, count in [*special, *ranked]))


class _Ids(dict[str, int]):
    def __missing__(self, subword: str) -> int:
        return UNK


class Vocabulary:
    """Subwords and their ids. digest: sha256 of the file, which identifies the vocabulary."""

    def __init__(self, subwords: Sequence[str], *, digest: str) -> None:
        self._subwords = list(subwords)
        self.digest = digest
        # Without the special symbols, so that a word like "</s>" in a text cannot end a sentence.
        first = len(SPECIAL_TOKENS)
        self._ids = _Ids((subword, first + place) for place, subword in enumerate(self._subwords[first:]))

    @classmethod
    def from_file(cls, path: Path) -> Vocabulary:
        """Read a file of `build_vocabulary`.

        Raises DamagedFileError, with the line, for a missing special symbol, a repeated subword or a wrong count.
        """
        subwords: dict[str, None] = {}
        for number, line in enumerate(read_lines(path), start=1):
            subword, _, count = line.rpartition("\t")
            if number <= len(SPECIAL_TOKENS):
                if line != (expected := f"{SPECIAL_TOKENS[number - 1]}\t0"):
                    raise _damaged(path, number, "a special symbol is missing", expected=repr(expected), found=line)
            elif not subword or not count.isdecimal():
                raise _damaged(path, number, "not a vocabulary", expected="subword<TAB>count", found=line)
            elif subword in subwords:
                raise _damaged(path, number, "a subword comes twice", expected=None, found=line)
            subwords[subword] = None
        if len(subwords) < len(SPECIAL_TOKENS):
            expected = f"{SPECIAL_TOKENS[len(subwords)]}\t0"
            raise _damaged(path, len(subwords) + 1, "a special symbol is missing", expected=repr(expected), found="")
        return cls(list(subwords), digest=digest_file(path))

    def __len__(self) -> int:
        return len(self._subwords)

    def ids(self, subwords: Sequence[str]) -> NDArray[np.int32]:
        """The ids of subwords, int32 [n]; `<unk>` for unknown subwords and for words that equal a special symbol."""
        return np.fromiter(map(self._ids.__getitem__, subwords), dtype=np.int32, count=len(subwords))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The subwords of ids."""
        return [self._subwords[number] for number in ids]


class Vocabularies(NamedTuple):
    """The vocabularies of source and target."""

    source: Vocabulary
    target: Vocabulary

    @classmethod
    def read(cls, source: Path, target: Path) -> Vocabularies:
        """Read both files. Raises DamagedFileError."""
        return cls(Vocabulary.from_file(source), Vocabulary.from_file(target))


def _damaged(path: Path, number: int, what: str, *, expected: str | None, found: str) -> DamagedFileError:
    return DamagedFileError(
        what,
        where=f"{path}, line {number}",
        expected=expected,
        found=repr(found[:80]),
        next_step="delete the file and run build_vocabulary again",
    )
