"""The interface of all model families: training, search and forced decoding use models through it alone.

Letters: B sentences, K hypotheses (beams) per sentence, S source positions, T target positions, V target vocabulary.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Batch, Chunks, Source, Target
from phrasemt.nn.attention import Attention
from phrasemt.nn.beams import SearchTensors
from phrasemt.nn.compiling import compilable
from phrasemt.nn.diagnostics import MapBatches, Measurement, NgramMass, Sums, in_turn, total
from phrasemt.nn.embeddings import Embeddings
from phrasemt.nn.losses import Loss, LossSums
from phrasemt.study.architectures import Architecture

Memory = TypeVar("Memory", bound=SearchTensors)
State = TypeVar("State", bound=SearchTensors)


def update_is_likelier(boundary_X2: Tensor) -> Tensor:
    """[..., 2] log-probabilities of COPY and UPDATE -> [...], True where UPDATE has the higher one."""
    return boundary_X2[..., 1] > boundary_X2[..., 0]


@dataclass(frozen=True, kw_only=True)
class ChunkLogProbs:
    """Log-probabilities of decisions about chunks, float32; values at padding are undefined.

    boundary_BT2: of COPY and UPDATE. label_BTL: of all labels, also within chunks. L: CHUNK_LABELS.
    """

    boundary_BT2: Tensor
    label_BTL: Tensor

    @property
    def likeliest(self) -> Chunks:
        """The likeliest decision and label at each position. Equal probabilities mean COPY."""
        return Chunks(starts_BT=update_is_likelier(self.boundary_BT2), labels_BT=self.label_BTL.argmax(-1))


class SearchableModel(nn.Module, ABC, Generic[Memory, State]):
    """What a search knows of a model, or of several models that translate together.

    Memory: the encoder's output for B sources; a search never copies it for each hypothesis.
    State: what the decoder keeps between the steps of a search, for [B, K] hypotheses.
    A search drops finished sentences from both and reorders the hypotheses of a state (`SearchTensors`).
    """

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @abstractmethod
    def encode(self, source: Source) -> Memory:
        """Encode B source sentences."""

    @abstractmethod
    def start(self, memory: Memory, beams: int) -> State:
        """Return the state before the first step of a search, for `beams` hypotheses per sentence."""

    @abstractmethod
    def step(self, memory: Memory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        """Read the last token of each hypothesis (`<s>` in the first step) and predict the next one.

        Returns log-probabilities [B, K, V], float32, and the next state. The two states may share memory that later
        steps overwrite, so the caller must not use the old state any more.
        """


class TranslationModel(SearchableModel[Memory, State]):
    """A model of target sentences, conditional on source sentences.

    embeddings: of source and target; `embeddings.output` is the output layer.
    repeats: whether padded batches have few shapes (`Batch.fixed`), so that a GPU may replay the kernels of their loss
    and gradients (phrasemt/training/replay.py), as it does with packed rows.
    positions_in_row: of a row in which a training may put several pairs; None where each pair has a row of its own.
    """

    embeddings: Embeddings
    repeats: ClassVar[bool] = False
    positions_in_row: int | None = None

    @abstractmethod
    def decode(self, memory: Memory, target: Target) -> Tensor:
        """Teacher forcing: the decoder's states [B, T, ...], from each of which the output layer predicts a word."""

    def loss(self, batch: Batch, *, label_smoothing: float) -> Loss:
        """Return the teacher-forced loss sums of a batch.

        label_smoothing: e of the smoothed reference distribution, 1-e on the reference word and e/(V-1) on each other.
        """
        states = encode_and_decode(self, batch.source, batch.target)
        return self.embeddings.output.loss(states, batch.target, label_smoothing=label_smoothing)

    def log_probs(self, batch: Batch) -> Tensor:
        """Return the teacher-forced log-probability of each reference token [B, T], float32, 0 at padding."""
        return self.embeddings.output.log_probs(self.decode(self.encode(batch.source), batch.target), batch.target)

    def unused_parameters(self) -> int:
        """Return the number of parameters that change nothing under the settings of the model."""
        return 0

    def rate_factors(self) -> Mapping[nn.Parameter, float]:
        """Return the parameters that learn at a multiple of the schedule's learning rate, and the multiples."""
        return {}

    def plain_loss(self, batch: Batch) -> Loss:
        """Return the loss sums of a batch without label smoothing."""
        return self.loss(batch, label_smoothing=0.0)

    def attentions(self) -> Sequence[Attention]:
        """Return all attentions of the model, in the order in which a sentence passes through them."""
        return ()

    def mixtures(self) -> Mapping[str, Tensor]:
        """Return by name weights [L, J], with which decoder layer j mixes the L levels of the encoder; sums are 1."""
        return {}

    def measurements(self) -> Sequence[Measurement]:
        """Return what an evaluation measures besides the losses."""
        return [NgramMass(self.attentions())]

    def analyses(self) -> Sequence[Measurement]:
        """Return what only the stage `analyse_attention` measures, because it takes several passes over the batches."""
        return ()

    @torch.no_grad()
    def measure(
        self,
        batches: Sequence[Batch],
        loss: Callable[[Batch], Loss] | None = None,
        map_batches: MapBatches = in_turn,
        *,
        analysing: bool = False,
    ) -> tuple[LossSums, dict[str, float]]:
        """Return the losses of batches, and by name the values of `measurements`, and of `analyses` if `analysing`.

        The model is in evaluation mode.
        loss: replaces `plain_loss` in the pass that computes the losses; it decodes the batch with this model once, and
        may record what the model computes. map_batches: computes a function of each batch, perhaps in several processes
        that all call this.
        """
        taken = [*self.measurements(), *(self.analyses() if analysing else ())]

        def numbers(batch: Batch) -> list[Sums]:
            with ExitStack() as stack:
                watched = [measurement.watch(batch, stack) for measurement in taken]
                batch_loss = (loss or self.plain_loss)(batch)
            return [batch_loss.numbers(), *watched]

        def sum_over_batches(function: Callable[[Batch], Sums]) -> Sums:
            return total(map_batches(function, batches))

        losses, *sums = map(total, zip(*map_batches(numbers, batches), strict=True))
        values: dict[str, float] = {}
        for measurement, of_batches in zip(taken, sums, strict=True):
            values |= measurement.values(of_batches, sum_over_batches)
        return LossSums.of(losses), values


@compilable
def encode_and_decode(model: TranslationModel[Any, Any], source: Source, target: Target) -> Tensor:
    """Teacher forcing: the decoder's states [B, T, ...]."""
    return model.decode(model.encode(source), target)


class ChunkingModel(TranslationModel[Memory, State]):
    """A model that also predicts where target chunks begin, and their labels (Zhou et al. 2017).

    context_waits: True if the context, and with it the attention, changes only where a chunk begins.
    """

    context_waits: bool

    @abstractmethod
    def chunk_log_probs(self, batch: Batch) -> ChunkLogProbs:
        """Return the log-probabilities of all decisions about chunks at each target position.

        The words before each position are given, and the chunks before it, too. If the target has no chunks, these are
        the model's own decisions.
        """


def build_model(
    settings: Architecture, *, source_vocabulary: int, target_vocabulary: int
) -> TranslationModel[Any, Any]:
    """Return the untrained model of these settings: calls `phrasemt.models.<family>.build`.

    The module's name is the family's name, so a new family changes no file that other families depend on. Sizes of
    vocabularies include the special tokens.
    """
    family = importlib.import_module(f"phrasemt.models.{settings.family}")
    model: TranslationModel[Any, Any] = family.build(
        settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary
    )
    return model
