"""The registry of corpora (data in corpora.yaml). Phrasemt downloads only files that a registry describes.

An entry has the addresses and checksums of the files of a corpus, its terms of use, its citation, and the place of
each side of each part in the files. The module imports nothing slow, because every start of the workflow reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints

from phrasemt.errors import DataError, did_you_mean
from phrasemt.fields import Language, Name, Settings
from phrasemt.files.source_file import Count, FileName, Sha256, SourceFile
from phrasemt.files.yaml import parse_yaml

REGISTRY_FILE = Path(__file__).with_suffix(".yaml")
Item = TypeVar("Item")
_LIST_THEM = "run `phrasemt corpora` to list the corpora, `phrasemt corpora ID` for the parts and languages of one"


class MemberRange(Settings):
    """Archive members whose names differ only in a number. They are read one after the other."""

    pattern: Annotated[str, StringConstraints(pattern=r"\{number(:\d+)?\}")] = Field(
        description="path inside the archive, e.g. wsj_{number:04}.mrg"
    )
    first: Count
    last: Count

    @property
    def names(self) -> list[str]:
        return [self.pattern.format(number=number) for number in range(self.first, self.last + 1)]


class CorpusSide(Settings):
    """The place of the text of one language of a part.

    format: `lines`, one sentence per line; `tsv`, one column of tab-separated lines; `sgm`, the `<seg>` elements of a
    WMT test set; `sword`, the verses of a Bible, of which `member` names the folder in a zip archive
    (phrasemt/corpus/extract.py). A plain file or an archive member whose name ends in `.gz` is unpacked.
    """

    file: FileName
    member: str | MemberRange | None = Field(None, description="path or paths inside the archive")
    format: Literal["lines", "tsv", "sgm", "sword"] = "lines"
    column: Count | None = Field(None, description="format tsv: number of the column, from 1")
    separator: Annotated[str, StringConstraints(min_length=1)] = Field(
        "\t", description="format tsv: what stands between two columns"
    )

    @property
    def members(self) -> list[str | None]:
        """Paths inside the archive, in order; [None] for a plain file."""
        return [*self.member.names] if isinstance(self.member, MemberRange) else [self.member]


class Blocks(Settings):
    """Runs of rows, numbered from 0: those whose number modulo `period` is among `numbers`."""

    size: Count = Field(description="rows of a run")
    period: Count
    numbers: tuple[Annotated[int, Field(ge=0)], ...]


class RowSelection(Settings):
    """Which rows of its sides a part takes. The rules apply in this order (phrasemt/corpus/extract.py)."""

    parts: tuple[Name, ...] = Field(
        (),
        description="parts of the corpus whose rows are taken, one part after the other; the files of the sides then "
        "contain the ready text, which is used instead of these rules where it was fetched or a mirror has it",
    )
    distinct: bool = Field(False, description="a row that stood before is left out")
    min_words: Count = Field(1, description="words of each side, separated by white space, at least")
    ratio_below: Annotated[float, Field(gt=1)] | None = Field(
        None, description="characters of the longest side by those of the shortest"
    )
    blocks: Blocks | None = Field(None, description="of the rows that are left")
    apart_from: tuple[Name, ...] = Field((), description="parts of the corpus with which no row shares a side")


class CorpusPart(Settings):
    """A part of a corpus. Line n of each side translates line n of the other sides.

    A part with one side is a text annotated with trees or chunks, from which parsers and chunkers learn.
    """

    lines: Count | None = Field(None, description="lines of each side; null if no number is published")
    sides: dict[Language, CorpusSide] = Field(min_length=1)
    selection: RowSelection | None = Field(None, description="null: all rows")
    sha256: dict[Language, Sha256] = Field(default_factory=dict, description="of the texts that a selection makes")


class ContrastPart(Settings):
    """A set of contrastive pairs (phrasemt/corpus/contrastive_pairs.py reads the forms).

    files: the JSON of LingEval97, a table with tabulators, or three texts line by line: source, right, wrong.
    """

    source_language: Language
    target_language: Language
    files: tuple[FileName] | tuple[FileName, FileName, FileName]

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language


class Corpus(Settings):
    """A corpus with its files, its parts, and its sets of contrastive pairs."""

    id: Name
    description: str
    terms: str = Field(description="licence or terms of use, as the publisher states them")
    may_be_copied: bool = Field(False, description="whether the terms allow everybody to pass on copies of the texts")
    citation: str
    files: tuple[SourceFile, ...] = Field(min_length=1)
    parts: dict[Name, CorpusPart] = Field(default_factory=dict)
    contrasts: dict[Name, ContrastPart] = Field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of all parts, in the order of the registry."""
        of_parts = [language for part in self.parts.values() for language in part.sides]
        of_pairs = [language for pairs in self.contrasts.values() for language in pairs.languages]
        return tuple(dict.fromkeys((*of_parts, *of_pairs)))

    @property
    def bytes(self) -> int | None:
        sizes = [file.bytes for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


@functools.cache
def load_registry() -> dict[str, Corpus]:
    """The corpora by id, in the order of the registry file."""
    entries = parse_yaml(REGISTRY_FILE.read_text(encoding="utf-8"))
    corpora = [Corpus.model_validate(entry) for entry in entries]
    return {corpus.id: corpus for corpus in corpora}


def corpus(corpus_id: str) -> Corpus:
    """The corpus with this id. Raises DataError, which names the nearest id, for an unknown one."""
    return look_up("corpus", corpus_id, load_registry(), where="the registry of corpora")


def source_file(corpus_id: str, name: str) -> SourceFile:
    """A file of a corpus. Raises DataError for an unknown corpus or file."""
    return look_up("file", name, {file.name: file for file in corpus(corpus_id).files}, where=f"corpus {corpus_id}")


def part_of(corpus_id: str, part: str) -> CorpusPart:
    """A part of a corpus. Raises DataError for an unknown corpus or part."""
    return look_up("part", part, corpus(corpus_id).parts, where=f"corpus {corpus_id}")


def side_of(corpus_id: str, part: str, language: str) -> CorpusSide:
    """The side of a part in one language. Raises DataError for an unknown corpus, part or language."""
    return look_up("language", language, part_of(corpus_id, part).sides, where=f"corpus {corpus_id}, part {part}")


def contrasts_of(corpus_id: str, part: str) -> ContrastPart:
    """A set of contrastive pairs of a corpus. Raises DataError for an unknown corpus or set."""
    return look_up("set of contrastive pairs", part, corpus(corpus_id).contrasts, where=f"corpus {corpus_id}")


def read_with(corpus_id: str, part: str) -> dict[str, CorpusPart]:
    """The parts that decide the rows of a part by its selection, itself first; empty without a selection."""
    selection = part_of(corpus_id, part).selection
    names = [] if selection is None else [part, *selection.parts, *selection.apart_from]
    return {name: part_of(corpus_id, name) for name in names}


def files_of(
    corpus_id: str, part: str, language: str, at_hand: Callable[[str], object] = lambda file: False
) -> list[str]:
    """Names of the files that `extract_text` reads for a side: with a selection those of all sides.

    at_hand: whether a file was fetched or is in a mirror; then the ready text of a part is used.
    """
    side, selection = side_of(corpus_id, part, language), part_of(corpus_id, part).selection
    if selection is None or (selection.parts and at_hand(side.file)):
        return [side.file]
    parts = read_with(corpus_id, part)
    if selection.parts:
        del parts[part]
    return [*dict.fromkeys(one.file for read in parts.values() for one in read.sides.values())]


def look_up(kind: str, name: str, known: Mapping[str, Item], *, where: str, next_step: str = _LIST_THEM) -> Item:
    """The entry of this name. Raises DataError, which names the nearest one, for an unknown name."""
    if name in known:
        return known[name]
    found = f"{name!r}{did_you_mean(name, known, cutoff=0.5)}"
    expected = f"one of {', '.join(known) or 'nothing'}"
    raise DataError(f"unknown {kind}", where=where, expected=expected, found=found, next_step=next_step)
