"""What training, search and forced decoding know about a model: nothing but this.

Letters: B sentences, K hypotheses (beams) per sentence, S source positions, T target positions, V target vocabulary.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from phrasemt.batching.batch import Batch, Chunks, Source, Target
from phrasemt.nn.words import Loss, Softmax
from phrasemt.study.architectures import Architecture

Memory = TypeVar("Memory")
State = TypeVar("State")


class TranslationModel(nn.Module, ABC, Generic[Memory, State]):
    """A conditional model of target sentences given source sentences.

    Memory holds what the encoder makes of B sources; it is never copied per hypothesis. State holds what a decoder
    carries from step to step for [B, K] hypotheses. words: the softmax over the target vocabulary.
    """

    words: Softmax

    @abstractmethod
    def encode(self, source: Source) -> Memory:
        """Encode B source sentences."""

    @abstractmethod
    def decode(self, memory: Memory, target: Target) -> Tensor:
        """Teacher forcing: states [B, T, ...], from each of which `words` predicts one word."""

    def loss(self, batch: Batch, *, label_smoothing: float) -> Loss:
        """Teacher-forced loss sums of a batch. With `label_smoothing` e: (1-e) on the reference, e/(V-1) elsewhere."""
        states = self.decode(self.encode(batch.source), batch.target)
        return self.words.loss(states, batch.target, label_smoothing=label_smoothing)

    def log_probs(self, batch: Batch) -> Tensor:
        """Teacher-forced log-probability of each reference token [B, T], float32, 0 where padded."""
        return self.words.log_probs(self.decode(self.encode(batch.source), batch.target), batch.target)

    def diagnostics(self, batch: Batch) -> dict[str, float]:
        """What a family shows of itself after each evaluation, by name, measured on a batch of dev."""
        return {}

    @abstractmethod
    def start(self, memory: Memory, beams: int) -> State:
        """The decoder state before the first step, for `beams` hypotheses per sentence."""

    @abstractmethod
    def step(self, memory: Memory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        """Last token of each hypothesis (`<s>` first) -> log-probabilities [B, K, V] float32, and the next state.

        The state that was passed in is used up: only the new one may be stepped or reordered further.
        """

    @abstractmethod
    def reorder(self, state: State, parents_BK: Tensor) -> State:
        """The state in which hypothesis k of sentence b continues hypothesis parents_BK[b, k]."""

    @abstractmethod
    def keep(self, memory: Memory, state: State, sentences: Tensor) -> tuple[Memory, State]:
        """Memory and state of some sentences only (int64 indices), once the others are finished."""


class ChunkingModel(TranslationModel[Memory, State]):
    """A model that also decides where chunks of the target begin, and how they are labelled (Zhou et al. 2017)."""

    @abstractmethod
    def chunk_decisions(self, batch: Batch) -> Chunks:
        """Its likeliest decision about boundary and label at each target position, given the words and gold chunks.

        Labels stand at all positions, also inside chunks; what stands at padding means nothing.
        """


def build_model(
    settings: Architecture, *, source_vocabulary: int, target_vocabulary: int
) -> TranslationModel[Any, Any]:
    """The untrained model of a study's settings: `phrasemt.models.<family>.build`.

    Families are found by their module's name, so that adding one changes no file that others depend on.
    """
    family = importlib.import_module(f"phrasemt.models.{settings.family}")
    model: TranslationModel[Any, Any] = family.build(
        settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary
    )
    return model
