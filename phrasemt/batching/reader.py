"""From rows of the example store to batches with everything a model asked for."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasemt.batching.batch import Batch, Source, collate_phrases, collate_source, collate_target
from phrasemt.batching.example import Examples
from phrasemt.config import TransformerModel
from phrasemt.syntax.phrases import ngram_ends

log = logging.getLogger("phrasemt.batching")


class SourceCollator:
    """Source sentences -> `Source`, with phrases when the model's settings ask for them."""

    def __init__(self, settings: TransformerModel) -> None:
        segmentation = settings.source_phrases
        # Phrases follow from the length alone here, and few lengths occur.
        self._ends = functools.cache(lambda length: ngram_ends(length, segmentation)) if segmentation else None

    def __call__(self, sentences: Sequence[NDArray[np.int32]]) -> Source:
        """Sentences are subword ids without `</s>`."""
        phrases = collate_phrases([self._ends(len(sentence) + 1) for sentence in sentences]) if self._ends else None
        return collate_source(sentences, phrases)


# Subwords of a side that a model sees. Training leaves longer pairs out by the study's max_length, which is at most
# this; in dev and test, which are never filtered, a line of a hundred thousand characters must not fill the memory.
LONGEST_SENTENCE = 1024


class BatchReader:
    """Rows of an example store -> `Batch`. Of a longer sentence the first `LONGEST_SENTENCE` subwords are taken."""

    def __init__(self, examples: Examples, settings: TransformerModel) -> None:
        self.examples = examples
        self._collate_source = SourceCollator(settings)
        longer = int((examples.source_lengths > LONGEST_SENTENCE).sum())
        if longer:
            log.warning("%d source sentences are cut after %d subwords", longer, LONGEST_SENTENCE)

    def __call__(self, rows: Sequence[int] | NDArray[np.int64]) -> Batch:
        rows = [int(row) for row in rows]
        return Batch(
            rows=tuple(rows),
            source=self.source(rows),
            target=collate_target([self.examples.target(row)[:LONGEST_SENTENCE] for row in rows]),
        )

    def source(self, rows: Sequence[int] | NDArray[np.int64]) -> Source:
        """The source side alone, for translation."""
        return self._collate_source([self.examples.source(int(row))[:LONGEST_SENTENCE] for row in rows])
