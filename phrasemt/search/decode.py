"""Translation of a whole split by beam search, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.models.interface import TranslationModel
from phrasemt.search.beam import Hypothesis, beam_search
from phrasemt.study.schema import Decoding

# Source positions of a batch times hypotheses. More make no product faster, and these fit into any machine's memory.
_BATCH_POSITIONS = 8_000


def translate_split(
    model: TranslationModel[Any, Any],
    reader: BatchReader,
    settings: Decoding,
    *,
    device: torch.device,
    on_progress: Callable[[int], object] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every pair of the example store, in its order; for each pair the best first.

    A source without subwords has one hypothesis, the empty one: a model would invent a translation.
    on_progress: called with the number of sentences of each batch once it is translated.
    """
    results: dict[int, list[Hypothesis]] = {}
    for rows, hypotheses in _in_batches(model, reader, settings, device):
        results.update(zip(rows, hypotheses, strict=True))
        on_progress(len(rows))
    return [results[row] for row in range(len(reader.examples))]


def _in_batches(
    model: TranslationModel[Any, Any], reader: BatchReader, settings: Decoding, device: torch.device
) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
    lengths = reader.examples.source_lengths[np.arange(len(reader.examples))]
    if blank := np.flatnonzero(lengths == 0).tolist():
        yield blank, [[Hypothesis(tokens=(), log_prob=0.0, score=0.0)] for _ in blank]
    rows = np.flatnonzero(lengths)
    for batch_rows in micro_batches(rows, lengths, lengths, capacity=max(1, _BATCH_POSITIONS // settings.beam)):
        source = reader.source(batch_rows).to(device)
        yield batch_rows.tolist(), beam_search(model, source, settings)
