"""Contrastive pairs from outside: a source, its translation, and the same translation with one mistake.

Three forms are read: the JSON of LingEval97 (Sennrich 2017), tables with tabulators, and folders of DistilLingEval
(Vamvas and Sennrich 2021) with one file for each of the three texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines, read_parallel


@dataclass(frozen=True)
class ContrastivePair:
    """A pair. kind: of the mistake, or empty. distance: in words, between the words that must agree; None: unknown."""

    source: str
    right: str
    wrong: str
    kind: str = ""
    distance: int | None = None


class _Mistake(BaseModel):
    type: str
    contrastive: str
    distance: int | None = None


class _Sentence(BaseModel):
    source: str
    reference: str
    errors: list[_Mistake]


def read_contrastive_pairs(path: Path) -> list[ContrastivePair]:
    """Read a folder of DistilLingEval, a file `.json` of LingEval97, or a table source, right, wrong[, distance].

    Raises DataError for another form, with the line of a table, and for a file without pairs.
    """
    if path.is_dir():
        pairs = _read_folder(path)
    elif path.suffix == ".json":
        pairs = _read_lingeval(path)
    else:
        pairs = [_read_row(path, number, line) for number, line in enumerate(read_lines(path), start=1)]
    if not pairs:
        raise DataError("no contrastive pairs", where=path)
    return pairs


def _read_folder(path: Path) -> list[ContrastivePair]:
    files = []
    for text in ("src", "tgt.correct", "tgt.incorrect"):
        found = sorted(path.glob(f"{text}.*"))
        if len(found) != 1:
            raise DataError(
                "not a folder of DistilLingEval", where=path, expected=f"one file {text}.*", found=len(found)
            )
        files += found
    return [ContrastivePair(source, right, wrong, kind=path.name) for source, right, wrong in read_parallel(*files)]


def _read_lingeval(path: Path) -> list[ContrastivePair]:
    try:
        sentences = TypeAdapter(list[_Sentence]).validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError("no such file", where=path) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise DataError("not the JSON of LingEval97", where=f"{path}, {place}", found=first["msg"]) from None
    return [
        ContrastivePair(one.source, one.reference, mistake.contrastive, mistake.type, mistake.distance)
        for one in sentences
        for mistake in one.errors
    ]


def _read_row(path: Path, number: int, line: str) -> ContrastivePair:
    fields = line.rstrip("\r").split("\t")
    if len(fields) not in (3, 4) or not all(fields[:3]) or not (len(fields) == 3 or fields[3].isdecimal()):
        raise DataError(
            "not a contrastive pair",
            where=f"{path}, line {number}",
            expected="source, right, wrong and perhaps a distance in words, with tabulators between them",
            found=repr(line[:80]),
        )
    source, right, wrong, *distance = fields
    return ContrastivePair(source, right, wrong, distance=int(distance[0]) if distance else None)
