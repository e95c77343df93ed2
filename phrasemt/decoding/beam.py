"""Beam search over batches and over a whole split, with the length penalty of Wu et al. (2016).

Letters: B sentences, K hypotheses per sentence, V target vocabulary, L tokens so far, C = 2K candidates, N all
continuations of a sentence, G groups of the vocabulary, W words of a group, X places among N.

At each step a continuation that ends in `</s>` is finished if it is among the K best; the search continues with the K
best of the other continuations. The search of a sentence ends with its K-th finished hypothesis, as in fairseq; with
K = 1 this is greedy search.

In float32 the result of a sentence does not depend on the other sentences of its batch. In bfloat16 rounding depends on
the shapes of a batch: 3 to 4 % of the demo's translations change with them, and scores by up to 0.07. An ensemble is
several models of one vocabulary, as one model for the search: the probability of a word is the mean of its
probabilities by all members (log-probabilities of fairseq's ensembles).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Source
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.errors import PhrasemtError
from phrasemt.files.parallel import map_in_order
from phrasemt.models.interface import SearchableModel
from phrasemt.nn.beams import SearchTensors
from phrasemt.nn.precision import usable_precision
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS, PAD

# When a smaller share than this of the batch's rows is unfinished, the rows of finished sentences are removed.
_REMOVE_FINISHED_BELOW = 0.75
# Words of a group in `best_continuations`. Measured on a CPU: 32 to 100 are faster than topk over the vocabulary.
_GROUP = 64
# Source positions of a batch times hypotheses. On a CPU more make no product faster. A GPU has room for many more; a
# batch that does not fit into its memory is divided.
_BATCH_POSITIONS = {"cpu": 8_000, "cuda": 200_000}
# A short sentence counts as this many positions, because a step needs the same memory for each sentence.
_LEAST_POSITIONS = 8


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


class Allowed:
    """The words that may follow at each step: no `<pad>` and `<s>`, and at the limit of the length only `</s>`."""

    def __init__(self, source: Source, settings: Decoding) -> None:
        lengths_B = source.mask_BS.sum(-1) - 1 - (source.ids_BS[:, 0] == BOS).long()
        # The longest output of each sentence [B], in subwords without special tokens, as the length of the source.
        self.limits_B = (lengths_B * settings.max_length_factor).ceil().long() + settings.max_length_extra
        # The same on the host, which must know how many sentences a step restricts without waiting for a GPU.
        self.limits: list[int] = self.limits_B.tolist()
        self.last_step = max(self.limits)

    def select_sentences(self, sentences: Tensor, numbers: Sequence[int]) -> None:
        """Keep some sentences, given as int64 indices and as numbers."""
        self.limits_B = self.limits_B[sentences]
        self.limits = [self.limits[number] for number in numbers]

    def restrict(self, log_probs_BKV: Tensor, length: int) -> Tensor:
        """Give all other words after `length` tokens the log-probability -inf. May write into its argument.

        A hypothesis at its limit gets `</s>` at the probability that the model gives it, so that every score is the
        model's score of a whole sentence.
        """
        log_probs_BKV[:, :, PAD] = log_probs_BKV[:, :, BOS] = -torch.inf
        if at_limit := sum(limit <= length for limit in self.limits):
            rows_R = _true_rows(self.limits_B <= length, at_limit)
            single_RK = log_probs_BKV[rows_R, :, EOS]
            log_probs_BKV.index_fill_(0, rows_R, -torch.inf)
            log_probs_BKV[rows_R, :, EOS] = single_RK
        return log_probs_BKV


def _true_rows(mask_B: Tensor, count: int) -> Tensor:
    """Return the int64 indices of the `count` True elements. Given how many, the host does not wait for a GPU."""
    return mask_B.nonzero_static(size=count).squeeze(1)


def best_continuations(log_probs_BKV: Tensor, scores_BK: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums of score and log-probability of the `count` best continuations, the best first.

    Returns sums, hypotheses that are continued, and words, [B, count] each (fewer if there are fewer continuations):
    torch.topk over all sums of a sentence, but faster. They are among the `count` best of each hypothesis. On a CPU the
    largest are in the groups of words with the largest maxima, and maxima of groups need one pass over memory.
    """
    sentences, beams, vocabulary = log_probs_BKV.shape
    groups = vocabulary // _GROUP
    if beams * groups < 2 * count or log_probs_BKV.device.type != "cpu":
        best_BKC, words_BKC = log_probs_BKV.topk(min(count, vocabulary))
        sums_BX = (best_BKC + scores_BK[:, :, None]).flatten(1)
        sums_BC, places_BC = sums_BX.topk(min(count, sums_BX.shape[1]))
        return sums_BC, places_BC // best_BKC.shape[2], words_BKC.flatten(1).gather(1, places_BC)
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
def beam_search(model: SearchableModel[Any, Any], source: Source, settings: Decoding) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, the best first, at most `settings.n_best`.

    Raises PhrasemtError when a sentence has no hypothesis of finite probability.
    """
    K = settings.beam
    allowed = Allowed(source, settings)
    memory = model.encode(source).contiguous()
    state = model.start(memory, 1)
    device = allowed.limits_B.device
    B = len(allowed.limits_B)
    # The first step continues one hypothesis, `<s>`. The number of hypotheses then grows to K, at once in vocabularies
    # of more than K words.
    words_BK = torch.full((B, 1), BOS, dtype=torch.long, device=device)
    scores_BK = torch.zeros(B, 1, device=device)
    finished = _Finished(settings, allowed)

    for length in range(allowed.last_step + 1):
        log_probs_BKV, state = model.step(memory, state, words_BK)
        log_probs_BKV = allowed.restrict(log_probs_BKV, length)
        # Each hypothesis has one continuation that ends, so at least K of the 2K best do not end.
        scores_BC, parents_BC, words_BC = best_continuations(log_probs_BKV, scores_BK, 2 * K)
        ended_BC = (words_BC == EOS) & (scores_BC > -torch.inf)
        finished_BK = finished.counted(ended_BC[:, :K])

        alive_BK = ended_BC.long().argsort(dim=-1, stable=True)[:, :K]  # the K best that do not end
        parents_BK, words_BK = parents_BC.gather(1, alive_BK), words_BC.gather(1, alive_BK)
        scores_BK = scores_BC.masked_fill(ended_BC, -torch.inf).gather(1, alive_BK)
        scores_BK = scores_BK.masked_fill(finished.complete[:, None], -torch.inf)
        finished_scores_BK = scores_BC[:, :K].masked_fill(~finished_BK, -torch.inf)
        # One copy for all that the host must know, because it waits for a GPU at each. float64 holds all numbers.
        step_B5K = torch.stack((scores_BK.double(), finished_scores_BK, parents_BC[:, :K], parents_BK, words_BK), dim=1)
        live = finished.add(step_B5K.tolist())
        if not live:
            break
        state = state.reordered(parents_BK)
        if len(live) < _REMOVE_FINISHED_BELOW * len(scores_BK):
            kept = _true_rows(scores_BK[:, 0] > -torch.inf, len(live))
            memory, state = memory.select_sentences(kept), state.select_sentences(kept)
            words_BK, scores_BK = words_BK[kept], scores_BK[kept]
            allowed.select_sentences(kept, live)
            finished.select_sentences(kept, live)
    return finished.best()


class _Finished:
    """The finished hypotheses of a batch, and the rule that ends the search of a sentence.

    The host keeps the words and parents of each step, from which it reads the tokens of a finished hypothesis.
    """

    def __init__(self, settings: Decoding, allowed: Allowed) -> None:
        self._settings = settings
        self._hypotheses: list[list[Hypothesis]] = [[] for _ in allowed.limits]
        self._sentences = list(range(len(allowed.limits)))  # index in the batch of the sentence in each row
        self._steps: list[dict[int, tuple[list[float], list[float]]]] = []  # by sentence: parents and words
        # Number of hypotheses still to be finished.
        self._open_B = torch.full_like(allowed.limits_B, settings.beam)

    def counted(self, ended_BK: Tensor) -> Tensor:
        """Select the hypotheses that count among those that ended: as many as are still to be finished."""
        counted_BK = ended_BK & (ended_BK.cumsum(-1) <= self._open_B[:, None])
        self._open_B = self._open_B - counted_BK.sum(-1)
        return counted_BK

    def add(self, step_B5K: list[list[list[float]]]) -> list[int]:
        """Take the hypotheses of a step; return the rows whose sentences go on.

        step_B5K: for each row log-probabilities of open hypotheses, the best first, and of those that finish (-inf: it
        does not); the hypotheses that these continue; the parents of the open hypotheses, and their words.
        """
        live, step = [], {}
        for row, (sentence, step_5K) in enumerate(zip(self._sentences, step_B5K, strict=True)):
            open_K, finished_K, continued_K, parents_K, words_K = step_5K
            for log_prob, parent in zip(finished_K, continued_K, strict=True):
                if log_prob > -math.inf:
                    tokens = self._tokens(sentence, parent)
                    score = log_prob / length_penalty(len(tokens) + 1, self._settings)
                    self._hypotheses[sentence].append(Hypothesis(tokens=tokens, log_prob=log_prob, score=score))
            if open_K[0] > -math.inf:
                live.append(row)
                step[sentence] = parents_K, words_K
        self._steps.append(step)
        return live

    def _tokens(self, sentence: int, hypothesis: float) -> tuple[int, ...]:
        """The words of a hypothesis of the last step, from its parents."""
        words = []
        for step in reversed(self._steps):
            parents_K, words_K = step[sentence]
            words.append(int(words_K[int(hypothesis)]))
            hypothesis = parents_K[int(hypothesis)]
        return tuple(reversed(words))

    @property
    def complete(self) -> Tensor:
        """The sentences that are complete [B]."""
        return self._open_B == 0

    def select_sentences(self, sentences: Tensor, numbers: Sequence[int]) -> None:
        """Keep some sentences, given as int64 indices and as numbers."""
        self._sentences = [self._sentences[number] for number in numbers]
        self._open_B = self._open_B[sentences]

    def best(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, the best first, at most n_best. Raises PhrasemtError if one has none."""
        if not all(self._hypotheses):
            raise PhrasemtError(
                "no translation has a finite probability",
                where=f"sentence {next(row for row, ended in enumerate(self._hypotheses) if not ended) + 1} of a batch",
                next_step="the weights contain NaN or infinity: train again with a lower learning rate",
            )
        return [sorted(hypotheses, key=_sort_key)[: self._settings.n_best] for hypotheses in self._hypotheses]


def _sort_key(hypothesis: Hypothesis) -> tuple[float, tuple[int, ...]]:
    """The best score first; hypotheses of equal scores in a fixed order."""
    return -hypothesis.score, hypothesis.tokens


@dataclass(frozen=True, kw_only=True)
class Parts(SearchTensors):
    """Memories or states of all members."""

    of_members: tuple[SearchTensors, ...]


class Ensemble(SearchableModel[Parts, Parts]):
    """The members must have the same target vocabulary, and each must be able to read the same batches.

    An ensemble is for searches only.
    """

    def __init__(self, members: Sequence[SearchableModel[Any, Any]]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def _models(self) -> list[SearchableModel[Any, Any]]:
        return list(self.members)  # type: ignore[arg-type]

    def encode(self, source: Source) -> Parts:
        return Parts(of_members=tuple(model.encode(source) for model in self._models))

    def start(self, memory: Parts, beams: int) -> Parts:
        parts = zip(self._models, memory.of_members, strict=True)
        return Parts(of_members=tuple(model.start(part, beams) for model, part in parts))

    def step(self, memory: Parts, state: Parts, last_tokens_BK: Tensor) -> tuple[Tensor, Parts]:
        parts = zip(self._models, memory.of_members, state.of_members, strict=True)
        steps = [model.step(of_memory, of_state, last_tokens_BK) for model, of_memory, of_state in parts]
        log_probs, states = zip(*steps, strict=True)
        sum_BKV = log_probs[0]
        for log_probs_BKV in log_probs[1:]:
            torch.logaddexp(sum_BKV, log_probs_BKV, out=sum_BKV)
        return sum_BKV.sub_(math.log(len(log_probs))), Parts(of_members=states)


def translate_split(
    model: SearchableModel[Any, Any],
    reader: BatchReader,
    settings: Decoding,
    *,
    processes: int = 1,
    on_progress: Callable[[int], object] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every pair of the example store, in its order; for each pair the best first.

    A source without subwords has one hypothesis, the empty one: a model would invent a translation.
    processes: number of processes that share the batches on a CPU; more than one have one thread each, so that results
    are those of one process with one thread, to the last bit.
    on_progress: called with the number of sentences of each translated batch.
    Raises PhrasemtError if a process is killed.
    """
    device = model.device
    settings = settings.model_copy(update={"precision": usable_precision(settings.precision, device)})
    batches = search_batches(reader, settings, device)
    shared = processes > 1 and device.type == "cpu"
    arguments = in_precision(model, settings), reader, settings
    results: dict[int, list[Hypothesis]] = {}
    with _threads(1 if shared else torch.get_num_threads()):
        # Forked processes share the weights; nothing of `arguments` is copied.
        jobs = max(1, min(processes, len(batches))) if shared else 1
        translated = map_in_order(Search.translate, batches, jobs=jobs, prepare=Search, arguments=arguments)
        for rows, hypotheses in zip(batches, translated, strict=True):
            results.update(zip(rows, hypotheses, strict=True))
            on_progress(len(rows))
    lengths = reader.examples.source_lengths[np.arange(len(reader.examples))]
    blank = np.flatnonzero(lengths == 0).tolist()
    results.update((row, [Hypothesis(tokens=(), log_prob=0.0, score=0.0)]) for row in blank)
    on_progress(len(blank))
    return [results[row] for row in range(len(reader.examples))]


def search_batches(reader: BatchReader, settings: Decoding, device: torch.device) -> list[list[int]]:
    """Return the rows that have subwords in batches of similar length, the longest sentences first.

    So processes that share the batches end at about the same time.
    """
    lengths = reader.examples.source_lengths[np.arange(len(reader.examples))]
    counted = np.maximum(lengths, _LEAST_POSITIONS)
    capacity = max(1, _BATCH_POSITIONS[device.type] // settings.beam)
    batches = micro_batches(np.flatnonzero(lengths), counted, counted, capacity=capacity, device=device.type)
    return [rows.tolist() for rows in reversed(batches)]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Give torch this number of threads within a block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_precision(model: SearchableModel[Any, Any], settings: Decoding) -> SearchableModel[Any, Any]:
    """Return the model with weights of the type that the settings name: itself, or a copy.

    With bfloat16 the caller turns autocast on.
    """
    return model if settings.precision == "float32" else copy.deepcopy(model).to(torch.bfloat16)


@dataclass(frozen=True)
class Search:
    """A search over a split. The fields are the arguments of `translate_split`, in their precision."""

    model: SearchableModel[Any, Any]
    reader: BatchReader
    settings: Decoding

    def translate(self, rows: list[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each of these rows, which have subwords. Without memory for all, it divides them."""
        device = self.model.device
        source = self.reader.source(np.array(rows)).to(device)
        try:
            with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
                return beam_search(self.model, source, self.settings)
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise
        middle = len(rows) // 2
        return [*self.translate(rows[:middle]), *self.translate(rows[middle:])]
