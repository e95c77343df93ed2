"""Corpora: fetched files, raw texts, texts after cleaning, tokens and subwords."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.errors import DamagedFileError, DataError, check_equal
from phrasemt.fields import Settings
from phrasemt.files.lines import LineBlock, read_lines, read_parallel_blocks, write_lines


@dataclass(frozen=True)
class ContrastivePair:
    """A pair. kind: of the mistake, or empty. distance: in words, between the words that must agree; None: unknown.

    cluster: of pairs that one fact decides, such as an idiom; empty: the pairs of one source and one right translation.
    """

    source: str
    right: str
    wrong: str
    kind: str = ""
    distance: int | None = None
    cluster: str = ""


class Contrasts:
    """A table of contrastive pairs, whose rows name rows of the split of their sources and right translations."""

    header = "row\tsource\tright\twrong\tdistance\tkind\tcluster"

    @classmethod
    def write(cls, path: Path, rows: Sequence[int], pairs: Sequence[ContrastivePair]) -> None:
        """Write a table. rows: of each pair's source in its split."""
        write_lines(path, [cls.header, *map(cls.line, rows, pairs)])

    @classmethod
    def line(cls, row: int, pair: ContrastivePair) -> str:
        distance = "" if pair.distance is None else pair.distance
        return f"{row}\t{pair.source}\t{pair.right}\t{pair.wrong}\t{distance}\t{pair.kind}\t{pair.cluster}"

    @classmethod
    def read(cls, path: Path) -> tuple[list[int], list[ContrastivePair]]:
        """Read the rows of the pairs in their split, and the pairs. Raises MismatchError or DataError."""
        lines = read_lines(path)
        what, again = "not a file of contrastive pairs", "delete it and run again"
        check_equal(repr(cls.header), repr(next(lines, "")), what, where=path, next_step=again)
        rows, pairs = [], []
        for number, line in enumerate(lines, start=2):
            row, _, fields = line.partition("\t")
            if not row.isdecimal() or fields.count("\t") != 5:
                raise not_a_pair(path, number, line, cls.header.replace("\t", ", "))
            rows.append(int(row))
            pairs.append(read_pair(path, number, fields))
        return rows, pairs


def read_pair(path: Path, number: int, line: str, *, kind: str = "") -> ContrastivePair:
    """Read the line source, right, wrong[, distance[, kind[, cluster]]] of a table. kind: of a mistake without a name.

    Raises DataError, with the line.
    """
    fields = line.rstrip("\r").split("\t")
    source, right, wrong, distance, own_kind, cluster = (*fields, *[""] * 5)[:6] if len(fields) <= 6 else [""] * 6
    if not (len(fields) >= 3 and source and right and wrong and (not distance or distance.isdecimal())):
        raise not_a_pair(
            path, number, line, "tab-separated: source, right, wrong, perhaps a distance in words, a kind and a cluster"
        )
    if distance and int(distance) == 0:
        raise not_a_pair(path, number, line, "a distance of at least 1, because neighbours have the distance 1")
    return ContrastivePair(source, right, wrong, own_kind or kind, int(distance) if distance else None, cluster)


def not_a_pair(path: Path | str, number: int, line: str, expected: str) -> DataError:
    """The error about a line of a table."""
    where = f"{path}, line {number}"
    return DataError("not a contrastive pair", where=where, expected=expected, found=repr(line[:80]))


class Rows:
    """For each kept pair of a split its row in the concatenated raw texts, from 0; one number a line."""

    @classmethod
    def blocks(cls, path: Path, *texts: Path, lines: int) -> Iterator[tuple[list[int], list[LineBlock]]]:
        """The rows with the lines of texts of the split, in blocks of so many lines.

        Raises DataError if the files have unequal numbers of lines.
        """
        for block, *others in read_parallel_blocks(path, *texts, lines=lines):
            yield [int(line) for line in block.lines()], others


class DroppedPair(NamedTuple):
    """A pair that cleaning dropped. value: why the filter dropped it, such as a length."""

    row: int
    filter: str
    value: str


@dataclass(frozen=True)
class DroppedPairs:
    """The pairs of a split that cleaning dropped, in the order of their rows, with the numbers of pairs.

    left_out: pairs that the filters keep and a sample does not; no line names them.
    """

    _head = re.compile(r"# read (\d+) kept (\d+) dropped (\d+)(?: left out (\d+))?")

    raw_pairs: int
    kept: int
    dropped: list[DroppedPair]
    left_out: int = 0

    @property
    def by_filter(self) -> dict[str, int]:
        return dict(Counter(pair.filter for pair in self.dropped).most_common())

    @property
    def lines(self) -> Iterator[str]:
        rest = f" left out {self.left_out}" if self.left_out else ""
        yield f"# read {self.raw_pairs} kept {self.kept} dropped {len(self.dropped)}{rest}"
        yield "row\tfilter\tvalue"
        yield from (f"{pair.row}\t{pair.filter}\t{pair.value}" for pair in self.dropped)

    def write(self, path: Path) -> None:
        write_lines(path, self.lines)

    @classmethod
    def read(cls, path: Path) -> DroppedPairs:
        """Read a file. Raises DamagedFileError when its counts do not add up."""
        lines = read_lines(path)
        head = cls._head.fullmatch(next(lines, ""))
        next(lines, "")
        fields = [line.split("\t", 2) for line in lines]
        numbers = [int(number or 0) for number in head.groups()] if head else [0, 0, 0, 0]
        wrong = any(len(one) != 3 or not one[0].isdecimal() for one in fields)
        if head is None or wrong or numbers[2] != len(fields) or numbers[0] != sum(numbers[1:]):
            raise DamagedFileError(
                "the counts of dropped pairs do not add up",
                where=path,
                expected=head[0] if head else "# read N kept K dropped D",
                found=f"{len(fields)} dropped pairs",
                next_step="delete it and run again",
            )
        dropped = [DroppedPair(int(row), name, value) for row, name, value in fields]
        return cls(raw_pairs=numbers[0], kept=numbers[1], dropped=dropped, left_out=numbers[3])


class Shared(Settings):
    """How many pairs of a split, and how many of their sides, stand in another split. Blank lines do not count.

    The lines of a monolingual text count as targets, and nothing else of it.
    """

    pairs: int
    sources: int
    targets: int


class SplitCounts(Settings):
    """Counts about dev or a test set.

    in_dev: None for dev itself. equal_sides: pairs whose source is their target. cut: lines of more than
    LONGEST_SENTENCE subwords, of which models read the beginning. doubts: what shows that the texts do not belong
    together (phrasemt/corpus/compare_splits.py); those about train stand at dev.
    """

    pairs: int
    in_train: Shared
    in_dev: Shared | None = None
    equal_sides: int
    blank_sources: int
    blank_targets: int
    cut_sources: int
    cut_targets: int
    doubts: list[str] | None = None


class ComparedSplits(JsonFile):
    """What dev and test sets share with train, what test sets share with dev, blank and cut lines; by split, dev first.

    Trainings wait for it, and do not run again when it changes.
    """

    overlap: Literal["refused", "allowed"]
    splits: dict[str, SplitCounts]


class RoundTrip(JsonFile):
    """How well a sample of a text comes back from its tokens.

    score: BLEU of the detokenised tokens against the text, 0 to 100. lines: of the sample.
    """

    language: str
    score: float
    signature: str
    lines: int
    changed_lines: int
