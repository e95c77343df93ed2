"""Beam search over batches, with the length penalty of Wu et al. (2016).

Letters: B sentences, K hypotheses per sentence, V target vocabulary, L tokens so far.

At each step a continuation that ends in `</s>` is finished if it is among the K best; the K best of the others live on.
The search of a sentence ends with its K-th finished hypothesis. These are the rules of fairseq; with K = 1 they are
those of greedy search. A sentence's result does not depend on the others of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phrasemt.batching.batch import Source
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import TranslationModel
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS, PAD

# Memory and state are narrowed to the unfinished sentences once fewer than this share of them is left.
_NARROW_BELOW = 0.75


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A finished translation: subword ids without `</s>`; `log_prob` includes `</s>`; `score` has the penalty."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


def length_penalty(length: int, settings: Decoding) -> float:
    """What a log-probability is divided by: ((5 + |Y|) / 6) ** alpha of Wu et al. (2016), or |Y| ** alpha.

    `length` is |Y|, counted with `</s>`.
    """
    base = (5 + length) / 6 if settings.length_penalty_form == "wu" else length
    return float(base**settings.length_penalty)


def length_limits(source: Source, settings: Decoding) -> Tensor:
    """Longest output per sentence [B] in subwords, from its own source length, both without special symbols."""
    lengths_B = source.mask_BS.sum(-1) - 1 - (source.ids_BS[:, 0] == BOS).long()
    return (lengths_B * settings.max_length_factor).ceil().long() + settings.max_length_extra


@torch.inference_mode()
def beam_search(model: TranslationModel[Any, Any], source: Source, settings: Decoding) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, best first, `settings.n_best` at most.

    A hypothesis that reaches the length limit is closed with `</s>` at its log-probability, so that every score is the
    model's score of a whole sentence.
    """
    K = settings.beam
    limits_B = length_limits(source, settings)
    memory = model.encode(source)
    state = model.start(memory, K)
    device = limits_B.device
    B = len(limits_B)
    sentences_B = torch.arange(B, device=device)  # which sentence of the batch stands in a row
    tokens_BKL = torch.full((B, K, 1), BOS, dtype=torch.long, device=device)
    scores_BK = torch.full((B, K), -torch.inf, device=device)
    scores_BK[:, 0] = 0.0  # all hypotheses are equal at first: only one may be continued
    places_B = torch.full((B,), K, device=device)  # hypotheses that are still to finish
    finished: list[list[Hypothesis]] = [[] for _ in range(B)]

    for length in range(int(limits_B.max()) + 1):
        log_probs_BKV, state = model.step(memory, state, tokens_BKL[:, :, -1])
        log_probs_BKV[:, :, PAD] = log_probs_BKV[:, :, BOS] = -torch.inf
        at_limit_B = limits_B <= length
        if at_limit_B.any():
            end_BK = log_probs_BKV[:, :, EOS]
            closed_BKV = torch.full_like(log_probs_BKV, -torch.inf)
            closed_BKV[:, :, EOS] = end_BK
            log_probs_BKV = torch.where(at_limit_B[:, None, None], closed_BKV, log_probs_BKV)
        V = log_probs_BKV.shape[-1]
        # At most K of the 2K best end here, so at least K of them can live on.
        scores_BC, best_BC = (scores_BK[:, :, None] + log_probs_BKV).flatten(1).topk(2 * K)
        parents_BC, words_BC = best_BC // V, best_BC % V
        ended_BC = (words_BC == EOS) & (scores_BC > -torch.inf)
        finished_BK = ended_BC[:, :K] & (ended_BC[:, :K].cumsum(-1) <= places_B[:, None])
        for row, place in finished_BK.nonzero().tolist():
            tokens = tokens_BKL[row, parents_BC[row, place], 1:].tolist()
            finished[int(sentences_B[row])].append(_hypothesis(tokens, float(scores_BC[row, place]), settings))
        places_B = places_B - finished_BK.sum(-1)

        alive_BK = ended_BC.long().argsort(dim=-1, stable=True)[:, :K]  # the first K that do not end
        parents_BK, words_BK = parents_BC.gather(1, alive_BK), words_BC.gather(1, alive_BK)
        scores_BK = scores_BC.masked_fill(ended_BC | (places_B == 0)[:, None], -torch.inf).gather(1, alive_BK)
        tokens_BKL = torch.cat(
            (tokens_BKL.gather(1, parents_BK[:, :, None].expand(-1, -1, length + 1)), words_BK[:, :, None]), dim=-1
        )
        state = model.reorder(state, parents_BK)

        live_B = (scores_BK > -torch.inf).any(-1)
        if not live_B.any():
            break
        if live_B.float().mean() < _NARROW_BELOW:
            kept = live_B.nonzero().squeeze(-1)
            memory, state = model.keep(memory, state, kept)
            sentences_B, tokens_BKL, scores_BK = sentences_B[kept], tokens_BKL[kept], scores_BK[kept]
            places_B, limits_B = places_B[kept], limits_B[kept]
    if not all(finished):
        raise PhrasemtError(
            "no translation has a finite probability",
            where=f"sentence {next(row for row, found in enumerate(finished) if not found) + 1} of a batch",
            next_step="the weights hold numbers that are not finite: train again with a lower learning rate",
        )
    return [sorted(hypotheses, key=_rank)[: settings.n_best] for hypotheses in finished]


def _hypothesis(tokens: Sequence[int], log_prob: float, settings: Decoding) -> Hypothesis:
    score = log_prob / length_penalty(len(tokens) + 1, settings)
    return Hypothesis(tokens=tuple(tokens), log_prob=log_prob, score=score)


def _rank(hypothesis: Hypothesis) -> tuple[float, tuple[int, ...]]:
    """Best score first; equal scores in a fixed order."""
    return -hypothesis.score, hypothesis.tokens
