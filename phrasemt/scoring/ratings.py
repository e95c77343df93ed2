"""Human evaluation with blind sheets (Zhou et al. 2017, Table 4): adequacy, fluency, under- and over-translation.

A folder holds one sheet for each rater and `key.tsv`, which names the systems of the items and which raters do not
get. Each rater sees the same items in another order, and a translation that several systems share only once.
"""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import new_folder, read_lines, write_lines

# What raters fill in, with the allowed values.
QUESTIONS: Mapping[str, tuple[int, ...]] = {
    "adequacy": (0, 1, 2, 3, 4, 5),
    "fluency": (0, 1, 2, 3, 4, 5),
    "under_translation": (0, 1),
    "over_translation": (0, 1),
}
SCALES = ("adequacy", "fluency")
_SHOWN = ("item", "source", "reference", "translation")
_HEADER = "\t".join((*_SHOWN, *QUESTIONS))
_KEY_HEADER = "item\tsystem\ttest_set\tline"
KEY = "key.tsv"
_SHEET = re.compile(r"rater-\d+\.tsv")
_MANY = 10  # items whose ratings two raters do not give alike, in the same order, by chance


@dataclass(frozen=True)
class SystemRating:
    """The ratings of a system. means: by question; of yes-or-no questions the share of yes, 0 to 1."""

    system: str
    items: int
    means: Mapping[str, float]


@dataclass(frozen=True)
class RatedText:
    """A test set line by line: sources, references, and the translations of each system."""

    test_set: str
    sources: Sequence[str]
    references: Sequence[str]
    translations: Mapping[str, Sequence[str]]


def write_sheets(folder: Path, texts: Sequence[RatedText], *, sentences: int, raters: int, seed: int) -> int:
    """Write the sheets and the key into a new folder. Returns the number of items of a sheet.

    sentences: how many are drawn at random, from all test sets together.
    Raises PhrasemtError if the folder exists, and DataError if there are fewer sentences.
    """
    lines = [(text, line) for text in texts for line in range(len(text.sources))]
    if len(lines) < sentences:
        raise DataError("the test sets have fewer sentences", expected=sentences, found=len(lines))
    draw = random.Random(seed)
    behind: dict[tuple[int, str], list[str]] = {}  # the systems of each different translation of a drawn sentence
    for number in sorted(draw.sample(range(len(lines)), sentences)):
        text, line = lines[number]
        for system, translations in text.translations.items():
            behind.setdefault((number, translations[line]), []).append(system)
    items = [*behind]
    draw.shuffle(items)
    numbers = {item: number for number, item in enumerate(items, start=1)}
    with new_folder(folder) as unfinished:
        for rater in range(1, raters + 1):
            rows = []
            for item in draw.sample(items, len(items)):
                text, line = lines[item[0]]
                shown = map(_field, (text.sources[line], text.references[line], item[1]))
                rows.append("\t".join((str(numbers[item]), *shown, "\t\t\t")))
            write_lines(unfinished / f"rater-{rater}.tsv", [_HEADER, *rows])
        key = [
            f"{numbers[item]}\t{system}\t{text.test_set}\t{line + 1}"
            for item in items
            for text, line in [lines[item[0]]]
            for system in behind[item]
        ]
        write_lines(unfinished / KEY, [_KEY_HEADER, *key])
    return len(items)


def _field(text: str) -> str:
    """A text as a field of a table: a tabulator would begin the next field."""
    return text.replace("\t", " ")


def score_sheets(folder: Path) -> tuple[list[SystemRating], int]:
    """Read the key and all filled sheets of a folder. Returns ratings of systems, and the number of raters.

    Raises DataError naming sheet, line and column of a value that is missing or not allowed, and MismatchError for a
    sheet with other items than the key and for a copy of a sheet.
    """
    systems = _read_key(folder / KEY)
    sheets = sorted(folder.glob("rater-*.tsv"))
    if not sheets:
        raise DataError("no sheets", where=folder, expected="rater-1.tsv and further sheets")
    of_raters: list[dict[int, dict[str, int]]] = []
    for path in sheets:
        ratings = _read_sheet(path, systems)
        # Each rater gets the items in another order.
        copied = len(ratings) >= _MANY and any([*ratings.items()] == [*other.items()] for other in of_raters)
        if copied or not _SHEET.fullmatch(path.name):
            what, next_step = "a copy of a sheet would count as a further rater", "move it out of the folder"
            raise MismatchError(what, where=path, expected="rater-N.tsv, one for each rater", next_step=next_step)
        of_raters.append(ratings)
    items = sorted(systems)
    found = []
    for system in sorted({name for names in systems.values() for name in names}):
        own = [item for item in items if system in systems[item]]
        means = {
            question: statistics.fmean(ratings[item][question] for ratings in of_raters for item in own)
            for question in QUESTIONS
        }
        found.append(SystemRating(system, len(own), means))
    return found, len(sheets)


def _read_key(path: Path) -> dict[int, list[str]]:
    """The systems of each item."""
    systems: dict[int, list[str]] = {}
    for number, fields in _rows(path, _KEY_HEADER):
        if not fields[0].isdecimal():
            raise DataError("not a key of ratings", where=f"{path}, line {number}", found=fields[0])
        systems.setdefault(int(fields[0]), []).append(fields[1])
    return systems


def _read_sheet(path: Path, systems: Mapping[int, object]) -> dict[int, dict[str, int]]:
    ratings: dict[int, dict[str, int]] = {}
    for number, fields in _rows(path, _HEADER):
        item = int(fields[0]) if fields[0].isdecimal() else 0
        if item not in systems or item in ratings:
            what = "an item comes twice" if item in ratings else "an item that the key does not have"
            raise MismatchError(what, where=f"{path}, line {number}", found=fields[0])
        ratings[item] = {}
        for (question, allowed), value in zip(QUESTIONS.items(), fields[len(_SHOWN) :], strict=True):
            if value.strip() not in map(str, allowed):
                raise DataError(
                    f"no rating of {question}",
                    where=f"{path}, line {number}",
                    expected=f"one of {', '.join(map(str, allowed))}",
                    found=repr(value),
                    next_step="fill in the sheet",
                )
            ratings[item][question] = int(value)
    if missing := systems.keys() - ratings.keys():
        raise MismatchError("items are missing", where=path, expected=len(systems), found=f"no item {min(missing)}")
    return ratings


def _rows(path: Path, header: str) -> Iterable[tuple[int, list[str]]]:
    """The fields of each line after the header, with its number. Spreadsheets may add carriage returns."""
    lines = read_lines(path)
    if (found := next(lines, "").rstrip("\r")) != header:
        raise DataError("not a table of ratings", where=path, expected=repr(header), found=repr(found[:80]))
    columns = header.count("\t") + 1
    for number, line in enumerate(lines, start=2):
        fields = line.rstrip("\r").split("\t")
        if len(fields) != columns:
            raise DataError(
                "wrong number of columns", where=f"{path}, line {number}", expected=columns, found=len(fields)
            )
        yield number, fields
