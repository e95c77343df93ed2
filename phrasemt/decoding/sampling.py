"""Sampling: translations drawn word by word from the model's distribution.

Letters: B sentences, K draws per sentence, V target vocabulary, L tokens so far.

The probabilities of a step are those of the model with temperature, cut off after the top_k likeliest words, and then
after the fewest of these that have probability top_p together (Holtzman et al. 2020). Each sentence and draw has its
own stream of random numbers, so a translation does not depend on the other sentences of its batch. Scores are those of
the model without temperature and cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phrasemt.batching.batch import Source
from phrasemt.decoding.beam import Allowed, Hypothesis, length_penalty
from phrasemt.models.interface import SearchableModel
from phrasemt.study.schema import Decoding, Sampling
from phrasemt.symbols import BOS, EOS


@torch.inference_mode()
def sample(
    model: SearchableModel[Any, Any],
    source: Source,
    settings: Decoding,
    rows: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Return `settings.n_best` drawn translations of each sentence, in the order of the draws.

    rows: the numbers of the sentences, which decide their random numbers. prefixes: as in `beam_search`.
    """
    sampling = settings.sampling
    assert sampling is not None
    K = settings.n_best
    allowed = Allowed(source, settings, prefixes)
    device, steps = allowed.limits_B.device, allowed.last_step + 1
    # A stream for each draw, so that neither the number of draws nor the longest sentence of the batch shifts it.
    streams = [[np.random.default_rng([sampling.seed, row, draw]).random(steps) for draw in range(K)] for row in rows]
    uniform_LBK = torch.from_numpy(np.array(streams)).permute(2, 0, 1).to(device)
    memory = model.encode(source).held()
    state = model.start(memory, K)
    last_BK = torch.full((len(rows), K), BOS, dtype=torch.long, device=device)
    open_BK = torch.ones_like(last_BK, dtype=torch.bool)
    log_probs_BK = torch.zeros(len(rows), K, device=device)
    words: list[Tensor] = []
    for length, uniform_BK in enumerate(uniform_LBK):
        log_probs_BKV, state = model.step(memory, state, last_BK)
        log_probs_BKV = allowed.restrict(log_probs_BKV, length)
        last_BK = _draw(log_probs_BKV, uniform_BK, sampling).where(open_BK, EOS)
        drawn_BK = log_probs_BKV.gather(-1, last_BK[..., None]).squeeze(-1)
        log_probs_BK += drawn_BK.where(open_BK, 0.0)
        words.append(last_BK)
        open_BK = open_BK & (last_BK != EOS)
        if not open_BK.any():
            break
    found = torch.stack(words, dim=-1).tolist()
    return [
        [_hypothesis(ids, log_prob, settings) for ids, log_prob in zip(draws, log_probs, strict=True)]
        for draws, log_probs in zip(found, log_probs_BK.tolist(), strict=True)
    ]


def _hypothesis(ids: list[int], log_prob: float, settings: Decoding) -> Hypothesis:
    length = ids.index(EOS)
    score = log_prob / length_penalty(length + 1, settings)
    return Hypothesis(tokens=tuple(ids[:length]), log_prob=log_prob, score=score)


def _draw(log_probs_BKV: Tensor, uniform_BK: Tensor, sampling: Sampling) -> Tensor:
    """Draw a word for each hypothesis: the first one in order of probability at which their sum exceeds a number."""
    count = min(sampling.top_k or log_probs_BKV.shape[-1], log_probs_BKV.shape[-1])
    # A stable order: words of equal probability keep the order of their ids on all devices.
    ordered_BKV, words_BKV = log_probs_BKV.sort(dim=-1, descending=True, stable=True)
    ordered_BKC = ordered_BKV[..., :count].double() / sampling.temperature
    sums_BKC = ordered_BKC.softmax(-1).cumsum(-1)
    reached_BKC = sums_BKC >= sampling.top_p
    last_BK1 = torch.where(reached_BKC.any(-1), reached_BKC.long().argmax(-1), count - 1)[..., None]
    mass_BK1 = sums_BKC.gather(-1, last_BK1)
    place_BK1 = torch.searchsorted(sums_BKC, uniform_BK[..., None] * mass_BK1, right=True).minimum(last_BK1)
    return words_BKV.gather(-1, place_BK1).squeeze(-1)
