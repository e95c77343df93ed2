"""The stage `build_vocabulary`: the ids of the subwords of the training text.

With `unit: word` the entries are whole words, and only the most frequent words have ids.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.stages.subwords import BuildVocabulary
from phrasemt.symbols import SEPARATOR, SPECIAL_TOKENS
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
            Vocabulary.read(path)
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
        Vocabulary.write(path, _ranked(counts_of_side, settings.words))
        for path, counts_of_side in zip(sides.values(), counts, strict=True)
    ]
    shared = ", one vocabulary for both" if settings.shared and len(sizes) == 2 else ""
    log.info("build_vocabulary: %s symbols%s", " and ".join(f"{size:,}" for size in sizes), shared)


def _ranked(counts: Counter[str], words: int | None) -> list[tuple[str, int]]:
    """The entries of a vocabulary with their counts, in the order of their ids. words: as `settings.words`."""
    # A text may contain "</s>" as a word. This word is not the special symbol: it gets no id and is read as <unk>.
    ordinary = ((subword, count) for subword, count in counts.items() if subword not in SPECIAL_TOKENS)
    ranked = sorted(ordinary, key=lambda entry: (-entry[1], entry[0]))
    if words is None:
        return ranked
    # A whole word that ends in the mark of subwords gets no id either: after translation it would join the next word.
    return [(word, count) for word, count in ranked if not word.endswith(SEPARATOR)][:words]
