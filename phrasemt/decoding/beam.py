"""Beam search over batches, with the length penalty of Wu et al. (2016).

Letters: B sentences, K hypotheses per sentence, V target vocabulary, L tokens so far, C = 2K candidates, N all
continuations of a sentence, G groups of the vocabulary, W words of a group, X places among N.

At each step a continuation that ends in `</s>` is finished if it is among the K best; the search goes on with the K
best of the other continuations. `stopping` decides when the search of a sentence ends:

* `fairseq`: with its K-th finished hypothesis, as in fairseq; with K = 1 this is greedy search;
* `admissible`: when no open hypothesis can overtake the finished ones that are asked for. A log-probability only
  falls, so a hypothesis with log-probability s cannot get a better score than s divided by its largest length penalty.

The result of a sentence does not depend on the other sentences of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phrasemt.batching.batch import Source
from phrasemt.errors import PhrasemtError
from phrasemt.models.interface import SearchableModel
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS, PAD

# When a smaller share than this of the batch's rows is unfinished, the rows of finished sentences are removed.
_REMOVE_FINISHED_BELOW = 0.75
# Words of a group in `best_continuations`. Measured on a CPU: 32 to 100 are faster than topk over the vocabulary.
_GROUP = 64


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

    Both lengths are without special symbols. It is never below `min_length`.
    """
    lengths_B = source.mask_BS.sum(-1) - 1 - (source.ids_BS[:, 0] == BOS).long()
    limits_B = (lengths_B * settings.max_length_factor).ceil().long() + settings.max_length_extra
    return limits_B.clamp(min=settings.min_length)


class Allowed:
    """The words that may follow at each step: no `<pad>` and `<s>`; the forced prefix; the bounds of the length.

    prefixes: for each sentence the ids that its translation begins with, without `</s>`; None for no prefix.
    """

    def __init__(self, source: Source, settings: Decoding, prefixes: Sequence[Sequence[int]] | None) -> None:
        self.limits_B = length_limits(source, settings)
        self._min_length = settings.min_length
        self._forced_BL: Tensor | None = None
        if prefixes is not None and any(prefixes):
            longest = max(map(len, prefixes))
            padded = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
            self._forced_BL = torch.tensor(padded, device=self.limits_B.device)
            self.limits_B = self.limits_B.maximum((self._forced_BL != PAD).sum(-1))
        self._first_limit = int(self.limits_B.min())
        self.last_step = int(self.limits_B.max())

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep some sentences (int64 indices)."""
        self.limits_B = self.limits_B[sentences]
        if self._forced_BL is not None:
            self._forced_BL = self._forced_BL[sentences]

    def restrict(self, log_probs_BKV: Tensor, length: int) -> Tensor:
        """Give all other words after `length` tokens the log-probability -inf. May write into its argument.

        A hypothesis at its limit gets `</s>` at the probability that the model gives it, and so does a word of the
        prefix, so that every score is the model's score of a whole sentence.
        """
        log_probs_BKV[:, :, PAD] = log_probs_BKV[:, :, BOS] = -torch.inf
        if length < self._min_length:
            log_probs_BKV[:, :, EOS] = -torch.inf
        if length >= self._first_limit:
            at_limit_B = self.limits_B <= length
            log_probs_BKV = _only(log_probs_BKV, torch.full_like(self.limits_B, EOS), at_limit_B)
        if self._forced_BL is not None and length < self._forced_BL.shape[1]:
            forced_B = self._forced_BL[:, length]
            log_probs_BKV = _only(log_probs_BKV, forced_B, forced_B != PAD)
        return log_probs_BKV


def _only(log_probs_BKV: Tensor, words_B: Tensor, where_B: Tensor) -> Tensor:
    """Allow a single word in some sentences."""
    rows_R = where_B.nonzero().squeeze(1)
    words_R = words_B[rows_R]
    single_RK = log_probs_BKV[rows_R, :, words_R]
    log_probs_BKV[rows_R] = -torch.inf
    log_probs_BKV[rows_R, :, words_R] = single_RK
    return log_probs_BKV


def best_continuations(log_probs_BKV: Tensor, scores_BK: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums of score and log-probability of the `count` best continuations, the best first.

    Returns sums, hypotheses that are continued, and words, [B, count] each (fewer if there are fewer continuations):
    torch.topk over all sums of a sentence, but faster on a CPU. The largest sums are in the groups of words with the
    largest maxima, and maxima of groups need one pass over memory.
    """
    sentences, beams, vocabulary = log_probs_BKV.shape
    groups = vocabulary // _GROUP
    if beams * groups < 2 * count or log_probs_BKV.device.type != "cpu":
        sums_BN = (log_probs_BKV + scores_BK[:, :, None]).flatten(1)
        sums_BC, places_BC = sums_BN.topk(min(count, sums_BN.shape[1]))
        return sums_BC, places_BC // vocabulary, places_BC % vocabulary
    grouped_BKGW = log_probs_BKV[:, :, : groups * _GROUP].view(sentences, beams, groups, _GROUP)
    maxima_BKG = grouped_BKGW.amax(-1) + scores_BK[:, :, None]
    groups_BC = maxima_BKG.flatten(1).topk(count, sorted=False).indices
    first_BC = groups_BC // groups * vocabulary + groups_BC % groups * _GROUP
    grouped_BX = (first_BC[:, :, None] + torch.arange(_GROUP)).flatten(1)
    rest_KX = torch.arange(beams)[:, None] * vocabulary + torch.arange(groups * _GROUP, vocabulary)
    places_BX = torch.cat((grouped_BX, rest_KX.flatten().expand(sentences, -1)), dim=1)
    sums_BX = log_probs_BKV.flatten(1).gather(1, places_BX) + scores_BK.gather(1, places_BX // vocabulary)
    sums_BC, candidates_BC = sums_BX.topk(count)
    places_BC = places_BX.gather(1, candidates_BC)
    return sums_BC, places_BC // vocabulary, places_BC % vocabulary


@torch.inference_mode()
def beam_search(
    model: SearchableModel[Any, Any],
    source: Source,
    settings: Decoding,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, the best first, at most `settings.n_best`.

    prefixes: the first ids of each translation, without `</s>`; they count in its score.
    Raises PhrasemtError when a sentence has no hypothesis of finite probability.
    """
    K = settings.beam
    allowed = Allowed(source, settings, prefixes)
    memory = model.encode(source).held()
    state = model.start(memory, 1)
    device = allowed.limits_B.device
    B = len(allowed.limits_B)
    sentences_B = torch.arange(B, device=device)  # index in the batch of the sentence in each row
    # The first step continues one hypothesis, `<s>`. The number of hypotheses then grows to K, at once in vocabularies
    # of more than K words.
    tokens_BKL = torch.full((B, 1, 1), BOS, dtype=torch.long, device=device)
    scores_BK = torch.zeros(B, 1, device=device)
    finished = _Finished(B, settings, allowed.limits_B)

    for length in range(allowed.last_step + 1):
        log_probs_BKV, state = model.step(memory, state, tokens_BKL[:, :, -1])
        log_probs_BKV = allowed.restrict(log_probs_BKV, length)
        # Each hypothesis has one continuation that ends, so at least K of the 2K best do not end.
        scores_BC, parents_BC, words_BC = best_continuations(log_probs_BKV, scores_BK, 2 * K)
        ended_BC = (words_BC == EOS) & (scores_BC > -torch.inf)
        finished_BK = finished.admits(ended_BC[:, :K])
        rows, places = finished_BK.nonzero(as_tuple=True)
        if len(rows):
            parents = parents_BC[rows, places]
            finished.add(
                rows, sentences_B[rows].tolist(), tokens_BKL[rows, parents, 1:].tolist(), scores_BC[rows, places]
            )

        alive_BK = ended_BC.long().argsort(dim=-1, stable=True)[:, :K]  # the K best that do not end
        parents_BK, words_BK = parents_BC.gather(1, alive_BK), words_BC.gather(1, alive_BK)
        scores_BK = scores_BC.masked_fill(ended_BC, -torch.inf).gather(1, alive_BK)
        scores_BK = scores_BK.masked_fill(finished.complete(scores_BK[:, 0])[:, None], -torch.inf)
        tokens_BKL = torch.cat(
            (tokens_BKL.gather(1, parents_BK[:, :, None].expand(-1, -1, length + 1)), words_BK[:, :, None]), dim=-1
        )
        live_B = scores_BK[:, 0] > -torch.inf  # the best one stands first
        live = int(live_B.sum())
        if not live:
            break
        state = state.reordered(parents_BK)
        if live < _REMOVE_FINISHED_BELOW * len(live_B):
            kept = live_B.nonzero().squeeze(-1)
            memory, state = memory.select_sentences(kept), state.select_sentences(kept)
            sentences_B, tokens_BKL, scores_BK = sentences_B[kept], tokens_BKL[kept], scores_BK[kept]
            allowed.select_sentences(kept)
            finished.select_sentences(kept)
    return finished.best()


class _Finished:
    """The finished hypotheses of a batch, and the rule that ends the search of a sentence.

    limits_B: the longest output of each sentence.
    """

    def __init__(self, sentences: int, settings: Decoding, limits_B: Tensor) -> None:
        self._settings = settings
        self._found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self._open_B = torch.full_like(limits_B, settings.beam)  # fairseq: number of hypotheses still to be finished
        # admissible: the best scores, and the largest penalty that a hypothesis can reach
        self._best_BN = torch.full((sentences, settings.n_best), -torch.inf, device=limits_B.device)
        penalties = [length_penalty(limit + 1, settings) for limit in limits_B.tolist()]
        self._penalties_B = torch.tensor(penalties, device=limits_B.device)

    def admits(self, ended_BK: Tensor) -> Tensor:
        """Select the hypotheses that count among those that ended."""
        if self._settings.stopping == "admissible":
            return ended_BK
        counted_BK = ended_BK & (ended_BK.cumsum(-1) <= self._open_B[:, None])
        self._open_B = self._open_B - counted_BK.sum(-1)
        return counted_BK

    def add(self, rows: Tensor, sentences: list[int], tokens: list[list[int]], log_probs: Tensor) -> None:
        """Take hypotheses, with their rows at present and their sentences."""
        for row, sentence, ids, log_prob in zip(rows.tolist(), sentences, tokens, log_probs.tolist(), strict=True):
            score = log_prob / length_penalty(len(ids) + 1, self._settings)
            self._found[sentence].append(Hypothesis(tokens=tuple(ids), log_prob=log_prob, score=score))
            if self._settings.stopping == "admissible":
                scores_N = torch.cat((self._best_BN[row], self._best_BN.new_tensor([score])))
                self._best_BN[row] = scores_N.sort(descending=True).values[:-1]

    def complete(self, best_open_B: Tensor) -> Tensor:
        """Tell which sentences are complete [B]. best_open_B: log-probability of their best open hypothesis."""
        if self._settings.stopping == "admissible":
            return self._best_BN[:, -1] >= best_open_B / self._penalties_B
        return self._open_B == 0

    def select_sentences(self, sentences: Tensor) -> None:
        self._open_B, self._best_BN, self._penalties_B = (
            tensor[sentences] for tensor in (self._open_B, self._best_BN, self._penalties_B)
        )

    def best(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, the best first, at most n_best. Raises PhrasemtError if one has none."""
        if not all(self._found):
            raise PhrasemtError(
                "no translation has a finite probability",
                where=f"sentence {next(row for row, found in enumerate(self._found) if not found) + 1} of a batch",
                next_step="the weights contain NaN or infinity: train again with a lower learning rate",
            )
        return [sorted(found, key=_sort_key)[: self._settings.n_best] for found in self._found]


def _sort_key(hypothesis: Hypothesis) -> tuple[float, tuple[int, ...]]:
    """The best score first; hypotheses of equal scores in a fixed order."""
    return -hypothesis.score, hypothesis.tokens
