"""The stage `extract_phrases`: source sentences cut into phrases.

The segmentation of a sentence is the increasing list of its phrase ends. A phrase begins where the previous phrase
ends; the last end is the number of encoder positions of the sentence, `</s>` included. The functions of
`phrasemt.syntax.phrases.segmenters` compute the ends.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.columns import PhraseColumns
from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.errors import DataError, check_equal
from phrasemt.files.columns import RaggedArray
from phrasemt.files.lines import read_lines
from phrasemt.files.parallel import map_in_order
from phrasemt.phrase_modes import PHRASE_MODES
from phrasemt.stages.syntax import ExtractPhrases
from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.annotations import Annotation, Annotations, required
from phrasemt.syntax.phrases import segmenters
from phrasemt.syntax.phrases.ngrams import ngram_ends
from phrasemt.syntax.phrases.segmenters import Segmenter, SourceSentence
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.word_offsets import SplitLines, offsets_of_block, split_lines

log = logging.getLogger("phrasemt.extract_phrases")

_LINES_PER_BATCH = 8192


@dataclass(frozen=True)
class _Cut:
    """The phrases of a batch. fallbacks: how many sentences without a parse were cut into n-grams, by reason."""

    rows: NDArray[np.int64]
    ends: RaggedArray
    fallbacks: Counter[str]


def extract_phrases(
    *,
    settings: ExtractPhrases,
    cores: int,
    rows: Path,
    tokens: Path,
    subwords: Path,
    parses: list[Path],
    given: list[Path],
    dropped: list[Path],
    phrases: Path,
) -> None:
    """Write the column `ends` over the rows of a split: the phrase ends of each sentence, in encoder positions.

    dropped: the `.dropped.tsv` file of clean_pairs, for the number of raw pairs; needed with mode `given`.

    If the segmentation needs a parse and a sentence has none, the sentence is cut into n-grams. The phrases of a
    sentence depend only on the sentence, its parse and the settings.

    Raises DataError, with file and line, if rows do not increase, if words and subwords belong to different sentences,
    or if given phrases do not fit the sentence; MismatchError if a sentence is not among the parses.
    """
    segmentation = settings.segmentation
    cuts = map_in_order(
        _cut_batch,
        _read_batches(rows, tokens, subwords, given, dropped),
        jobs=cores,
        prepare=_Cutter,
        arguments=(segmentation, parses, given),
    )
    phrase_count, fallbacks = 0, Counter[str]()

    def batches() -> Iterator[tuple[NDArray[np.int64], dict[str, RaggedArray]]]:
        nonlocal phrase_count
        for cut in cuts:
            phrase_count += len(cut.ends.values)
            fallbacks.update(cut.fallbacks)
            yield cut.rows, {"ends": cut.ends}

    sentences = PhraseColumns.write(phrases, subwords, segmentation.model_dump(mode="json"), batches())
    log.info("extract_phrases: %s: %s sentences, %s phrases", segmentation.mode, f"{sentences:,}", f"{phrase_count:,}")
    for reason, count in fallbacks.most_common():
        log.info("extract_phrases: %s sentences cut into n-grams: %s", f"{count:,}", reason)


def _read_batches(
    rows: Path, tokens: Path, subwords: Path, given: Sequence[Path], dropped: Sequence[Path]
) -> Iterator[SplitLines[str]]:
    user_lines = itertools.chain.from_iterable(map(read_lines, given))
    last = -1
    for batch in split_lines(
        rows, tokens, subwords, lines=_LINES_PER_BATCH, what="phrases", files=given, items=user_lines
    ):
        yield batch
        last = batch.rows[-1]
    for path in dropped:
        raw_pairs = DroppedPairs.read(path).raw_pairs
        what = "the file of phrases does not have a line for each raw pair"
        next_step = "give the phrase ends of every raw sentence, dropped sentences included"
        check_equal(raw_pairs, last + 1 + sum(1 for _ in user_lines), what, where=given[-1], next_step=next_step)


class _Cutter:
    """A segmentation with its parses. `map_in_order` makes one in each process."""

    def __init__(self, settings: PhraseSegmentation, parses: Sequence[Path], given: Sequence[Path]) -> None:
        self.settings = settings
        self.parses = Annotations.open(parses) if parses else None
        self.given = ", ".join(map(str, given))

    def trees(self, keys: Sequence[bytes]) -> list[Annotation | None]:
        return self.parses.find(keys) if self.parses else [Annotation("", None)] * len(keys)


def _cut_batch(cutter: _Cutter, batch: SplitLines[str]) -> _Cut:
    settings = cutter.settings
    segment: Segmenter = getattr(segmenters, str(PHRASE_MODES[settings.mode].segmenter))
    found: list[Sequence[int]] = []
    fallbacks: Counter[str] = Counter()
    lines, offsets = offsets_of_block(batch.tokens, batch.subwords)
    keys = [sentence_key(parser_tokens(line)) for line in lines]
    given: list[Sequence[int]] = [()] * len(lines)
    for number, line in enumerate(batch.given or ()):
        where = f"{cutter.given}, line {batch.rows[number] + 1}"
        given[number] = _given_ends(line, len(offsets[number]) - 1, where)
    for number, annotation in enumerate(cutter.trees(keys)):
        if len(offsets[number]) == 1:  # an empty sentence is never annotated
            found.append([1])
        elif (parse := required(annotation, batch.place(number))).text is None:
            fallbacks[str(parse.failure)] += 1
            found.append(ngram_ends(offsets[number][-1] + 1, settings).tolist())
        else:
            found.append(segment(SourceSentence(offsets[number], keys[number], parse.text, given[number]), settings))
    return _Cut(np.array(batch.rows, np.int64), RaggedArray.of(found), fallbacks)


def _given_ends(line: str, words: int, where: str) -> list[int]:
    ends = [int(end) if end.isascii() and end.isdigit() else -1 for end in line.split(" ")] if line else []
    if any(end <= start for start, end in itertools.pairwise([0, *ends])) or (ends[-1] if ends else 0) != words:
        raise DataError(
            "the phrase ends do not fit the sentence",
            where=where,
            expected=f"increasing ends, the last of them {words}" if words else "an empty line",
            found=repr(line[:80]),
            next_step="give the phrase ends in words, separated by spaces",
        )
    return ends
