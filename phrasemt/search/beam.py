"""Beam search over batches, with the length penalty of Wu et al. (2016).

Letters: B sentences, K hypotheses per sentence, V target vocabulary, L tokens so far, C = 2K candidates.

At each step a continuation that ends in `</s>` is finished if it is among the K best; the search goes on with the K
best of the other continuations. The search of a sentence ends with its K-th finished hypothesis. fairseq has the same
rules; with K = 1 this is greedy search. The result of a sentence does not depend on the other sentences of its batch.
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

# When a smaller share than this of the batch's rows is unfinished, the rows of finished sentences are removed.
_REMOVE_FINISHED_BELOW = 0.75


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A finished translation.

    tokens: subword ids without `</s>`. log_prob: log-probability of all tokens and `</s>`. score: log_prob divided by
    the length penalty.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float


def length_penalty(length: int, settings: Decoding) -> float:
    """Return the divisor of a log-probability: ((5 + |Y|) / 6) ** alpha (Wu et al. 2016, Eq. 14), or |Y| ** alpha.

    length: |Y|, the number of tokens with `</s>`.
    """
    base = (5 + length) / 6 if settings.length_penalty_form == "wu" else length
    return float(base**settings.length_penalty)


def length_limits(source: Source, settings: Decoding) -> Tensor:
    """Return the longest output of each sentence [B], in subwords; it depends on the length of the source sentence.

    Both lengths are without special symbols.
    """
    lengths_B = source.mask_BS.sum(-1) - 1 - (source.ids_BS[:, 0] == BOS).long()
    return (lengths_B * settings.max_length_factor).ceil().long() + settings.max_length_extra


@torch.inference_mode()
def beam_search(model: TranslationModel[Any, Any], source: Source, settings: Decoding) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, the best first, at most `settings.n_best`.

    A hypothesis at the length limit gets `</s>` with the probability that the model gives it, so that every score is
    the model's score of a whole sentence. Raises PhrasemtError when a sentence has no hypothesis of finite probability.
    """
    K = settings.beam
    limits_B = length_limits(source, settings)
    memory = model.encode(source)
    state = model.start(memory, K)
    device = limits_B.device
    B = len(limits_B)
    sentences_B = torch.arange(B, device=device)  # index in the batch of the sentence in each row
    tokens_BKL = torch.full((B, K, 1), BOS, dtype=torch.long, device=device)
    scores_BK = torch.full((B, K), -torch.inf, device=device)
    scores_BK[:, 0] = 0.0  # before the first step all hypotheses are equal: only one may be continued
    unfinished_B = torch.full((B,), K, device=device)  # number of hypotheses that have not finished yet
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
        # Each hypothesis has one continuation that ends, so at least K of the 2K best do not end.
        scores_BC, best_BC = (scores_BK[:, :, None] + log_probs_BKV).flatten(1).topk(2 * K)
        parents_BC, words_BC = best_BC // V, best_BC % V
        ended_BC = (words_BC == EOS) & (scores_BC > -torch.inf)
        finished_BK = ended_BC[:, :K] & (ended_BC[:, :K].cumsum(-1) <= unfinished_B[:, None])
        for row, candidate in finished_BK.nonzero().tolist():
            tokens = tokens_BKL[row, parents_BC[row, candidate], 1:].tolist()
            finished[int(sentences_B[row])].append(_hypothesis(tokens, float(scores_BC[row, candidate]), settings))
        unfinished_B = unfinished_B - finished_BK.sum(-1)

        alive_BK = ended_BC.long().argsort(dim=-1, stable=True)[:, :K]  # the K best that do not end
        parents_BK, words_BK = parents_BC.gather(1, alive_BK), words_BC.gather(1, alive_BK)
        scores_BK = scores_BC.masked_fill(ended_BC | (unfinished_B == 0)[:, None], -torch.inf).gather(1, alive_BK)
        tokens_BKL = torch.cat(
            (tokens_BKL.gather(1, parents_BK[:, :, None].expand(-1, -1, length + 1)), words_BK[:, :, None]), dim=-1
        )
        state = model.reorder(state, parents_BK)

        live_B = (scores_BK > -torch.inf).any(-1)
        if not live_B.any():
            break
        if live_B.float().mean() < _REMOVE_FINISHED_BELOW:
            rows = live_B.nonzero().squeeze(-1)
            memory, state = model.select_sentences(memory, state, rows)
            sentences_B, tokens_BKL, scores_BK = sentences_B[rows], tokens_BKL[rows], scores_BK[rows]
            unfinished_B, limits_B = unfinished_B[rows], limits_B[rows]
    if not all(finished):
        raise PhrasemtError(
            "no translation has a finite probability",
            where=f"sentence {next(row for row, found in enumerate(finished) if not found) + 1} of a batch",
            next_step="the weights contain NaN or infinity: train again with a lower learning rate",
        )
    return [sorted(hypotheses, key=_sort_key)[: settings.n_best] for hypotheses in finished]


def _hypothesis(tokens: Sequence[int], log_prob: float, settings: Decoding) -> Hypothesis:
    score = log_prob / length_penalty(len(tokens) + 1, settings)
    return Hypothesis(tokens=tuple(tokens), log_prob=log_prob, score=score)


def _sort_key(hypothesis: Hypothesis) -> tuple[float, tuple[int, ...]]:
    """The best score first; hypotheses of equal scores in a fixed order."""
    return -hypothesis.score, hypothesis.tokens
