"""Building blocks of recurrent systems (dl4mt, Bahdanau et al. 2015, Zhou et al. 2017).

A decoder is a loop over target positions. Products that do not depend on the state of the loop are computed for all
positions at once: `GruCell.project` and `AdditiveAttention.project_memory` before the loop, `Readout` after it. Inside
the loop, the results of `GruCell.unroll` and `AdditiveAttention.unroll` compute one step.

Letters: B sentences, K hypotheses, S source positions, T target positions, E embedding width, H state width, C = 2H,
A width of attention, R width of the readout, I width of an input, V vocabulary; X any number of leading axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.nn.attention import RecordableAttention
from phrasemt.nn.beams import SearchTensors
from phrasemt.nn.embeddings import Embeddings, OutputLayer
from phrasemt.nn.layers import Dropout, Linear, recurrent_blocks, zeros
from phrasemt.nn.unrolled import AttentionSteps, GruSteps
from phrasemt.study.architectures import RecurrentModel
from phrasemt.symbols import BOS, PAD


class RecurrentLinear(Linear):
    """A linear map with bias, initialised as in dl4mt. deviation: standard deviation of weights that are not square."""

    def __init__(self, input_width: int, output_width: int, *, deviation: float) -> None:
        self.deviation = deviation
        super().__init__(input_width, output_width)

    def reset_parameters(self) -> None:
        self.weight = recurrent_blocks(self.out_features, self.in_features, deviation=self.deviation)
        nn.init.zeros_(self.bias)


class RecurrentEmbedding(nn.Module):
    """drop(E[id]). zero: the id whose vector is 0 and is not trained."""

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


class RecurrentEmbeddings(Embeddings):
    """Embeddings of source and target, and an output layer with a table of its own, [V, R].

    The embedding of `<s>` is e_0 = 0, the decoder's first input.
    """

    def __init__(self, settings: RecurrentModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.source_embedding = RecurrentEmbedding(settings, source_vocabulary, zero=PAD)
        self.target_embedding = RecurrentEmbedding(settings, target_vocabulary, zero=BOS)
        self.output_table_VE = recurrent_blocks(
            target_vocabulary, settings.readout_width or settings.embedding, deviation=settings.initial_deviation
        )
        self.output_bias_V = zeros(target_vocabulary)

    @property
    def output(self) -> OutputLayer:
        return OutputLayer(self.output_table_VE, self.output_bias_V)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """[B, S] -> [B, S, E]."""
        return self.source_embedding(ids_BS)  # type: ignore[no-any-return]

    def embed_target(self, ids_X: Tensor) -> Tensor:
        """Embed the decoder's inputs: [B, T] -> [B, T, E], or in a search the newest words [B, K] -> [B, K, E]."""
        return self.target_embedding(ids_X)  # type: ignore[no-any-return]


class LinearSum(nn.Module):
    """sum_i W_i x_i + b: [..., I_1], [..., I_2], .. -> [..., O]."""

    def __init__(self, output_width: int, *input_widths: int, deviation: float) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            recurrent_blocks(output_width, width, deviation=deviation) for width in input_widths
        )
        self.bias = zeros(output_width)

    def forward(self, *inputs: Tensor) -> Tensor:
        first, *others = zip(inputs, self.weights, strict=True)
        sum_XO = F.linear(*first, self.bias)
        for x, weight in others:
            sum_XO = sum_XO + F.linear(x, weight)
        return sum_XO


class Readout(LinearSum):
    """drop(tanh(sum_i W_i x_i + b)), the input of the output layer; its width R is `readout_width`, or E.

    With `readout: maxout` the sum has width 2R, and the maximum of each pair replaces the tanh.
    """

    def __init__(self, settings: RecurrentModel, *input_widths: int) -> None:
        self.maxout = settings.readout == "maxout"
        rows = (settings.readout_width or settings.embedding) * (2 if self.maxout else 1)
        super().__init__(rows, *input_widths, deviation=settings.initial_deviation)
        self.dropout = Dropout(settings.dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        sum_XO = super().forward(*inputs)
        read_XR = torch.maximum(sum_XO[..., ::2], sum_XO[..., 1::2]) if self.maxout else torch.tanh(sum_XO)
        dropped_XR: Tensor = self.dropout(read_XR)
        return dropped_XR


class GruCell(nn.Module):
    """A gated recurrent unit as in dl4mt: torch.nn.GRUCell with one of its two biases.

    r, z = sigmoid(W x + U h + b), n = tanh(W x + r * U h), h' = z h + (1 - z) n. The bias of n is added to W x
    (bias: input) or to U h (bias: hidden). The weights have the rows of r, z and n, in this order.
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
        """Compute W x, the input's share of the gates, for all positions at once: [..., I] -> [..., 3H].

        It has the type of the states, so that no step has to convert its part.
        """
        return F.linear(x_XI, self.input_3HI, self.input_bias_3H).to(self.input_3HI.dtype)

    def unroll(self) -> GruSteps:
        """Return the cell's step function for one loop over positions. Call this once before the loop."""
        return GruSteps(self.input_3HI, self.input_bias_3H, self.hidden_3HH, self.hidden_bias_3H)


class BidirectionalEncoder(nn.Module):
    """h_j = [forward state; backward state], from two GRUs over the source."""

    def __init__(self, input_width: int, hidden_width: int, *, deviation: float) -> None:
        super().__init__()
        self.forward_cell = GruCell(input_width, hidden_width, deviation=deviation)
        self.backward_cell = GruCell(input_width, hidden_width, deviation=deviation)

    def forward(self, x_BSI: Tensor, mask_BS: Tensor) -> Tensor:
        """[B, S, I] -> [B, S, 2H]; values at padding are undefined."""
        h_0_BH = x_BSI.new_zeros(x_BSI.shape[0], self.forward_cell.hidden_3HH.shape[1])
        step, h_BH, forwards = self.forward_cell.unroll(), h_0_BH, []
        for projected_B3H in self.forward_cell.project(x_BSI).unbind(1):
            h_BH = step(projected_B3H, h_BH)
            forwards.append(h_BH)
        step, h_BH, backwards = self.backward_cell.unroll(), h_0_BH, []
        projected_SB3H, real_SB1 = self.backward_cell.project(x_BSI).unbind(1), mask_BS[..., None].unbind(1)
        for projected_B3H, real_B1 in zip(reversed(projected_SB3H), reversed(real_SB1), strict=True):
            h_BH = step(projected_B3H, h_BH) * real_B1  # from the right, padding comes first: the state must stay 0
            backwards.append(h_BH)
        return torch.cat((torch.stack(forwards, dim=1), torch.stack(backwards[::-1], dim=1)), dim=-1)


class InitialState(nn.Module):
    """s_0 = tanh(W mean_j h_j + b)."""

    def __init__(self, state_width: int, hidden_width: int, *, deviation: float) -> None:
        super().__init__()
        self.linear = RecurrentLinear(state_width, hidden_width, deviation=deviation)

    def forward(self, states_BSC: Tensor, mask_BS: Tensor) -> Tensor:
        """[B, S, C] -> [B, H]."""
        mask_BS1 = mask_BS[..., None]
        mean_BC = (states_BSC * mask_BS1).sum(1) / mask_BS1.sum(1)
        # The states that follow have the type of this one, whatever the products are in.
        return torch.tanh(self.linear(mean_BC)).to(states_BSC.dtype)


@dataclass(frozen=True, kw_only=True)
class AttentionMemory(SearchTensors):
    """Source states h and keys U h + b, to which attention attends. mask_BS: True at real positions."""

    states_BSC: Tensor
    keys_BSA: Tensor
    mask_BS: Tensor


class AdditiveAttention(RecordableAttention):
    """alpha = softmax_j(v . tanh(W q + U h_j + b) + c); context = sum_j alpha_j h_j (Bahdanau et al. 2015).

    c cancels in the softmax. It is a parameter all the same, as in the authors' code.
    """

    def __init__(self, query_width: int, state_width: int, width: int, *, deviation: float) -> None:
        super().__init__()
        self.query_AI = recurrent_blocks(width, query_width, deviation=deviation)
        self.key = RecurrentLinear(state_width, width, deviation=deviation)
        self.score = RecurrentLinear(width, 1, deviation=deviation)

    def project_memory(self, states_BSC: Tensor, mask_BS: Tensor) -> AttentionMemory:
        """Compute the keys of the source states, once per sentence."""
        return AttentionMemory(states_BSC=states_BSC, keys_BSA=self.key(states_BSC), mask_BS=mask_BS)

    def unroll(self, attended: AttentionMemory) -> AttentionSteps:
        """Return the function from queries to contexts for one loop over positions. Call this once before the loop."""
        return AttentionSteps(
            self.query_AI,
            attended.keys_BSA,
            attended.states_BSC,
            attended.mask_BS,
            self.score.weight,
            self.score.bias,
            self.record,
        )

    def forward(self, query_BXI: Tensor, attended: AttentionMemory) -> Tensor:
        """Compute contexts of one query per sentence, [B, I] -> [B, C], or of K queries, [B, K, I] -> [B, K, C]."""
        return self.unroll(attended)(query_BXI)
