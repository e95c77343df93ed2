"""The stage `analyse_attention`: where a model attends while it predicts the references of a test set.

For each attention: the part of the weights on n-grams of each order, by head (Nguyen et al., Figures 2 and 3), and the
entropy of the weights. Perplexity with the diagnostics of the model, such as `perplexity_without_phrases`, shows
whether the model uses its phrases. The weights themselves are stored for a few sentence pairs at equal distances.

Letters: B sentences, h heads, Q query positions, N orders of n-grams (1: tokens), K key positions.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phrasemt.artefacts.columns import Vocabularies
from phrasemt.artefacts.translations import AttentionAnalysis, LayerAttention
from phrasemt.batching.batch import Batch
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.forced import force, forced_sentences
from phrasemt.files.attention import AXES, ForcedSentence, write_forced
from phrasemt.models.weights import load_model
from phrasemt.nn.attention import Attention
from phrasemt.nn.losses import Loss
from phrasemt.nn.precision import choose_device
from phrasemt.stages.decoding import AnalyseAttention

log = logging.getLogger("phrasemt.analyse_attention")

# Smaller than for scores alone, because the weights of all attentions are in memory at once.
_BATCH_POSITIONS = 1_000
_SHOWN = 3  # sentence pairs of a test set whose weights are kept: those of a pair take up to a megabyte


class AttentionStatistics:
    """Sums over the real queries of one attention."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._queries = 0
        self._mass_hN: Tensor | float = 0.0
        self._even_N: Tensor | float = 0.0
        self._entropy, self._keys = 0.0, 0.0

    def add(self, weights_BhQNK: Tensor, queries_BQ: Tensor) -> None:
        """Add the weights of a batch. queries_BQ: True at real queries."""
        weights_RhNK = weights_BhQNK.transpose(1, 2)[queries_BQ].double()
        self._queries += len(weights_RhNK)
        self._mass_hN = weights_RhNK.sum((0, 3)).cpu() + self._mass_hN
        self._entropy += float(torch.special.entr(weights_RhNK).sum((2, 3)).mean(1).sum())
        keys_RN = (weights_RhNK > 0).sum(3).double().mean(1)
        self._even_N = (keys_RN / keys_RN.sum(1, keepdim=True)).sum(0).cpu() + self._even_N
        self._keys += float(keys_RN.sum())

    def means(self) -> LayerAttention:
        """The means over real queries."""
        assert isinstance(self._mass_hN, Tensor), "no weights were added"
        assert isinstance(self._even_N, Tensor)
        heads_hN = self._mass_hN / self._queries
        return LayerAttention(
            place=self._attention.place,
            layer=self._attention.layer,
            mass=heads_hN.mean(0).tolist(),
            heads=heads_hN.tolist(),
            entropy=self._entropy / self._queries,
            keys=self._keys / self._queries,
            even=(self._even_N / self._queries).tolist(),
        )


@torch.inference_mode()
def analyse_attention(
    *,
    settings: AnalyseAttention,
    cores: int,
    weights: Path,
    examples: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    phrases: list[Path],
    chunks: list[Path],
    attention: Path,
    analysis: Path,
) -> None:
    """Write the weights of a few sentence pairs (`phrasemt/files/attention.py`), and statistics over all as JSON.

    phrases, chunks: columns of the split, or none for a model that does not read them. Of a chunk-based decoder the
    chunks of the reference are given.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_model(weights, settings.model, words).to(choose_device(cores))
    reader = BatchReader.open(examples, words, settings.reads, phrases, chunks)
    store = reader.examples
    chosen_rows = set(evenly(len(store), _SHOWN))
    statistics = [AttentionStatistics(place) for place in model.attentions()]
    sentences: dict[int, ForcedSentence] = {}
    nats, lengths = [0.0] * len(store), [0] * len(store)

    def recorded_loss(batch: Batch) -> Loss:
        forced = force(model, batch)
        for of_attention, (place, weights_BhQNK) in zip(statistics, forced.attentions, strict=True):
            of_attention.add(weights_BhQNK, batch.masks[AXES[place.place][0]])
        if chosen_rows.intersection(batch.rows):
            names = store.rows[np.array(batch.rows)].tolist()
            whole = forced_sentences(forced, batch, rows=names, words=words)
            sentences.update((row, shown) for row, shown in zip(batch.rows, whole, strict=True) if row in chosen_rows)
        nats_B, tokens_B = -forced.log_probs_BT.double().sum(1), batch.target.mask_BT.sum(1)
        for row, value, length in zip(batch.rows, nats_B.tolist(), tokens_B.tolist(), strict=True):
            nats[row], lengths[row] = round(value, 4), length
        nll = -forced.log_probs_BT.double().sum()
        return Loss(objective=nll, nll=nll, tokens=int(batch.target.mask_BT.sum()))

    losses, diagnostics = model.measure(reader.batches(_BATCH_POSITIONS, model.device), recorded_loss, analysing=True)
    write_forced(attention, [sentences[place] for place in sorted(sentences)])
    result = AttentionAnalysis(
        dataset=settings.dataset,
        test_set=settings.test_set,
        system=settings.system,
        seed=settings.seed,
        sentences=len(store),
        tokens=losses.tokens,
        perplexity=losses.perplexity,
        diagnostics=dict(diagnostics),
        mixtures={name: weights_LJ.tolist() for name, weights_LJ in model.mixtures().items()},
        attentions=[of_attention.means() for of_attention in statistics],
        sentence_nats=nats,
        sentence_tokens=lengths,
    )
    result.write(analysis)
    log.info(
        "analyse_attention: %s: perplexity %.3f; weights of %d of %d sentence pairs",
        settings.test_set,
        result.perplexity,
        len(sentences),
        len(store),
    )


def evenly(count: int, wanted: int) -> list[int]:
    """Return `wanted` different positions below `count` at equal distances, or all of them if there are fewer."""
    chosen = min(count, wanted)
    return [count * number // chosen for number in range(chosen)]
