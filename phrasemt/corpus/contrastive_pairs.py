"""Contrastive pairs: a source, its translation, and the same translation with one mistake.

Three forms are read: the JSON of LingEval97 (Sennrich 2017), tables with tabulators, and three texts line by line, as
in DistilLingEval (Vamvas and Sennrich 2021). The stage `extract_contrasts` turns each form into the one that the
generator of the demo writes, too: a split of sources and right translations, and a table with the columns of `HEADER`
beside it, whose rows name rows of the split. So sources of contrastive pairs are parsed and cut into phrases as the
sources of any split.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, TypeAdapter, ValidationError

from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines, read_parallel, write_lines

if TYPE_CHECKING:
    from phrasemt.stages.corpus import ExtractContrasts

log = logging.getLogger("phrasemt.extract_contrasts")

HEADER = "row\tsource\tright\twrong\tdistance\tkind"


@dataclass(frozen=True)
class ContrastivePair:
    """A pair. kind: of the mistake, or empty. distance: in words, between the words that must agree; None: unknown."""

    source: str
    right: str
    wrong: str
    kind: str = ""
    distance: int | None = None


_SPACES = str.maketrans("\t\r\n", "   ")


class _Mistake(BaseModel):
    type: str
    contrastive: str
    distance: int | None = None


class _Sentence(BaseModel):
    source: str
    reference: str
    errors: list[_Mistake]


def extract_contrasts(
    *, settings: ExtractContrasts, cores: int, files: list[Path], source: Path, target: Path, contrasts: Path
) -> None:
    """Write the different sources with their right translations as a split, and the table of all pairs.

    files: those of all texts of the set, one after the other; settings.texts tells how many each has.
    Raises DataError for files of another form, with the place, and for texts without pairs.
    """
    rest = iter(files)
    pairs: list[ContrastivePair] = []
    for text in settings.texts:
        pairs += read_contrastive_pairs(list(itertools.islice(rest, text.files)), kind=text.kind)
    rows: dict[tuple[str, str], int] = {}
    lines = [HEADER]
    for pair in pairs:
        row = rows.setdefault((pair.source, pair.right), len(rows))
        distance = "" if pair.distance is None else pair.distance
        lines.append(f"{row}\t{pair.source}\t{pair.right}\t{pair.wrong}\t{distance}\t{pair.kind}")
    write_lines(source, (text for text, _ in rows))
    write_lines(target, (text for _, text in rows))
    write_lines(contrasts, lines)
    kinds = len({pair.kind for pair in pairs})
    log.info("extract_contrasts: %d pairs of %d sentences, kinds of mistakes: %d", len(pairs), len(rows), kinds)


def read_contrasts(path: Path) -> tuple[list[int], list[ContrastivePair]]:
    """Read a table of `extract_contrasts` or of the generator: the rows of the pairs in their split, and the pairs.

    Raises DataError, with the line, for another table.
    """
    lines = read_lines(path)
    if (header := next(lines, "")) != HEADER:
        raise DataError("not a file of contrastive pairs", where=path, expected=repr(HEADER), found=repr(header))
    rows, pairs = [], []
    for number, line in enumerate(lines, start=2):
        row, tab, fields = line.partition("\t")
        if not (tab and row.isdecimal() and fields.count("\t") == 4):
            raise _not_a_pair(path, number, line, HEADER.replace("\t", ", "))
        rows.append(int(row))
        pairs.append(_read_row(path, number, fields))
    return rows, pairs


def files_of_folder(folder: Path) -> list[Path]:
    """The three texts in a folder of DistilLingEval. Raises DataError if one is missing or not alone."""
    files = []
    for text in ("src", "tgt.correct", "tgt.incorrect"):
        found = sorted(folder.glob(f"{text}.*"))
        if len(found) != 1:
            raise DataError(
                "not a folder of DistilLingEval", where=folder, expected=f"one file {text}.*", found=len(found)
            )
        files += found
    return files


def read_contrastive_pairs(files: Sequence[Path], *, kind: str = "") -> list[ContrastivePair]:
    """Read a file `.json` of LingEval97, a table source, right, wrong[, distance[, kind]], or three such texts.

    kind: of the mistakes of texts and of rows that name none. Tabulators and line breaks in the JSON become spaces.
    Raises DataError for another form, with the line of a table, and for files without pairs.
    """
    first = files[0]
    if len(files) == 3:
        pairs = [ContrastivePair(source, right, wrong, kind) for source, right, wrong in _read_texts(files)]
    elif first.suffix == ".json":
        pairs = list(_read_lingeval(first))
    else:
        lines = enumerate(read_lines(first), start=1)
        pairs = [_read_row(first, number, line, kind=kind) for number, line in lines]
    if not pairs:
        raise DataError("no contrastive pairs", where=first)
    return pairs


def _read_texts(files: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    for number, texts in enumerate(read_parallel(*files), start=1):
        if not all(texts) or any("\t" in text for text in texts):
            where = ", ".join(map(str, files))
            raise _not_a_pair(where, number, " | ".join(texts), "three texts without tabulators")
        yield texts


def _read_lingeval(path: Path) -> Iterator[ContrastivePair]:
    try:
        sentences = TypeAdapter(list[_Sentence]).validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError("no such file", where=path) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise DataError("not the JSON of LingEval97", where=f"{path}, {place}", found=first["msg"]) from None
    for one in sentences:
        for mistake in one.errors:
            texts = (one.source, one.reference, mistake.contrastive, mistake.type)
            source, right, wrong, kind = (text.translate(_SPACES) for text in texts)
            yield ContrastivePair(source, right, wrong, kind, mistake.distance or None)


def _read_row(path: Path, number: int, line: str, *, kind: str = "") -> ContrastivePair:
    fields = line.rstrip("\r").split("\t")
    source, right, wrong, distance, own_kind = (*fields, "", "", "")[:5] if len(fields) <= 5 else [""] * 5
    if not (len(fields) >= 3 and source and right and wrong and (not distance or distance.isdecimal())):
        raise _not_a_pair(
            path, number, line, "tab-separated: source, right, wrong, perhaps a distance in words, and a kind"
        )
    if distance and int(distance) == 0:
        raise _not_a_pair(path, number, line, "a distance of at least 1, because neighbours have the distance 1")
    return ContrastivePair(source, right, wrong, own_kind or kind, int(distance) if distance else None)


def _not_a_pair(path: Path | str, number: int, line: str, expected: str) -> DataError:
    return DataError("not a contrastive pair", where=f"{path}, line {number}", expected=expected, found=repr(line[:80]))
