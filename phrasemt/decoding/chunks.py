"""The stage `score_chunks`: accuracy of a chunk-based decoder in predicting starts and labels of reference chunks.

At each position the model knows the words and chunks of the reference up to there; its likeliest decision is compared
with the reference's (Table 3 of Zhou et al. 2017; docs/decisions.md, C9). `</s>` is a position like any other. Only the
first subword of a word counts, because no chunk starts within a word. (A subword after `<unk>` counts as a first one.)
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phrasemt.artefacts.translations import ChunkAccuracies, ChunkAccuracy, ChunkDecisions
from phrasemt.artefacts.vocabulary import Vocabularies
from phrasemt.batching.batch import Chunks
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.forced import BATCH_POSITIONS
from phrasemt.models.interface import ChunkingModel
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.scoring.scores import of_test_sets
from phrasemt.stages.decoding import ScoreChunks
from phrasemt.symbols import CHUNK_LABELS, SEPARATOR

log = logging.getLogger("phrasemt.score_chunks")


def score_chunks(
    *,
    settings: ScoreChunks,
    cores: int,
    weights: Path,
    examples: list[Path],
    source_vocabulary: Path,
    target_vocabulary: Path,
    chunks: list[Path],
    scores: Path,
) -> None:
    """Write the accuracies on each test set as JSON. chunks: the chunk columns of each test set."""
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_model(weights, settings.model, words).to(choose_device(cores))
    assert isinstance(model, ChunkingModel)
    symbols = words.target.tokens(range(len(words.target)))
    continues_V = torch.tensor([symbol.endswith(SEPARATOR) for symbol in symbols])
    test_sets = {}
    for test_set, (examples_file, chunks_file) in of_test_sets(settings.test_sets, examples, chunks):
        reader = BatchReader.open(examples_file, words, settings.reads, chunks=[chunks_file])
        counts = _count_decisions(model, reader, continues_V)
        part = test_sets[test_set] = counts.accuracy(len(reader.examples))
        log.info(
            "score_chunks: %s: %d positions, boundaries %.3f, labels %.3f",
            test_set,
            counts.positions,
            part.boundary_acc,
            part.label_acc,
        )
    ChunkAccuracies(dataset=settings.dataset, system=settings.system, seed=settings.seed, test_sets=test_sets).write(
        scores
    )


@torch.inference_mode()
def _count_decisions(model: ChunkingModel[Any, Any], reader: BatchReader, continues_V: torch.Tensor) -> ChunkCounts:
    """Count decisions on one test set. continues_V: True for subwords that another subword of their word follows."""
    counts = ChunkCounts()
    for batch in reader.batches(BATCH_POSITIONS, model.device):
        decided = model.chunk_log_probs(batch).likeliest.to(torch.device("cpu"))
        target = batch.target.to(torch.device("cpu"))
        assert target.chunks is not None
        counts.add(target.chunks, decided, target.mask_BT & ~continues_V[target.inputs_BT])
    return counts


class ChunkCounts:
    """Numbers of positions, by start and label in the reference and by the model's decisions."""

    def __init__(self) -> None:
        labels = len(CHUNK_LABELS)
        # Axes: start in the reference (no, yes), decided start (no, yes), label in the reference, decided label.
        self._counts: NDArray[np.int64] = np.zeros((2, 2, labels, labels), dtype=np.int64)

    def add(self, gold: Chunks, decided: Chunks, counted_BT: torch.Tensor) -> None:
        """Add the positions at which counted_BT is True."""
        fields = gold.starts_BT, decided.starts_BT, gold.labels_BT, decided.labels_BT
        np.add.at(self._counts, tuple(field[counted_BT].long().numpy() for field in fields), 1)

    @property
    def positions(self) -> int:
        return int(self._counts.sum())

    def accuracy(self, sentences: int) -> ChunkAccuracy:
        """The accuracies, and those of a baseline that decides for a start everywhere and for the commonest label."""
        labels = len(CHUNK_LABELS)
        starts_22 = self._counts.sum((2, 3))
        positions, gold, decided = self.positions, int(starts_22[1].sum()), int(starts_22[:, 1].sum())
        both = int(starts_22[1, 1])
        same_label = np.eye(labels, dtype=bool)
        frequent = int(self._counts[1].sum((0, 2)).max())
        return ChunkAccuracy(
            sentences=sentences,
            positions=positions,
            chunks=gold,
            boundary_acc=int(np.trace(starts_22)) / positions,
            boundary_precision=both / decided if decided else 0.0,
            boundary_recall=both / gold,
            boundary_f1=2 * both / (gold + decided),
            label_acc_paper=int((self._counts[0, 0] + self._counts[1, 1])[same_label].sum()) / positions,
            label_acc=int(self._counts[1].sum(0)[same_label].sum()) / gold,
            majority=ChunkDecisions(
                boundary_acc=gold / positions,
                boundary_precision=gold / positions,
                boundary_recall=1.0,
                boundary_f1=2 * gold / (gold + positions),
                label_acc_paper=frequent / positions,
                label_acc=frequent / gold,
            ),
        )
