"""From rows of the example store to batches with everything a model asked for."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.architectures import Architecture, PhraseSegmentation
from phrasemt.batching.batch import Batch, Source, collate_phrases, collate_source, collate_target
from phrasemt.batching.example import Examples
from phrasemt.columns import ColumnFile
from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.syntax.ngrams import ngram_ends

log = logging.getLogger("phrasemt.batching")

# Subwords of a side that a model sees. Training leaves longer pairs out by the study's max_length, which is at most
# this; in dev and test, which are never filtered, a line of a hundred thousand characters must not fill the memory.
LONGEST_SENTENCE = 1024


class SourceCollator:
    """Source sentences -> `Source`, with phrases when the model's settings ask for them.

    phrases: the phrase columns of the rows, one file or none; n-gram phrases follow from the length and need none.
    Raises MismatchError for columns of another segmentation or for none where the settings need them.
    """

    def __init__(self, settings: Architecture, phrases: Sequence[Path] = ()) -> None:
        self._segmentation = settings.source_phrases
        self.phrases: ColumnFile | None = None
        if self._segmentation and self._segmentation.mode != "ngram":
            self.phrases = _open_phrases(phrases, self._segmentation)
        # Few lengths occur, so n-gram phrases are made once for each.
        self._ngram_ends = functools.cache(ngram_ends)

    def __call__(self, sentences: Sequence[NDArray[np.int32]], positions: Sequence[int]) -> Source:
        """Sentences are subword ids without `</s>`; positions are theirs in the phrase columns."""
        if self._segmentation is None:
            return collate_source(sentences)
        ends = [
            self._ends(len(sentence) + 1, position) for sentence, position in zip(sentences, positions, strict=True)
        ]
        return collate_source(sentences, collate_phrases(ends))

    def _ends(self, length: int, position: int) -> NDArray[np.int64]:
        assert self._segmentation is not None
        if self.phrases is None:
            return self._ngram_ends(length, self._segmentation)
        ends = self.phrases.values("ends", position).astype(np.int64)
        if length == LONGEST_SENTENCE + 1:  # the sentence may have been cut
            ends = np.append(ends[ends < length], length)
        if not len(ends) or ends[0] < 1 or (np.diff(ends) < 1).any() or ends[-1] != length:
            raise DamagedFileError(
                "phrases do not fit their sentence",
                where=f"{self.phrases.path}, row {self.phrases.rows[position]}",
                expected=f"increasing ends, the last of them {length}",
                found=" ".join(map(str, ends.tolist()[:20])) or "none",
                next_step="delete it and run again",
            )
        return ends


def _open_phrases(paths: Sequence[Path], segmentation: PhraseSegmentation) -> ColumnFile:
    if len(paths) != 1:
        raise MismatchError(
            f"a model with phrases of mode {segmentation.mode} needs their columns",
            where="--phrases",
            expected="one file",
            found=" ".join(map(str, paths)) or "none",
            next_step="run extract_phrases with the segmentation of the model",
        )
    columns = ColumnFile.open(paths[0], ["ends"])
    if (found := columns.description.get("segmentation")) != segmentation.model_dump(mode="json"):
        raise MismatchError(
            "phrases of another segmentation",
            where=paths[0],
            expected=segmentation.canonical_json(),
            found=found,
            next_step="run extract_phrases with the segmentation of the model",
        )
    return columns


class BatchReader:
    """Rows of an example store -> `Batch`. Of a longer sentence the first `LONGEST_SENTENCE` subwords are taken.

    phrases: as in `SourceCollator`. Raises MismatchError when they are not over the rows of the examples.
    """

    def __init__(self, examples: Examples, settings: Architecture, phrases: Sequence[Path] = ()) -> None:
        self.examples = examples
        self._collate_source = SourceCollator(settings, phrases)
        columns = self._collate_source.phrases
        if columns is not None and not np.array_equal(columns.rows, examples.rows):
            raise MismatchError(
                "phrases of other rows than the examples",
                where=f"{columns.path}, {examples.path}",
                expected=f"the same {len(examples)} rows",
                found=f"{len(columns)} rows",
                next_step="run extract_phrases and pack_examples on the same split",
            )
        longer = int((examples.source_lengths > LONGEST_SENTENCE).sum())
        if longer:
            log.warning("%d source sentences are cut after %d subwords", longer, LONGEST_SENTENCE)

    def __call__(self, positions: Sequence[int] | NDArray[np.int64]) -> Batch:
        positions = [int(position) for position in positions]
        return Batch(
            rows=tuple(positions),
            source=self.source(positions),
            target=collate_target([self.examples.target(position)[:LONGEST_SENTENCE] for position in positions]),
        )

    def source(self, positions: Sequence[int] | NDArray[np.int64]) -> Source:
        """The source side alone, for translation."""
        positions = [int(position) for position in positions]
        sentences = [self.examples.source(position)[:LONGEST_SENTENCE] for position in positions]
        return self._collate_source(sentences, positions)
