"""Bi-scale decoder: dl4mt with a second decoder state, the chunk state, which changes only where a target chunk begins.

Zhou, Tu, Huang, Liu, Li, Chen (2017): Chunk-Based Bi-Scale Decoder for Neural Machine Translation. ACL.

Notation
    paper       here                    shape
    h_j         states_BSC              [B sentences, S source positions, C = 2H]
    e_{t-1}     e_BTE                   [B, T target positions, E], in a search [B, K hypotheses, E]
    s_t         s_XH                    [..., H], word state; s_{t-1} before the step
    (u_t)       u_XH                    [..., H], word state between its two cells
    p_t         p_XP                    [..., P = chunk_hidden], chunk state
    pe_t        pe_XQ                   [..., Q = chunk_embedding], representation of the last chunk
    c_t         c_XC                    [..., C], context
    (u_t')      start_XH                [..., H], u at the first word of the chunk
    b_t         starts_BT               True: word t begins a chunk (UPDATE), False: it does not (COPY)
    l_t         labels_BT               index into CHUNK_LABELS
    m           chunk_map_QH            [Q, H], linear
    X in a tensor's name stands for the leading axes: [B], [B, T] or [B, K].

Equations
    Eqs. (6-7)  word state and word, which read the chunk state where dl4mt reads a context
    Eq. (8)  probability that a chunk begins with word t
    Eq. (9)  representation of the last chunk: the difference of two word states
    Eq. (10)  attention, queried by the chunk state
    Eq. (11)  label of a chunk

Deviations and choices (docs/decisions.md, C1-C16)
    Eq. (8)  a tanh layer on e_{t-1} and u_t, which knows y_{t-1}: the authors' code
    Eq. (9)  u_t - u_t' covers exactly the words of the last chunk; the printed s and e would miss its first word.
             For the first chunk u_t' is 0. m is linear and has no bias
    Eq. (10)  the query is the output of the first of two chunk cells; chunk_query: p_prev has the printed p_{t-1}
    ctx_update    every_step: the authors' code computes c_t and pe_t at every word, and p_t at boundaries only
    word_inputs   p+c: the word state reads [c_t ; p_t], and the readout reads c_t in place of p_t
    attention     word: our reading of the row "Word" of the paper's Table 2, which the paper does not define. u_t is
                  the query at every word. The second chunk cell and the readout read c_t, the word state [c_t ; p_t]
    b_1 = 1       also in a search. All decisions depend on the words before; equal probabilities mean COPY
    joint         adds the log-probability of the decision taken and, where a chunk begins, of its likeliest label
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from phrasemt.batching.batch import Batch, Source, Target
from phrasemt.models.interface import ChunkingModel, ChunkLogProbs, update_is_likelier
from phrasemt.nn.attention import Attention
from phrasemt.nn.beams import SearchTensors
from phrasemt.nn.diagnostics import Measurement, OwnChunks
from phrasemt.nn.layers import recurrent_blocks
from phrasemt.nn.losses import Loss, nll_sum
from phrasemt.nn.precision import normalised_dtype
from phrasemt.nn.recurrent import (
    AdditiveAttention,
    AttentionMemory,
    BidirectionalEncoder,
    GruCell,
    InitialState,
    LinearSum,
    Readout,
    RecurrentEmbeddings,
    RecurrentLinear,
)
from phrasemt.nn.unrolled import LinearSteps
from phrasemt.study.architectures import BiscaleModel
from phrasemt.symbols import CHUNK_LABELS


@dataclass(frozen=True, kw_only=True)
class DecoderState(SearchTensors):
    """Word state and chunk state, and what the chunk has besides: [B, ...], or in a search [B, K, ...].

    Before the first chunk pe, c and start are zero.
    """

    s_XH: Tensor
    p_XP: Tensor
    pe_XQ: Tensor
    c_XC: Tensor
    start_XH: Tensor

    @classmethod
    def stack(cls, positions: Sequence[DecoderState]) -> DecoderState:
        """Stack T states [B, ...] to one [B, T, ...]."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: torch.stack([getattr(state, name) for state in positions], dim=1) for name in names})

    def where(self, starts_X: Tensor, other: DecoderState) -> DecoderState:
        """Select this state where `starts_X` is True and the other elsewhere. Shared tensors are not copied.

        The tensors are selected as one, because a GPU would launch 20 kernels for four of them and their gradients.
        """
        names = [name for name, ours in vars(self).items() if ours is not getattr(other, name)]
        if not names:
            return self
        ours_XD, theirs_XD = (torch.cat([getattr(state, name) for name in names], dim=-1) for state in (self, other))
        selected_XD = torch.where(starts_X[..., None], ours_XD, theirs_XD)
        widths = [getattr(self, name).shape[-1] for name in names]
        return replace(self, **dict(zip(names, torch.split(selected_XD, widths, dim=-1), strict=True)))


class Steps:
    """The computations of one position, with weights that are prepared once for all positions (nn/unrolled.py)."""

    def __init__(self, model: Biscale, memory: AttentionMemory) -> None:
        self.word_first, self.word_second = model.word_first.unroll(), model.word_second.unroll()
        self.chunk_first, self.chunk_second = model.chunk_first.unroll(), model.chunk_second.unroll()
        self.chunk_map = LinearSteps(model.chunk_map_QH)
        self.attend = model.attention.unroll(memory)


@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """All positions of target sentences. starts_BT: the decisions about boundaries that the states follow."""

    e_BTE: Tensor
    u_BTH: Tensor
    starts_BT: Tensor
    states: DecoderState


@dataclass(frozen=True, kw_only=True)
class State(SearchTensors):
    """Search state of all hypotheses.

    first: True before the first word.
    state: decoder state.
    """

    first: bool
    state: DecoderState


class Classifier(LinearSum):
    """softmax(W tanh(sum_i W_i x_i + b) + b')."""

    def __init__(self, classes: int, hidden_width: int, *input_widths: int, deviation: float) -> None:
        super().__init__(hidden_width, *input_widths, deviation=deviation)
        self.output = RecurrentLinear(hidden_width, classes, deviation=deviation)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the log-probabilities of the classes, float32: [..., I_1], [..., I_2], .. -> [..., classes]."""
        logits: Tensor = self.output(torch.tanh(super().forward(*inputs)))
        return torch.log_softmax(logits, dim=-1, dtype=normalised_dtype(logits))


class Biscale(ChunkingModel[AttentionMemory, State]):
    """dl4mt with a chunk state, which attends to the source; the word state reads the chunk state."""

    embeddings: RecurrentEmbeddings
    repeats = True

    def __init__(self, settings: BiscaleModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        embedding, width, context = settings.embedding, settings.hidden, 2 * settings.hidden
        chunk, representation = settings.chunk_hidden, settings.chunk_embedding
        deviation = settings.initial_deviation
        by_word = settings.attention == "word"
        self.words_read_context = by_word or settings.word_inputs == "p+c"
        self.context_waits = not by_word and settings.ctx_update == "boundary"

        self.embeddings = RecurrentEmbeddings(
            settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary
        )
        self.encoder = BidirectionalEncoder(embedding, width, deviation=deviation)
        self.word_initial = InitialState(context, width, deviation=deviation)
        self.chunk_initial = InitialState(context, chunk, deviation=deviation)
        self.word_first = GruCell(embedding, width, deviation=deviation)
        word_inputs = context + chunk if self.words_read_context else chunk
        self.word_second = GruCell(word_inputs, width, deviation=deviation, bias="hidden")
        self.chunk_map_QH = recurrent_blocks(representation, width, deviation=deviation)
        self.chunk_first = GruCell(representation, chunk, deviation=deviation)
        attention_width = settings.attention_width or context
        self.attention = AdditiveAttention(width if by_word else chunk, context, attention_width, deviation=deviation)
        self.chunk_second = GruCell(context, chunk, deviation=deviation, bias="hidden")
        self.readout = Readout(settings, width, embedding, context if self.words_read_context else chunk)
        self.boundary = Classifier(2, representation, embedding, width, deviation=deviation)
        self.label = Classifier(len(CHUNK_LABELS), representation, chunk, representation, context, deviation=deviation)

    def encode(self, source: Source) -> AttentionMemory:
        states_BSC = self.encoder(self.embeddings.embed_source(source.ids_BS), source.mask_BS)
        return self.attention.project_memory(states_BSC, source.mask_BS)

    def initial(self, memory: AttentionMemory) -> DecoderState:
        """The decoder state before the first word, [B, ...]."""
        s_BH = self.word_initial(memory.states_BSC, memory.mask_BS)
        p_BP = self.chunk_initial(memory.states_BSC, memory.mask_BS)
        representation, context = self.chunk_map_QH.shape[0], memory.states_BSC.shape[-1]
        pe_BQ, c_BC = (s_BH.new_zeros(len(s_BH), width) for width in (representation, context))
        return DecoderState(s_XH=s_BH, p_XP=p_BP, pe_XQ=pe_BQ, c_XC=c_BC, start_XH=torch.zeros_like(s_BH))

    def update_chunk(self, steps: Steps, u_XH: Tensor, last: DecoderState) -> DecoderState:
        """UPDATE: the state of the chunk that begins with the next word, with the last word state."""
        pe_XQ = steps.chunk_map(u_XH - last.start_XH)  # Eq. (9)
        v_XP = steps.chunk_first(steps.chunk_first.project(pe_XQ), last.p_XP)
        if self.settings.attention == "word":
            query_XI = u_XH
        else:
            query_XI = last.p_XP if self.settings.chunk_query == "p_prev" else v_XP
        c_XC = steps.attend(query_XI)  # Eq. (10)
        p_XP = steps.chunk_second(steps.chunk_second.project(c_XC), v_XP)
        return replace(last, p_XP=p_XP, pe_XQ=pe_XQ, c_XC=c_XC, start_XH=u_XH)

    def copy_chunk(self, last: DecoderState, updated: DecoderState) -> DecoderState:
        """COPY: the state of the same chunk, with a new context unless contexts change at boundaries only."""
        if self.context_waits:
            return last
        if self.settings.attention == "word":
            return replace(last, c_XC=updated.c_XC)
        return replace(last, c_XC=updated.c_XC, pe_XQ=updated.pe_XQ)

    def update_word(self, steps: Steps, u_XH: Tensor, state: DecoderState) -> DecoderState:
        """Return the state with the word state s_t."""
        x_XI = torch.cat((state.c_XC, state.p_XP), dim=-1) if self.words_read_context else state.p_XP
        return replace(state, s_XH=steps.word_second(steps.word_second.project(x_XI), u_XH))  # Eqs. (6-7)

    def apply_readout(self, e_XE: Tensor, state: DecoderState) -> Tensor:
        """The readout [..., R], from which a word is predicted."""
        read_XR: Tensor = self.readout(state.s_XH, e_XE, state.c_XC if self.words_read_context else state.p_XP)
        return read_XR

    def unroll(self, memory: AttentionMemory, target: Target) -> Unrolled:
        """Compute the states at all positions under teacher forcing.

        Chunks begin where the target's chunks begin. For a target without chunks the model decides about boundaries.
        UPDATE is computed for all sentences and selected where b_t = 1, because copies would cost most of the gain of
        computing it for those sentences only.
        """
        e_BTE = self.embeddings.embed_target(target.inputs_BT)
        steps, state = Steps(self, memory), self.initial(memory)
        given = target.chunks.starts_BT if target.chunks else None
        # Where no sentence begins a chunk UPDATE is not needed. A GPU would have to wait for this answer.
        any_start_T = [True] * e_BTE.shape[1]
        # Recorded weights have one row for each position.
        if given is not None and given.device.type == "cpu" and self.context_waits and self.attention.record is None:
            any_start_T = given.any(0).tolist()
        positions: list[tuple[Tensor, Tensor, DecoderState]] = []
        for t, projected_B3H in enumerate(self.word_first.project(e_BTE).unbind(1)):
            u_BH = steps.word_first(projected_B3H, state.s_XH)
            if given is not None:
                starts_B = given[:, t]
            else:
                starts_B = update_is_likelier(self.boundary(e_BTE[:, t], u_BH)) | (t == 0)
            if any_start_T[t]:
                updated = self.update_chunk(steps, u_BH, state)
                state = updated.where(starts_B, self.copy_chunk(state, updated))
            state = self.update_word(steps, u_BH, state)
            positions.append((u_BH, starts_B, state))
        us, starts, states = zip(*positions, strict=True)
        u_BTH, starts_BT = torch.stack(us, dim=1), torch.stack(starts, dim=1)
        return Unrolled(e_BTE=e_BTE, u_BTH=u_BTH, starts_BT=starts_BT, states=DecoderState.stack(states))

    def decode(self, memory: AttentionMemory, target: Target) -> Tensor:
        """Teacher forcing: the readout [B, T, R], from each position of which one word is predicted.

        Chunks begin where the target's chunks begin, or where the model decides, for a target without chunks.
        """
        unrolled = self.unroll(memory, target)
        return self.apply_readout(unrolled.e_BTE, unrolled.states)

    def boundary_log_probs(self, unrolled: Unrolled, places_N: Tensor) -> Tensor:
        """Log-probabilities of COPY and UPDATE [N, 2] at N of the B*T positions."""
        e_NE, u_NH = (x.flatten(0, 1).index_select(0, places_N) for x in (unrolled.e_BTE, unrolled.u_BTH))
        log_probs_N2: Tensor = self.boundary(e_NE, u_NH)  # Eq. (8)
        return log_probs_N2

    def label_log_probs(self, unrolled: Unrolled, places_N: Tensor) -> Tensor:
        """Log-probabilities of all labels [N, L] at N of the B*T positions."""
        state = unrolled.states
        parts = (x.flatten(0, 1).index_select(0, places_N) for x in (state.p_XP, state.pe_XQ, state.c_XC))
        log_probs_NL: Tensor = self.label(*parts)  # Eq. (11)
        return log_probs_NL

    def loss(self, batch: Batch, *, label_smoothing: float) -> Loss:
        target, chunks = batch.target, batch.target.chunks
        assert chunks is not None
        assert chunks.begins_M is not None
        unrolled = self.unroll(self.encode(batch.source), target)
        read_BTR = self.apply_readout(unrolled.e_BTE, unrolled.states)
        word_loss = self.embeddings.output.loss(read_BTR, target, label_smoothing=label_smoothing)
        starts_N = chunks.starts_BT.flatten().index_select(0, target.real_N)
        labels_M = chunks.labels_BT.flatten().index_select(0, chunks.begins_M)
        boundary_log_probs_N2 = self.boundary_log_probs(unrolled, target.real_N)
        boundary_nll = nll_sum(boundary_log_probs_N2, starts_N.long(), target.weights_N)
        begin_M = None if target.weights_N is None else starts_N  # then both have all positions
        label_nll = nll_sum(self.label_log_probs(unrolled, chunks.begins_M), labels_M, begin_M)
        return replace(
            word_loss,
            objective=word_loss.objective + boundary_nll + label_nll,
            parts={"boundary_nll": boundary_nll.detach(), "label_nll": label_nll.detach()},
        )

    def chunk_log_probs(self, batch: Batch) -> ChunkLogProbs:
        unrolled = self.unroll(self.encode(batch.source), batch.target)
        shape = unrolled.starts_BT.shape
        everywhere_N = torch.arange(shape.numel(), device=unrolled.starts_BT.device)
        return ChunkLogProbs(
            boundary_BT2=self.boundary_log_probs(unrolled, everywhere_N).view(*shape, 2),
            label_BTL=self.label_log_probs(unrolled, everywhere_N).view(*shape, len(CHUNK_LABELS)),
        )

    def attentions(self) -> list[Attention]:
        return [Attention(place="cross", layer=1, module=self.attention)]

    def measurements(self) -> list[Measurement]:
        return [OwnChunks(self.log_probs)]

    def start(self, memory: AttentionMemory, beams: int) -> State:
        return State(first=True, state=self.initial(memory).map(lambda x, _: x[:, None].expand(-1, beams, -1)))

    def step(self, memory: AttentionMemory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        """One step of the search: each hypothesis takes the more probable decision about the boundary (C6).

        Scores have the log-probabilities of the word, of the decision, and of the likeliest label where a chunk begins
        (C7).
        """
        steps, last = Steps(self, memory), state.state
        e_BKE = self.embeddings.embed_target(last_tokens_BK)
        u_BKH = steps.word_first(steps.word_first.project(e_BKE), last.s_XH)
        boundary_BK2: Tensor = self.boundary(e_BKE, u_BKH)
        updated = self.update_chunk(steps, u_BKH, last)
        label_BK = self.label(updated.p_XP, updated.pe_XQ, updated.c_XC).amax(-1)
        starts_BK = update_is_likelier(boundary_BK2) | state.first
        chosen = self.update_word(steps, u_BKH, updated.where(starts_BK, self.copy_chunk(last, updated)))
        log_probs_BKV = self.embeddings.output.next_log_probs(self.apply_readout(e_BKE, chosen))
        log_probs_BKV += torch.where(starts_BK, boundary_BK2[..., 1] + label_BK, boundary_BK2[..., 0])[..., None]
        return log_probs_BKV, State(first=False, state=chosen)


build = Biscale
