"""Embeddings of source and target, and the output layer, which maps the states of a decoder to words.

An embedding turns ids into vectors by a table E. The output layer has another table W, or the same (Press, Wolf 2017):
its softmax over x W^T + b is the distribution of the next word. Its losses are computed in phrasemt/nn/losses.py.
`TransformerEmbeddings` holds both for a Transformer, `RecurrentEmbeddings` (phrasemt/nn/recurrent.py) for others.

Letters: B sentences, S source positions, T target positions, K hypotheses, D model width, V vocabulary, N real target
tokens. A "word" here is an entry of the vocabulary: a subword, a whole word, or a special token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.batching.batch import Pairs, Target
from phrasemt.nn.layers import Dropout, SinusoidalPositions, embedding_table, layer_norm, zeros
from phrasemt.nn.losses import Loss, log_probabilities, reference_log_probabilities, smoothed_cross_entropy
from phrasemt.study.architectures import Layers


class Embedding(nn.Module):
    """drop(sqrt(d) E[id] + PE), and with `embed_ln` a layer normalisation of that.

    The caller passes the table E, because several embeddings and the output layer may share it. Without `positions`
    PE is left out.
    """

    def __init__(self, settings: Layers, *, embed_ln: bool, positions: bool) -> None:
        super().__init__()
        self.scale = settings.width**0.5
        self.positions = SinusoidalPositions(settings.width) if positions else None
        self.dropout = Dropout(settings.dropout)
        self.norm = layer_norm(settings.width) if embed_ln else nn.Identity()

    def forward(
        self, ids: Tensor, table_VD: Tensor, first_position: int, positions: int, pairs: Pairs | None = None
    ) -> Tensor:
        """[B, T] -> [B, T, D]. Ids of a row have the positions first_position, first_position + 1, and so on.

        positions: T, or 1 to give all ids of a row the same position. pairs: of packed rows; each begins anew at 0.
        """
        words_BTD = F.embedding(ids, table_VD)
        if self.positions is None:
            placed_BTD = words_BTD * self.scale
        else:
            encodings_XD = self.positions(first_position, positions)
            if pairs is not None:
                encodings_XD = F.embedding(pairs.place_BS, encodings_XD)
            placed_BTD = encodings_XD.add(words_BTD, alpha=self.scale)
        embedded_BTD: Tensor = self.norm(self.dropout(placed_BTD))
        return embedded_BTD


@dataclass(frozen=True)
class OutputLayer:
    """Softmax over the target vocabulary with logits x W^T + b, and its losses.

    weight_VD: W. bias_V: b, or None for no bias.
    """

    weight_VD: Tensor
    bias_V: Tensor | None

    def loss(self, states_BTD: Tensor, target: Target, *, label_smoothing: float) -> Loss:
        """Return the loss sums of the target words, given the states that predict them."""
        real = self._real(states_BTD, target)
        return smoothed_cross_entropy(*real, label_smoothing, target.weights_N)

    def log_probs(self, states_BTD: Tensor, target: Target) -> Tensor:
        """Return the log-probability of each reference word [B, T], float32, 0 at padding."""
        log_probs_N = reference_log_probabilities(*self._real(states_BTD, target))
        zeros_BT = log_probs_N.new_zeros(target.mask_BT.shape)
        return zeros_BT.flatten().index_copy(0, target.real_N, log_probs_N).view_as(zeros_BT)

    def next_log_probs(self, states_BKD: Tensor) -> Tensor:
        """Return the log-probabilities of all words after each hypothesis [B, K, V], float32."""
        return log_probabilities(states_BKD, self.weight_VD, self.bias_V)

    def _real(self, states_BTD: Tensor, target: Target) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        """Return the states of the real positions [N, D], the weights, and the reference words [N]."""
        states_ND = states_BTD.flatten(0, 1).index_select(0, target.real_N)
        references_N = target.outputs_BT.flatten().index_select(0, target.real_N)
        return states_ND, self.weight_VD, self.bias_V, references_N


class Embeddings(nn.Module, ABC):
    """Embeddings of source and target, and the weights of the output layer."""

    @property
    @abstractmethod
    def output(self) -> OutputLayer:
        """The output layer, with the weights of now."""


class TransformerEmbeddings(Embeddings):
    """Embeddings and output layer of a Transformer; the output layer shares the table of the target embeddings.

    source_vocabulary: 0 for models without a source. tie_all: source and target share one table; they must have one
    vocabulary. embed_ln, positions: as in `Embedding`. softmax_bias: whether the output layer has a bias.
    """

    def __init__(
        self,
        settings: Layers,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        tie_all: bool,
        embed_ln: bool = False,
        softmax_bias: bool = False,
        positions: bool = True,
    ) -> None:
        super().__init__()
        self.target_table_VD = embedding_table(target_vocabulary, settings.width)
        if tie_all or not source_vocabulary:
            assert source_vocabulary in (0, target_vocabulary)
            self.register_parameter("source_table_VD", None)
        else:
            self.source_table_VD = embedding_table(source_vocabulary, settings.width)
        self.softmax_bias_V = zeros(target_vocabulary) if softmax_bias else None
        self.source_embedding, self.target_embedding = (
            Embedding(settings, embed_ln=embed_ln, positions=positions) for _ in range(2)
        )

    @property
    def output(self) -> OutputLayer:
        return OutputLayer(self.target_table_VD, self.softmax_bias_V)

    @property
    def source_weights(self) -> Tensor:
        """The table of the source embeddings [V, D]."""
        return self.target_table_VD if self.source_table_VD is None else self.source_table_VD

    def embed_source(self, ids_BS: Tensor, pairs: Pairs | None = None) -> Tensor:
        """[B, S] -> [B, S, D]. pairs: of packed rows."""
        return self.source_embedding(ids_BS, self.source_weights, 0, ids_BS.shape[1], pairs)  # type: ignore[no-any-return]

    def embed_target(self, ids_BT: Tensor, pairs: Pairs | None = None) -> Tensor:
        """[B, T] -> [B, T, D]. pairs: of packed rows."""
        return self.target_embedding(ids_BT, self.target_table_VD, 0, ids_BT.shape[1], pairs)  # type: ignore[no-any-return]

    def embed_last(self, ids_BK: Tensor, position: int) -> Tensor:
        """Embed the newest word of each hypothesis, all at the same position: [B, K] -> [B, K, D]."""
        return self.target_embedding(ids_BK, self.target_table_VD, position, 1)  # type: ignore[no-any-return]
