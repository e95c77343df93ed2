"""The stage `extract_contrasts`, and `generate_demo`, which writes a split of the demonstration corpus.

A contrastive pair is a source, its translation, and the same translation with one mistake.

Three forms are read: the JSON of LingEval97 (Sennrich 2017), tables with tabulators, and three texts line by line, as
in DistilLingEval (Vamvas and Sennrich 2021). The stage `extract_contrasts` turns each into a split of sources and right
translations, which are parsed and cut into phrases like any split, and `Contrasts`, whose rows name rows of the split.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, TypeAdapter, ValidationError

from democorpus.pairs import DemoPair, conll, demo_pairs, distant_pairs
from phrasemt.artefacts.corpus import ContrastivePair, Contrasts, not_a_pair, read_pair
from phrasemt.errors import DataError
from phrasemt.files.lines import open_binary, read_lines, read_parallel, write_atomic, write_lines
from phrasemt.files.preprocessing import comparable, normalise_spaces

if TYPE_CHECKING:
    from phrasemt.stages.corpus import ExtractContrasts, GenerateDemo

log = logging.getLogger("phrasemt.extract_contrasts")

AGREEMENT = "subj_verb_agreement"  # kind of the mistakes, as LingEval97 names it

_SPACES = str.maketrans("\t\r\n", "   ")
# Names of the first three columns of a table, in small letters.
_HEADINGS = ({"source", "src"}, {"right", "correct", "reference"}, {"wrong", "incorrect", "contrastive"})


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
        if text.generated is not None:
            made = distant_pairs(pairs=text.generated, seed=1)
            pairs += (ContrastivePair(pair.source, pair.target, pair.wrong, AGREEMENT, pair.distance) for pair in made)
            continue
        pairs += read_contrastive_pairs(list(itertools.islice(rest, text.files)), kind=text.kind)
    rows: dict[tuple[str, str], int] = {}
    places = [rows.setdefault((pair.source, pair.right), len(rows)) for pair in pairs]
    write_lines(source, (text for text, _ in rows))
    write_lines(target, (text for _, text in rows))
    Contrasts.write(contrasts, places, pairs)
    kinds = len({pair.kind for pair in pairs})
    log.info("extract_contrasts: %d pairs of %d sentences, kinds of mistakes: %d", len(pairs), len(rows), kinds)


def read_contrastive_pairs(files: Sequence[Path], *, kind: str = "") -> list[ContrastivePair]:
    """Read a file `.json` of LingEval97, a table source, right, wrong[, distance[, kind[, cluster]]], or three texts.

    kind: of the mistakes of texts and of rows that name none. Tabulators and line breaks in the JSON become spaces. A
    table may begin with the names of its columns. Pairs whose translations are equal are left out, with a warning: no
    system could decide them right.
    Raises DataError for another form, with the line of a table, and for files without pairs.
    """
    file = files[0]
    if len(files) == 3:
        pairs = [ContrastivePair(source, right, wrong, kind) for source, right, wrong in _read_texts(files)]
    elif file.suffix == ".json":
        pairs = list(_read_lingeval(file))
    else:
        lines = enumerate(read_lines(file), start=1)
        pairs = [read_pair(file, number, line, kind=kind) for number, line in lines if number > 1 or not _heads(line)]
    different = [pair for pair in pairs if _same(pair.right) != _same(pair.wrong)]
    if equal := len(pairs) - len(different):
        log.warning("warning: %s: left out %d pairs whose right and wrong translations are equal", file, equal)
    if not different:
        raise DataError("no contrastive pairs", where=file, next_step="name a file of contrastive pairs")
    return different


def _heads(line: str) -> bool:
    """Whether the first line of a table names its columns."""
    fields = [field.strip() for field in line.lower().split("\t")]
    return len(fields) >= 3 and all(field in names for field, names in zip(fields, _HEADINGS, strict=False))


def _same(line: str) -> str:
    return comparable(normalise_spaces(line))


def _read_texts(files: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    for number, texts in enumerate(read_parallel(*files), start=1):
        if not all(texts) or any("\t" in text for text in texts):
            where = ", ".join(map(str, files))
            raise not_a_pair(where, number, " | ".join(texts), "three texts without tabulators")
        yield texts


def _read_lingeval(path: Path) -> Iterator[ContrastivePair]:
    try:
        with open_binary(path) as stream:
            content = stream.read().removeprefix(codecs.BOM_UTF8)
        sentences = TypeAdapter(list[_Sentence]).validate_json(content)
    except ValidationError as error:
        details = error.errors()[0]
        place = ".".join(map(str, details["loc"])) or "file"
        raise DataError("not the JSON of LingEval97", where=f"{path}, {place}", found=details["msg"]) from None
    for sentence in sentences:
        for mistake in sentence.errors:
            texts = (sentence.source, sentence.reference, mistake.contrastive, mistake.type)
            source, right, wrong, kind = (text.translate(_SPACES) for text in texts)
            yield ContrastivePair(source, right, wrong, kind, mistake.distance or None)


def generate_demo(
    *,
    settings: GenerateDemo,
    cores: int,
    source: Path,
    target: Path,
    trees: Path,
    source_chunks: Path,
    target_chunks: Path,
    contrasts: Path,
) -> None:
    """Write one split: texts, trees, chunks and the table of contrastive pairs.

    Memory does not grow with the split. The stage uses one core and writes thousands of pairs per second.
    Raises DataError for a split that is too small for its multiword units.
    """
    options = {"multiword_units": settings.multiword_units, "long_sentences": settings.long_sentences}
    pairs = demo_pairs(split=settings.split, pairs=settings.pairs, seed=settings.seed, **options)
    with contextlib.ExitStack() as files:
        paths = (source, target, trees, source_chunks, target_chunks, contrasts)
        streams = [files.enter_context(write_atomic(path)) for path in paths]
        streams[-1].write(f"{Contrasts.header}\n".encode())
        for row, pair in enumerate(_with_room(pairs)):
            contrast = ""
            if pair.contrast is not None:
                wrong, distance, kind, unit = pair.contrast
                contrastive = ContrastivePair(pair.source, pair.target, wrong, kind or AGREEMENT, distance, unit)
                contrast = f"{Contrasts.line(row, contrastive)}\n"
            texts = [
                pair.source + "\n",
                pair.target + "\n",
                pair.tree + "\n",
                conll(pair.source_tokens, pair.source_chunks),
                conll(pair.target_tokens, pair.target_chunks),
                contrast,
            ]
            for stream, text in zip(streams, texts, strict=True):
                stream.write(text.encode("utf-8"))


def _with_room(pairs: Iterator[DemoPair]) -> Iterator[DemoPair]:
    try:
        yield from pairs
    except ValueError as error:
        raise DataError(str(error), where="generator", next_step="give the split more pairs") from None
