"""dl4mt and dl4mt-2: recurrent translation with attention, the baselines of the chunk-based bi-scale decoder.

Bahdanau, Cho, Bengio (2015): Neural Machine Translation by Jointly Learning to Align and Translate. ICLR.
The decoder is the DL4MT tutorial's (Firat, Cho 2016): attention stands between two recurrent cells. So it is in
Zhou, Tu, Huang, Liu, Li, Chen (2017): Chunk-Based Bi-Scale Decoder for Neural Machine Translation. ACL.

Notation
    paper         here                 shape
    n             H                    1000, width of each state; the encoder's two directions make C = 2H
    m             E                    620, width of embeddings; of the readout, too
    h_j           states_BSC           [B sentences, S source positions, C]
    e_i           e_BTE                [B, T target positions, E], in a search [B, K hypotheses, E]
    u_i           u_BH                 [B, H], the state between the two cells
    s_i           s_BH                 [B, H]
    c_i           c_BC                 [B, C]
    alpha_ij      inside AdditiveAttention   [B, S]
    U_a h_j       keys_BSA             [B, S, A]

Equations
    Eq. (4)  probability of a word, from the last word, state and context
    Eq. (5)  context: weighted sum of the encoder's states
    Eq. (6)  weights of attention
    (A cell: GruCell, energies: AdditiveAttention, both in phrasemt/nn/recurrent.py.)

Deviations and choices (docs/decisions.md, C13, C17)
    two cells       u = GRU1(e_{i-1}, s_{i-1}) is the query of attention, s = GRU2(c, u) (tutorial); Bahdanau et al.
                    have one cell
    e_0 = 0         a zero vector in place of an embedding of <s>
    s_0             from the mean of all h_j; Bahdanau et al. take the backward state of the first word
    attention_width 2H (tutorial); Bahdanau et al. have H
    readout         tanh (tutorial); Bahdanau et al. have maxout of pairs, of width 500 (`readout_width`)
    decoder_layers  2: dl4mt-2. The paper says no more than "two decoder layers". Here the second layer reads the state
                    and the context of the first, and the readout reads the state of the second in place of the first
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasemt.batching.batch import Source, Target
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.attention import Attention
from phrasemt.nn.beams import SearchTensors
from phrasemt.nn.recurrent import (
    AdditiveAttention,
    AttentionMemory,
    BidirectionalEncoder,
    GruCell,
    InitialState,
    Readout,
    RecurrentEmbeddings,
)
from phrasemt.study.architectures import Dl4mtModel


class UpperLayer(nn.Module):
    """The second layer of dl4mt-2: a cell that reads [s_i ; c_i]."""

    def __init__(self, settings: Dl4mtModel) -> None:
        super().__init__()
        width, deviation = settings.hidden, settings.initial_deviation
        self.initial = InitialState(2 * width, width, deviation=deviation)
        self.cell = GruCell(3 * width, width, deviation=deviation)

    def forward(self, s_XH: Tensor, c_XC: Tensor) -> Tensor:
        """The input's share of the cell's gates, for all positions at once: [..., H], [..., C] -> [..., 3H]."""
        return self.cell.project(torch.cat((s_XH, c_XC), dim=-1))


@dataclass(frozen=True, kw_only=True)
class State(SearchTensors):
    """Recurrent states of all hypotheses [B, K, H]. upper_BKH: state of the second layer, None with one layer."""

    s_BKH: Tensor
    upper_BKH: Tensor | None


class Dl4mt(TranslationModel[AttentionMemory, State]):
    """Bidirectional encoder, decoder of one or two recurrent layers with attention, readout."""

    embeddings: RecurrentEmbeddings
    repeats = True

    def __init__(self, settings: Dl4mtModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        embedding, width, deviation = settings.embedding, settings.hidden, settings.initial_deviation
        self.embeddings = RecurrentEmbeddings(
            settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary
        )
        self.encoder = BidirectionalEncoder(embedding, width, deviation=deviation)
        self.initial = InitialState(2 * width, width, deviation=deviation)
        self.first_cell = GruCell(embedding, width, deviation=deviation)
        attention_width = settings.attention_width or 2 * width
        self.attention = AdditiveAttention(width, 2 * width, attention_width, deviation=deviation)
        self.second_cell = GruCell(2 * width, width, deviation=deviation, bias="hidden")
        self.upper = UpperLayer(settings) if settings.decoder_layers == 2 else None
        self.readout = Readout(settings, width, embedding, 2 * width)

    def encode(self, source: Source) -> AttentionMemory:
        states_BSC = self.encoder(self.embeddings.embed_source(source.ids_BS), source.mask_BS)
        return self.attention.project_memory(states_BSC, source.mask_BS)

    def decode(self, memory: AttentionMemory, target: Target) -> Tensor:
        """Teacher forcing: the readout [B, T, R], from each position of which one word is predicted."""
        e_BTE = self.embeddings.embed_target(target.inputs_BT)
        first, attend, second = self.first_cell.unroll(), self.attention.unroll(memory), self.second_cell.unroll()
        s_BH = self.initial(memory.states_BSC, memory.mask_BS)
        states, contexts = [], []
        for projected_B3H in self.first_cell.project(e_BTE).unbind(1):
            u_BH = first(projected_B3H, s_BH)
            c_BC = attend(u_BH)  # Eqs. (5-6)
            s_BH = second(second.project(c_BC), u_BH)
            states.append(s_BH)
            contexts.append(c_BC)
        s_BTH, c_BTC = torch.stack(states, dim=1), torch.stack(contexts, dim=1)
        if self.upper is not None:
            step = self.upper.cell.unroll()
            upper_BH = self.upper.initial(memory.states_BSC, memory.mask_BS)
            states = []
            for projected_B3H in self.upper(s_BTH, c_BTC).unbind(1):
                upper_BH = step(projected_B3H, upper_BH)
                states.append(upper_BH)
            s_BTH = torch.stack(states, dim=1)
        read_BTR: Tensor = self.readout(s_BTH, e_BTE, c_BTC)  # Eq. (4)
        return read_BTR

    def attentions(self) -> list[Attention]:
        return [Attention(place="cross", layer=1, module=self.attention)]

    def start(self, memory: AttentionMemory, beams: int) -> State:
        def initial(module: InitialState) -> Tensor:
            s_BH: Tensor = module(memory.states_BSC, memory.mask_BS)
            return s_BH[:, None].expand(-1, beams, -1)

        return State(s_BKH=initial(self.initial), upper_BKH=None if self.upper is None else initial(self.upper.initial))

    def step(self, memory: AttentionMemory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        e_BKE = self.embeddings.embed_target(last_tokens_BK)
        u_BKH = self.first_cell.unroll()(self.first_cell.project(e_BKE), state.s_BKH)
        c_BKC = self.attention(u_BKH, memory)
        read_from_BKH = s_BKH = self.second_cell.unroll()(self.second_cell.project(c_BKC), u_BKH)
        upper_BKH = state.upper_BKH
        if self.upper is not None and upper_BKH is not None:
            read_from_BKH = upper_BKH = self.upper.cell.unroll()(self.upper(s_BKH, c_BKC), upper_BKH)
        log_probs_BKV = self.embeddings.output.next_log_probs(self.readout(read_from_BKH, e_BKE, c_BKC))
        return log_probs_BKV, State(s_BKH=s_BKH, upper_BKH=upper_BKH)


build = Dl4mt
