"""Contrastive pairs: a source, its translation, and the same translation with one mistake.

Three forms are read: the JSON of LingEval97 (Sennrich 2017), tables with tabulators, and three texts line by line, as
in DistilLingEval (Vamvas and Sennrich 2021). The stage `extract_contrasts` turns each form into the one that the
generator of the demo writes, too: a split of sources and right translations, and `Contrasts` beside it, whose rows name
rows of the split. So sources of contrastive pairs are parsed and cut into phrases as the sources of any split.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, TypeAdapter, ValidationError

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.corpus import ContrastivePair, Contrasts, OriginalFile, RawText, UserFile, not_a_pair, read_pair
from phrasemt.errors import DataError, check_equal
from phrasemt.files.lines import read_lines, read_parallel, write_lines

if TYPE_CHECKING:
    from phrasemt.stages.corpus import ExtractContrasts

log = logging.getLogger("phrasemt.extract_contrasts")

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
    *,
    settings: ExtractContrasts,
    cores: int,
    files: list[In[OriginalFile | UserFile]],
    source: Out[RawText],
    target: Out[RawText],
    contrasts: Out[Contrasts],
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
    places = [rows.setdefault((pair.source, pair.right), len(rows)) for pair in pairs]
    write_lines(source, (text for text, _ in rows))
    write_lines(target, (text for _, text in rows))
    Contrasts.write(contrasts, places, pairs)
    kinds = len({pair.kind for pair in pairs})
    log.info("extract_contrasts: %d pairs of %d sentences, kinds of mistakes: %d", len(pairs), len(rows), kinds)


def files_of_folder(folder: Path) -> list[Path]:
    """The three texts in a folder of DistilLingEval. Raises MismatchError if one is missing or not alone."""
    files = []
    for text in ("src", "tgt.correct", "tgt.incorrect"):
        found = sorted(folder.glob(f"{text}.*"))
        what, next_step = f"not a folder of DistilLingEval: it needs one file {text}.*", "name its folder"
        check_equal(1, len(found), what, where=folder, next_step=next_step)
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
        pairs = [read_pair(first, number, line, kind=kind) for number, line in lines]
    if not pairs:
        raise DataError("no contrastive pairs", where=first)
    return pairs


def _read_texts(files: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    for number, texts in enumerate(read_parallel(*files), start=1):
        if not all(texts) or any("\t" in text for text in texts):
            where = ", ".join(map(str, files))
            raise not_a_pair(where, number, " | ".join(texts), "three texts without tabulators")
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
