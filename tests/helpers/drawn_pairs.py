"""Drawn sentence pairs as packed files, for trainings and searches in which the text does not matter."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.columns import Examples
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.files.columns import RaggedArray, write_columns
from phrasemt.stages.training import TrainModel
from phrasemt.study.architectures import ModelInputs
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL, NULL_LABEL, SPECIAL_TOKENS

ZIPF = 1.3  # exponent of the frequencies of words by rank


def drawn_reader(
    reads: ModelInputs, *, pairs: int, vocabulary: int, median: float = 25, longest: int = 100, seed: int = 1
) -> BatchReader:
    """Batches of drawn pairs, with all that the model reads. Phrases are n-grams, which need no file.

    Lengths are log-normal; by default their mean is 28 subwords, as in WMT. The reader maps files that are already
    deleted.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(median), 0.5, pairs)
    source, target = (np.clip(lengths * rng.normal(1, 0.1, pairs), 1, longest).astype(np.int32) for _ in Examples.sides)
    if not reads.source:
        source[:] = 0
    with tempfile.TemporaryDirectory() as folder:
        examples, chunks = Path(folder, "examples.arrow"), Path(folder, "chunks.arrow")
        sides = {"source": _words(rng, source, vocabulary), "target": _words(rng, target, vocabulary)}
        _write(examples, sides, source_vocabulary="drawn", target_vocabulary="drawn")
        if reads.chunks:
            _write(chunks, _chunks(rng, target), labels=list(CHUNK_LABELS))
        return BatchReader(Examples.open(examples), reads, chunks=[chunks])


def _words(rng: np.random.Generator, lengths: NDArray[np.int32], vocabulary: int) -> RaggedArray:
    ranks = np.minimum(rng.zipf(ZIPF, int(lengths.sum())), vocabulary - len(SPECIAL_TOKENS))
    return RaggedArray(lengths, (len(SPECIAL_TOKENS) - 1 + ranks).astype(np.int32))


def _chunks(rng: np.random.Generator, lengths: NDArray[np.int32]) -> dict[str, RaggedArray]:
    """Starts and labels of chunks; the first word and `</s>` always start one."""
    starts = [np.unique([0, *np.flatnonzero(rng.random(length) < 0.6), length]) for length in lengths.tolist()]
    types = [rng.integers(NULL_LABEL + 1, len(CHUNK_LABELS), size=len(places) - 1) for places in starts]
    return {"starts": RaggedArray.of(starts), "labels": RaggedArray.of([np.append(some, EOS_LABEL) for some in types])}


def _write(path: Path, columns: dict[str, RaggedArray], **description: object) -> None:
    (count,) = {len(lists.lengths) for lists in columns.values()}
    batches = [(np.arange(count), columns)]
    write_columns(path, columns=list(columns), texts={}, description=description, batches=batches)


def plan_of_updates(settings: TrainModel, examples: Examples) -> UpdatePlan:
    """The updates of a training, as `train_model` plans them."""
    training = settings.training
    return UpdatePlan(
        source_lengths=examples.source_lengths if settings.reads.source else examples.target_lengths,
        target_lengths=examples.target_lengths,
        update_size=training.sentences_per_update or training.tokens_per_update or 0,
        by_sentences=training.sentences_per_update is not None,
        max_length=training.max_length,
        seed=settings.seed,
    )
