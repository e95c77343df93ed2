"""Forced decoding: the log-probabilities of given targets, and where a model attends while it predicts them.

Letters: B sentences, T target positions, S source positions, P phrases, h heads, N orders of n-grams (1: tokens),
Q query positions, K key positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.artefacts.columns import Vocabularies
from phrasemt.batching.batch import Batch, Phrases, collate_target
from phrasemt.batching.reader import SourceCollator
from phrasemt.batching.sampler import micro_batches
from phrasemt.files.attention import AXES, AttentionMap, ForcedSentence
from phrasemt.models.interface import ChunkingModel, ChunkLogProbs, TranslationModel
from phrasemt.nn.attention import Attention, recording
from phrasemt.symbols import CHUNK_LABELS

BATCH_POSITIONS = 4_000


@dataclass(frozen=True, kw_only=True)
class Forced:
    """A batch under forced decoding.

    log_probs_BT: of each target token, float32, 0 at padding. attentions: each with its weights [B, h, Q, N, K]; values
    at padded queries are undefined, and padded keys have the weight 0.
    chunks: log-probabilities of decisions about chunks, None for models without chunks. starts_BT: the decisions that
    the decoder followed: those of the target, or its own for a target without chunks.
    """

    log_probs_BT: Tensor
    attentions: list[tuple[Attention, Tensor]]
    chunks: ChunkLogProbs | None = None
    starts_BT: Tensor | None = None


@torch.inference_mode()
def force(model: TranslationModel[Any, Any], batch: Batch, *, attention: bool = True) -> Forced:
    """Return what a model assigns to the targets of a batch. attention: whether to record attention weights."""
    attentions = model.attentions() if attention else []
    with recording([attention.module for attention in attentions]) as recorded:
        log_probs_BT = model.log_probs(batch)
    weights = recorded() if attentions else []
    if not isinstance(model, ChunkingModel):
        return Forced(log_probs_BT=log_probs_BT, attentions=list(zip(attentions, weights, strict=True)))
    chunks = model.chunk_log_probs(batch)
    if batch.target.chunks is not None:
        starts_BT = batch.target.chunks.starts_BT
    else:
        starts_BT = chunks.likeliest.starts_BT
        starts_BT[:, 0] = True  # the first word always starts a chunk
    if model.context_waits:  # within a chunk the decoder keeps the context of the chunk's first word
        positions_T = torch.arange(starts_BT.shape[1], device=starts_BT.device)
        last_BT = torch.where(starts_BT, positions_T, 0).cummax(1).values
        weights = [_rows(one_BhTNS, last_BT) for one_BhTNS in weights]
    return Forced(
        log_probs_BT=log_probs_BT,
        attentions=list(zip(attentions, weights, strict=True)),
        chunks=chunks,
        starts_BT=starts_BT,
    )


def _rows(weights_BhTNS: Tensor, rows_BT: Tensor) -> Tensor:
    """Return the weights in which query t of sentence b has the row rows_BT[b, t]."""
    return weights_BhTNS.gather(2, rows_BT[:, None, :, None, None].expand_as(weights_BhTNS))


def forced_sentences(forced: Forced, batch: Batch, *, rows: Sequence[int], words: Vocabularies) -> list[ForcedSentence]:
    """Return the sentence pairs of a batch one by one, without padding. rows: row of each pair in the raw text."""
    lengths = {axis: mask.sum(1).tolist() for axis, mask in batch.masks.items()}
    sentences = []
    for place, row in enumerate(rows):
        s, t = lengths["source"][place], lengths["target"][place]
        maps = []
        for attention, weights_BhQNK in forced.attentions:
            queries, keys = (lengths[axis][place] for axis in AXES[attention.place])
            weights = weights_BhQNK[place, :, :queries, :, :keys].float().cpu().numpy()
            maps.append(AttentionMap(place=attention.place, layer=attention.layer, weights_hTNS=weights))
        chunks: dict[str, Any] = {}
        if forced.chunks is not None and forced.starts_BT is not None:
            label_log_probs_T, labels_T = forced.chunks.label_BTL[place, :t].max(-1)
            copy_T, update_T = forced.chunks.boundary_BT2[place, :t].unbind(-1)
            chunks = {
                "chunk_starts": forced.starts_BT[place, :t].tolist(),
                "copy_log_probs": copy_T.tolist(),
                "update_log_probs": update_T.tolist(),
                "chunk_labels": [CHUNK_LABELS[label] for label in labels_T.tolist()],
                "label_log_probs": label_log_probs_T.tolist(),
            }
        sentences.append(
            ForcedSentence(
                row=row,
                source=words.source.tokens(batch.source.ids_BS[place, :s].tolist()),
                target=words.target.tokens(batch.target.outputs_BT[place, :t].tolist()),
                log_probs=forced.log_probs_BT[place, :t].tolist(),
                phrase_ends=_phrase_ends(batch.source.phrases, place),
                **chunks,
                attentions=maps,
            )
        )
    return sentences


def _phrase_ends(phrases: Phrases | None, place: int) -> list[int]:
    if phrases is None:
        return []
    ends: list[int] = phrases.token_mask_BPM[place].sum(-1).cumsum(0)[phrases.phrase_mask_BP[place]].tolist()
    return ends


@torch.inference_mode()
def forced_scores(
    model: TranslationModel[Any, Any],
    collate_source: SourceCollator,
    sources: Sequence[NDArray[np.int32]],
    targets: Sequence[NDArray[np.int32]],
    positions: Sequence[int],
) -> NDArray[np.float64]:
    """Return log P(target | source) of each pair, natural logarithm, `</s>` included.

    sources, targets: subword ids without special tokens.
    positions: position of each source in the phrase columns, for a collator that reads them.
    """
    source_lengths = np.array([len(source) for source in sources], dtype=np.int32)
    target_lengths = np.array([len(target) for target in targets], dtype=np.int32)
    scores = np.zeros(len(sources))
    lengths, device = (source_lengths, target_lengths), model.device.type
    for rows in micro_batches(np.arange(len(sources)), *lengths, capacity=BATCH_POSITIONS, device=device):
        batch = Batch(
            rows=tuple(rows.tolist()),
            source=collate_source([sources[row] for row in rows], [positions[row] for row in rows]),
            target=collate_target([targets[row] for row in rows]),
        )
        scores[rows] = model.log_probs(batch.to(model.device)).double().sum(-1).cpu().numpy()
    return scores
