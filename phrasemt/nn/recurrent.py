"""What the recurrent systems are made of (dl4mt, Bahdanau et al. 2015, Zhou et al. 2017).

A decoder is a loop over target positions. What can stand outside of it does: `GruCell.project` and
`AdditiveAttention.project_memory` before it, `Readout` after it. Inside, `GruCell.unroll` gives the cell's steps.

Letters: B sentences, K hypotheses, S source positions, T target positions, E embedding width, H state width, C = 2H,
A width of the attention, I width of an input, V words; X any axes in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.nn.dropout import Dropout
from phrasemt.nn.init import recurrent_blocks, zeros
from phrasemt.nn.linear import Linear, project
from phrasemt.nn.unrolled import AttentionSteps, GruSteps
from phrasemt.nn.words import Softmax
from phrasemt.study.architectures import RecurrentModel
from phrasemt.symbols import BOS, PAD


class RecurrentLinear(Linear):
    """A linear map with bias, initialised as in dl4mt."""

    def __init__(self, input_width: int, output_width: int, *, deviation: float) -> None:
        self.deviation = deviation
        super().__init__(input_width, output_width)

    def reset_parameters(self) -> None:
        self.weight = recurrent_blocks(self.out_features, self.in_features, deviation=self.deviation)
        nn.init.zeros_(self.bias)


class WordVectors(nn.Module):
    """drop(E[id]); the vector of the word `zero` is 0 and stays so."""

    def __init__(self, settings: RecurrentModel, vocabulary: int, *, zero: int) -> None:
        super().__init__()
        self.zero = zero
        self.table_VE = recurrent_blocks(vocabulary, settings.embedding, deviation=settings.initial_deviation)
        with torch.no_grad():
            self.table_VE[zero] = 0
        self.dropout = Dropout(settings.dropout)

    def forward(self, ids_X: Tensor) -> Tensor:
        """[...] -> [..., E]."""
        vectors_XE: Tensor = self.dropout(F.embedding(ids_X, self.table_VE, padding_idx=self.zero))
        return vectors_XE


class RecurrentWords(Softmax):
    """Embeddings of source and target, and a softmax with an output layer of its own.

    Before the first target word stands e_0 = 0: the embedding of `<s>`.
    """

    def __init__(self, settings: RecurrentModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.source_embedding = WordVectors(settings, source_vocabulary, zero=PAD)
        self.target_embedding = WordVectors(settings, target_vocabulary, zero=BOS)
        self.output_table_VE = recurrent_blocks(
            target_vocabulary, settings.embedding, deviation=settings.initial_deviation
        )
        self.output_bias_V = zeros(target_vocabulary)

    @property
    def softmax(self) -> tuple[Tensor, Tensor]:
        return self.output_table_VE, self.output_bias_V

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """[B, S] -> [B, S, E]."""
        return self.source_embedding(ids_BS)  # type: ignore[no-any-return]

    def embed_target(self, ids_X: Tensor) -> Tensor:
        """Inputs of the decoder, `<s>` first: [B, T] -> [B, T, E], or the newest words [B, K] -> [B, K, E]."""
        return self.target_embedding(ids_X)  # type: ignore[no-any-return]


class Readout(nn.Module):
    """What words are predicted from: drop(tanh(sum_i W_i x_i + b)), or the maxima of pairs in place of tanh.

    Its width is E either way.
    """

    def __init__(self, settings: RecurrentModel, *input_widths: int) -> None:
        super().__init__()
        self.maxout = settings.readout == "maxout"
        rows = settings.embedding * (2 if self.maxout else 1)
        self.weights = nn.ParameterList(
            recurrent_blocks(rows, width, deviation=settings.initial_deviation) for width in input_widths
        )
        self.bias = zeros(rows)
        self.dropout = Dropout(settings.dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        """[..., I_1], [..., I_2], .. -> [..., E]."""
        first, *others = zip(inputs, self.weights, strict=True)
        sum_XR = project(*first, self.bias)
        for x, weight in others:
            sum_XR = sum_XR + project(x, weight)
        read_XE = torch.maximum(sum_XR[..., ::2], sum_XR[..., 1::2]) if self.maxout else torch.tanh(sum_XR)
        dropped_XE: Tensor = self.dropout(read_XE)
        return dropped_XE


class GruCell(nn.Module):
    """A gated recurrent unit as in dl4mt, which is torch.nn.GRUCell with one of its two biases.

    r, z = sigmoid(W x + U h + b), n = tanh(W x + r * U h), h' = z h + (1 - z) n, where n's bias belongs to W x
    (`bias` input) or to U h (hidden). Rows of the weights: r, z, n.
    """

    def __init__(
        self, input_width: int, hidden_width: int, *, deviation: float, bias: Literal["input", "hidden"] = "input"
    ) -> None:
        super().__init__()
        self.input_3HI = recurrent_blocks(hidden_width, input_width, deviation=deviation, blocks=3)
        self.hidden_3HH = recurrent_blocks(hidden_width, hidden_width, deviation=deviation, blocks=3)
        self.input_bias_3H = zeros(3 * hidden_width) if bias == "input" else None
        self.hidden_bias_3H = zeros(3 * hidden_width) if bias == "hidden" else None

    def project(self, x_XI: Tensor) -> Tensor:
        """The input's share for all positions at once: [..., I] -> [..., 3H]."""
        return project(x_XI, self.input_3HI, self.input_bias_3H)

    def unroll(self) -> GruSteps:
        """Its steps along one sequence; to be called once before a loop."""
        return GruSteps(self.input_3HI, self.input_bias_3H, self.hidden_3HH, self.hidden_bias_3H)


class BidirectionalEncoder(nn.Module):
    """h_j = [forward state; backward state] of two GRUs over the source."""

    def __init__(self, input_width: int, hidden_width: int, *, deviation: float) -> None:
        super().__init__()
        self.forwards = GruCell(input_width, hidden_width, deviation=deviation)
        self.backwards = GruCell(input_width, hidden_width, deviation=deviation)

    def forward(self, x_BSI: Tensor, mask_BS: Tensor) -> Tensor:
        """[B, S, I] -> [B, S, 2H]; what stands at padding means nothing."""
        h_0_BH = x_BSI.new_zeros(x_BSI.shape[0], self.forwards.hidden_3HH.shape[1])
        step, h_BH, forwards = self.forwards.unroll(), h_0_BH, []
        for projected_B3H in self.forwards.project(x_BSI).unbind(1):
            h_BH = step(projected_B3H, h_BH)
            forwards.append(h_BH)
        step, h_BH, backwards = self.backwards.unroll(), h_0_BH, []
        projected_SB3H, real_SB1 = self.backwards.project(x_BSI).unbind(1), mask_BS[..., None].unbind(1)
        for projected_B3H, real_B1 in zip(reversed(projected_SB3H), reversed(real_SB1), strict=True):
            h_BH = step(projected_B3H, h_BH) * real_B1  # from the right padding comes first: there the state stays 0
            backwards.append(h_BH)
        return torch.cat((torch.stack(forwards, dim=1), torch.stack(backwards[::-1], dim=1)), dim=-1)


class InitialState(nn.Module):
    """s_0 = tanh(W mean_j h_j + b)."""

    def __init__(self, state_width: int, hidden_width: int, *, deviation: float) -> None:
        super().__init__()
        self.map = RecurrentLinear(state_width, hidden_width, deviation=deviation)

    def forward(self, states_BSC: Tensor, mask_BS: Tensor) -> Tensor:
        """[B, S, C] -> [B, H]."""
        mask_BS1 = mask_BS[..., None]
        mean_BC = (states_BSC * mask_BS1).sum(1) / mask_BS1.sum(1)
        # The states that follow have the type of this one, whatever the products are in.
        return torch.tanh(self.map(mean_BC)).to(states_BSC.dtype)


@dataclass(frozen=True, kw_only=True)
class Attended:
    """What attention reads: states h [B, S, C], keys U h + b [B, S, A], True at real positions [B, S]."""

    states_BSC: Tensor
    keys_BSA: Tensor
    mask_BS: Tensor

    def kept(self, sentences: Tensor) -> Attended:
        """Some sentences only (int64 indices)."""
        return Attended(
            states_BSC=self.states_BSC.index_select(0, sentences),
            keys_BSA=self.keys_BSA.index_select(0, sentences),
            mask_BS=self.mask_BS.index_select(0, sentences),
        )


class AdditiveAttention(nn.Module):
    """alpha = softmax_j(v . tanh(W q + U h_j + b) + c); context = sum_j alpha_j h_j (Bahdanau et al. 2015).

    c cancels in the softmax; it is kept for the count of parameters.
    """

    def __init__(self, query_width: int, state_width: int, width: int, *, deviation: float) -> None:
        super().__init__()
        self.query_AI = recurrent_blocks(width, query_width, deviation=deviation)
        self.key = RecurrentLinear(state_width, width, deviation=deviation)
        self.score = RecurrentLinear(width, 1, deviation=deviation)

    def project_memory(self, states_BSC: Tensor, mask_BS: Tensor) -> Attended:
        """Once per sentence."""
        return Attended(states_BSC=states_BSC, keys_BSA=self.key(states_BSC), mask_BS=mask_BS)

    def unroll(self, attended: Attended) -> AttentionSteps:
        """What maps queries to contexts, along one sequence; to be called once before a loop."""
        return AttentionSteps(
            self.query_AI,
            attended.keys_BSA,
            attended.states_BSC,
            attended.mask_BS,
            self.score.weight,
            self.score.bias,
        )

    def forward(self, query_BXI: Tensor, attended: Attended) -> Tensor:
        """Contexts of one query per sentence [B, I] -> [B, C], or of K [B, K, I] -> [B, K, C]."""
        return self.unroll(attended)(query_BXI)
