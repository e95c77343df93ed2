"""Translation of a whole split by beam search or sampling, in batches of similar length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.errors import DataError
from phrasemt.models.interface import SearchableModel
from phrasemt.search.beam import Hypothesis, beam_search
from phrasemt.search.sampling import sample
from phrasemt.study.schema import Decoding
from phrasemt.symbols import UNK
from phrasemt.text.vocab import Vocabulary

# Source positions of a batch times hypotheses. On a CPU more make no product faster. A GPU has room for many more; a
# batch that does not fit into its memory is divided.
_BATCH_POSITIONS = {"cpu": 8_000, "cuda": 200_000}
# A short sentence counts as so many positions, because a step needs the same memory for each sentence.
_LEAST_POSITIONS = 8


def prefix_ids(settings: Decoding, words: Vocabulary) -> list[int]:
    """Return the ids of the forced prefix. Raises DataError for a subword that the vocabulary lacks."""
    subwords = settings.prefix.split()
    ids: list[int] = words.ids(subwords).tolist()
    if unknown := [subword for subword, number in zip(subwords, ids, strict=True) if number == UNK]:
        raise DataError(
            "the vocabulary lacks a subword of decoding.prefix",
            found=repr(unknown[0]),
            next_step="give subwords as they stand in the vocabulary of the target side, separated by blanks",
        )
    return ids


def translate_split(
    model: SearchableModel[Any, Any],
    reader: BatchReader,
    settings: Decoding,
    *,
    device: torch.device,
    prefix: Sequence[int] = (),
    on_progress: Callable[[int], object] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every pair of the example store, in its order; for each pair the best first.

    A source without subwords has one hypothesis, the empty one: a model would invent a translation.
    prefix: `prefix_ids` of the settings. on_progress: called with the number of sentences of each translated batch.
    """
    results: dict[int, list[Hypothesis]] = {}
    for rows, hypotheses in _in_batches(in_precision(model, settings), reader, settings, device, prefix):
        results.update(zip(rows, hypotheses, strict=True))
        on_progress(len(rows))
    return [results[row] for row in range(len(reader.examples))]


def in_precision(model: SearchableModel[Any, Any], settings: Decoding) -> SearchableModel[Any, Any]:
    """Return the model with weights of the type that the settings name: itself, or a copy. Autocast does the rest."""
    if settings.precision == "float32":
        return model
    return copy.deepcopy(model).to(torch.bfloat16)


def _in_batches(
    model: SearchableModel[Any, Any],
    reader: BatchReader,
    settings: Decoding,
    device: torch.device,
    prefix: Sequence[int],
) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
    lengths = reader.examples.source_lengths[np.arange(len(reader.examples))]
    if blank := np.flatnonzero(lengths == 0).tolist():
        yield blank, [[Hypothesis(tokens=(), log_prob=0.0, score=0.0)] for _ in blank]
    rows = np.flatnonzero(lengths)
    counted = np.maximum(lengths, _LEAST_POSITIONS)
    hypotheses = settings.n_best if settings.sampling else settings.beam
    capacity = max(1, _BATCH_POSITIONS[device.type] // hypotheses)
    for batch_rows in micro_batches(rows, counted, counted, capacity=capacity):
        yield batch_rows.tolist(), _translate(model, reader, settings, device, prefix, batch_rows.tolist())


def _translate(
    model: SearchableModel[Any, Any],
    reader: BatchReader,
    settings: Decoding,
    device: torch.device,
    prefix: Sequence[int],
    rows: list[int],
) -> list[list[Hypothesis]]:
    source = reader.source(np.array(rows)).to(device)
    prefixes = [prefix] * len(rows) if prefix else None
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            if settings.sampling is not None:
                return sample(model, source, settings, rows, prefixes)
            return beam_search(model, source, settings, prefixes)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise
    middle = len(rows) // 2
    halves = [_translate(model, reader, settings, device, prefix, half) for half in (rows[:middle], rows[middle:])]
    return [*halves[0], *halves[1]]
