"""Bi-scale decoder: a recurrent decoder with a state that changes only where a chunk of the target begins.

Zhou, Tu, Huang, Liu, Li, Chen (2017): Chunk-Based Bi-Scale Decoder for Neural Machine Translation. ACL.

Notation
    paper       here                    shape
    h_j         states_BSC              [B sentences, S source positions, C = 2H]
    e_{t-1}     e_BTE                   [B, T target positions, E], in a search [B, K hypotheses, E]; any of them X
    s_t         s_XH                    [..., H], word state; s_{t-1} before the step
    (u_t)       u_XH                    [..., H], word state between its two cells
    p_t         Chunk.p_XP              [..., P = chunk_hidden], chunk state
    pe_t        Chunk.pe_XQ             [..., Q = chunk_embedding], representation of the last chunk
    c_t         Chunk.c_XC              [..., C], context
    (u_t')      Chunk.mark_XH           [..., H], u where the chunk began
    b_t         starts_BT               True: word t begins a chunk (UPDATE), False: it does not (COPY)
    l_t         labels_BT               index into CHUNK_LABELS
    m           chunk_map_QH            [Q, H], linear

Equations
    Eqs. (6-7)  word state and word: they read the chunk state in place of a context
    Eq. (8)  does a chunk begin with word t?
    Eq. (9)  representation of the last chunk: the difference of two word states
    Eq. (10)  attention of the chunk state
    Eq. (11)  label of a chunk

Deviations and choices (docs/decisions.md, C1-C16)
    Eq. (8)  as in the authors' code a tanh layer on u_t, which knows y_{t-1}, and e_{t-1}
    Eq. (9)  u_t - u_t' covers exactly the words of the last chunk; the text's s and e would miss the first one. 0
             stands for u_t' at first. m is linear and has no bias
    Eq. (10)  queried by the first of two chunk cells; chunk_query: p_prev is the text's p_{t-1}
    ctx_update    every_step: the authors' code makes c_t and pe_t anew at every word, only p_t waits for a boundary
    word_inputs   p+c: with it, the word state reads [c_t ; p_t] and the readout c_t in place of p_t
    attention     word: our reading of a row of the paper's Table 2 that is not defined. u_t queries attention at every
                  word; c_t is read by the second chunk cell, with p_t by the word state, and as in dl4mt by the readout
    b_1 = 1       in a search, too; all decisions use the last words only, equal probabilities mean COPY
    joint         the log-probability of the decision taken and, where a chunk begins, of its likeliest label
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.batching.batch import Batch, Chunks, Source, Target
from phrasemt.models.interface import ChunkingModel
from phrasemt.nn.init import recurrent_blocks, zeros
from phrasemt.nn.linear import project
from phrasemt.nn.precision import normalised_dtype
from phrasemt.nn.recurrent import (
    AdditiveAttention,
    Attended,
    BidirectionalEncoder,
    GruCell,
    InitialState,
    Readout,
    RecurrentLinear,
    RecurrentWords,
)
from phrasemt.nn.unrolled import AttentionSteps, GruSteps, LinearSteps
from phrasemt.nn.words import Loss
from phrasemt.study.architectures import BiscaleModel
from phrasemt.symbols import CHUNK_LABELS


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """What belongs to the chunk that a word is in; all zero but p before the first one."""

    p_XP: Tensor
    pe_XQ: Tensor
    c_XC: Tensor
    mark_XH: Tensor

    @classmethod
    def stack(cls, positions: Sequence[Chunk]) -> Chunk:
        """T of [B, ...] as one of [B, T, ...]."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: torch.stack([getattr(chunk, name) for chunk in positions], dim=1) for name in names})

    def each(self, change: Callable[[Tensor], Tensor]) -> Chunk:
        return Chunk(**{field.name: change(getattr(self, field.name)) for field in fields(self)})

    def where(self, starts_X: Tensor, other: Chunk) -> Chunk:
        """Where a chunk begins this one, elsewhere the other one; what is the same in both is not copied."""
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return Chunk(
            **{
                name: ours if ours is theirs else torch.where(starts_X[..., None], ours, theirs)
                for name, (ours, theirs) in pairs.items()
            }
        )


class Steps(NamedTuple):
    """What every position computes with the same weights, prepared once for all of them."""

    word_first: GruSteps
    word_second: GruSteps
    chunk_map: LinearSteps
    chunk_first: GruSteps
    chunk_second: GruSteps
    attend: AttentionSteps


@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """All positions of target sentences: [B, T, width], and the decisions about boundaries that were followed."""

    e_BTE: Tensor
    u_BTH: Tensor
    s_BTH: Tensor
    starts_BT: Tensor
    chunks: Chunk


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a hypothesis [B, K, ...] carries from word to word."""

    s_XH: Tensor
    chunk: Chunk

    def each(self, change: Callable[[Tensor], Tensor]) -> Carried:
        return Carried(s_XH=change(self.s_XH), chunk=self.chunk.each(change))

    def where(self, starts_X: Tensor, other: Carried) -> Carried:
        s_XH = torch.where(starts_X[..., None], self.s_XH, other.s_XH)
        return Carried(s_XH=s_XH, chunk=self.chunk.where(starts_X, other.chunk))


@dataclass(frozen=True, kw_only=True)
class State:
    """Of all hypotheses.

    copied, better_BKV: with boundary_decode: branch `carried` is what holds if a chunk began with the newest word, and
    `copied` if none did; the word decides which, True for the former. None if there is nothing to be decided.
    """

    first: bool
    carried: Carried
    copied: Carried | None = None
    better_BKV: Tensor | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> State:
        return State(
            first=self.first,
            carried=self.carried.each(change),
            copied=None if self.copied is None else self.copied.each(change),
            better_BKV=None if self.better_BKV is None else change(self.better_BKV),
        )

    def after(self, words_BK: Tensor) -> Carried:
        """What holds once the newest words are known."""
        if self.copied is None or self.better_BKV is None:
            return self.carried
        return self.carried.where(self.better_BKV.gather(-1, words_BK[..., None]).squeeze(-1), self.copied)


class Classifier(nn.Module):
    """softmax(W tanh(sum_i W_i x_i + b) + b')."""

    def __init__(self, classes: int, hidden_width: int, *input_widths: int, deviation: float) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            recurrent_blocks(hidden_width, width, deviation=deviation) for width in input_widths
        )
        self.bias = zeros(hidden_width)
        self.output = RecurrentLinear(hidden_width, classes, deviation=deviation)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Log-probabilities of the classes, float32: [..., I_1], [..., I_2], .. -> [..., classes]."""
        first, *others = zip(inputs, self.weights, strict=True)
        sum_XQ = project(*first, self.bias)
        for x, weight in others:
            sum_XQ = sum_XQ + project(x, weight)
        logits: Tensor = self.output(torch.tanh(sum_XQ))
        return torch.log_softmax(logits, dim=-1, dtype=normalised_dtype(logits))


def begins(boundary_X2: Tensor) -> Tensor:
    """The likelier decision; equal probabilities mean that no chunk begins."""
    return boundary_X2[..., 1] > boundary_X2[..., 0]


class Biscale(ChunkingModel[Attended, State]):
    """dl4mt whose word state reads a chunk state, which alone attends to the source."""

    words: RecurrentWords

    def __init__(self, settings: BiscaleModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        embedding, width, context = settings.embedding, settings.hidden, 2 * settings.hidden
        chunk, representation = settings.chunk_hidden, settings.chunk_embedding
        deviation = settings.initial_deviation
        by_word = settings.attention == "word"
        self.words_read_context = by_word or settings.word_inputs == "p+c"
        self.context_waits = not by_word and settings.ctx_update == "boundary"

        self.words = RecurrentWords(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
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

    def encode(self, source: Source) -> Attended:
        states_BSC = self.encoder(self.words.embed_source(source.ids_BS), source.mask_BS)
        return self.attention.project_memory(states_BSC, source.mask_BS)

    def steps(self, memory: Attended) -> Steps:
        return Steps(
            word_first=self.word_first.unroll(),
            word_second=self.word_second.unroll(),
            chunk_map=LinearSteps(self.chunk_map_QH),
            chunk_first=self.chunk_first.unroll(),
            chunk_second=self.chunk_second.unroll(),
            attend=self.attention.unroll(memory),
        )

    def initial(self, memory: Attended) -> Carried:
        """What is carried to the first word, [B, ...]."""
        s_BH = self.word_initial(memory.states_BSC, memory.mask_BS)
        p_BP = self.chunk_initial(memory.states_BSC, memory.mask_BS)
        representation, context = self.chunk_map_QH.shape[0], memory.states_BSC.shape[-1]
        pe_BQ, c_BC = (s_BH.new_zeros(len(s_BH), width) for width in (representation, context))
        return Carried(s_XH=s_BH, chunk=Chunk(p_XP=p_BP, pe_XQ=pe_BQ, c_XC=c_BC, mark_XH=torch.zeros_like(s_BH)))

    def update(self, steps: Steps, u_XH: Tensor, last: Chunk) -> Chunk:
        """UPDATE: the chunk that begins with the next word."""
        pe_XQ = steps.chunk_map(u_XH - last.mark_XH)  # Eq. (9)
        v_XP = steps.chunk_first(steps.chunk_first.project(pe_XQ), last.p_XP)
        if self.settings.attention == "word":
            query_XI = u_XH
        else:
            query_XI = last.p_XP if self.settings.chunk_query == "p_prev" else v_XP
        c_XC = steps.attend(query_XI)  # Eq. (10)
        p_XP = steps.chunk_second(steps.chunk_second.project(c_XC), v_XP)
        return Chunk(p_XP=p_XP, pe_XQ=pe_XQ, c_XC=c_XC, mark_XH=u_XH)

    def copy(self, last: Chunk, updated: Chunk) -> Chunk:
        """COPY: the same chunk, with a new context where that does not wait for a boundary."""
        if self.context_waits:
            return last
        if self.settings.attention == "word":
            return replace(last, c_XC=updated.c_XC)
        return replace(last, c_XC=updated.c_XC, pe_XQ=updated.pe_XQ)

    def say(self, steps: Steps, u_XH: Tensor, chunk: Chunk) -> Tensor:
        """The word state s_t."""
        x_XI = torch.cat((chunk.c_XC, chunk.p_XP), dim=-1) if self.words_read_context else chunk.p_XP
        return steps.word_second(steps.word_second.project(x_XI), u_XH)  # Eqs. (6-7)

    def read(self, s_XH: Tensor, e_XE: Tensor, chunk: Chunk) -> Tensor:
        """What a word is predicted from [..., E]."""
        read_XE: Tensor = self.readout(s_XH, e_XE, chunk.c_XC if self.words_read_context else chunk.p_XP)
        return read_XE

    def unroll(self, memory: Attended, target: Target) -> Unrolled:
        """Teacher forcing: the words are given, boundaries too unless there are no chunks to follow.

        UPDATE is computed for all sentences and taken where b_t = 1. To compute its products for those only
        gives the same and saved about 4 % of a training step on a CPU: copies eat most of it.
        """
        e_BTE = self.words.embed_target(target.inputs_BT)
        steps, carried = self.steps(memory), self.initial(memory)
        s_BH, chunk = carried.s_XH, carried.chunk
        given = target.chunks.starts_BT if target.chunks else None
        # On a CPU it is known for free where no sentence begins a chunk.
        somewhere_T = [True] * e_BTE.shape[1]
        if given is not None and given.device.type == "cpu" and self.context_waits:
            somewhere_T = given.any(0).tolist()
        positions: list[tuple[Tensor, Tensor, Tensor, Chunk]] = []
        for t, projected_B3H in enumerate(self.word_first.project(e_BTE).unbind(1)):
            u_BH = steps.word_first(projected_B3H, s_BH)
            if given is not None:
                starts_B = given[:, t]
            elif t == 0:
                starts_B = torch.ones_like(target.mask_BT[:, 0])
            else:
                starts_B = begins(self.boundary(e_BTE[:, t], u_BH))
            if somewhere_T[t]:
                updated = self.update(steps, u_BH, chunk)
                chunk = updated.where(starts_B, self.copy(chunk, updated))
            s_BH = self.say(steps, u_BH, chunk)
            positions.append((u_BH, s_BH, starts_B, chunk))
        us, ss, starts, chunks = zip(*positions, strict=True)
        return Unrolled(
            e_BTE=e_BTE,
            u_BTH=torch.stack(us, dim=1),
            s_BTH=torch.stack(ss, dim=1),
            starts_BT=torch.stack(starts, dim=1),
            chunks=Chunk.stack(chunks),
        )

    def decode(self, memory: Attended, target: Target) -> Tensor:
        """Teacher forcing: the readout [B, T, E], from each position of which one word is predicted.

        Chunks begin where the target's do; without any, where the model would begin one.
        """
        unrolled = self.unroll(memory, target)
        return self.read(unrolled.s_BTH, unrolled.e_BTE, unrolled.chunks)

    def boundary_log_probs(self, unrolled: Unrolled, places_N: Tensor) -> Tensor:
        """Of COPY and UPDATE [N, 2], at some of the B*T positions."""
        e_NE, u_NH = (x.flatten(0, 1).index_select(0, places_N) for x in (unrolled.e_BTE, unrolled.u_BTH))
        log_probs_N2: Tensor = self.boundary(e_NE, u_NH)  # Eq. (8)
        return log_probs_N2

    def label_log_probs(self, unrolled: Unrolled, places_N: Tensor) -> Tensor:
        """Of all labels [N, L], at some of the B*T positions."""
        chunk = unrolled.chunks.each(lambda x: x.flatten(0, 1).index_select(0, places_N))
        log_probs_NL: Tensor = self.label(chunk.p_XP, chunk.pe_XQ, chunk.c_XC)  # Eq. (11)
        return log_probs_NL

    def loss(self, batch: Batch, *, label_smoothing: float) -> Loss:
        target, chunks = batch.target, batch.target.chunks
        assert chunks is not None
        unrolled = self.unroll(self.encode(batch.source), target)
        words = self.words.loss(
            self.read(unrolled.s_BTH, unrolled.e_BTE, unrolled.chunks), target, label_smoothing=label_smoothing
        )
        real_N = target.mask_BT.flatten().nonzero().squeeze(1)
        starts_N = chunks.starts_BT.flatten().index_select(0, real_N)
        begin_M = real_N[starts_N]
        labels_M = chunks.labels_BT.flatten().index_select(0, begin_M)
        boundary_nll = F.nll_loss(self.boundary_log_probs(unrolled, real_N), starts_N.long(), reduction="sum")
        label_nll = F.nll_loss(self.label_log_probs(unrolled, begin_M), labels_M, reduction="sum")
        return replace(
            words,
            objective=words.objective + self.settings.w_boundary * boundary_nll + self.settings.w_label * label_nll,
            parts={"boundary_nll": boundary_nll.detach(), "label_nll": label_nll.detach()},
        )

    def chunk_decisions(self, batch: Batch) -> Chunks:
        unrolled = self.unroll(self.encode(batch.source), batch.target)
        shape = unrolled.starts_BT.shape
        everywhere_N = torch.arange(shape.numel(), device=unrolled.starts_BT.device)
        return Chunks(
            starts_BT=begins(self.boundary_log_probs(unrolled, everywhere_N)).view(shape),
            labels_BT=self.label_log_probs(unrolled, everywhere_N).argmax(-1).view(shape),
        )

    def start(self, memory: Attended, beams: int) -> State:
        def for_each_hypothesis(x_BD: Tensor) -> Tensor:
            return x_BD[:, None].expand(-1, beams, -1)

        return State(first=True, carried=self.initial(memory).each(for_each_hypothesis))

    def step(self, memory: Attended, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        """With boundary_decode: branch, the better of UPDATE and COPY for each word.

        Our reading of "each hypothesis is doubled": two hypotheses with the same words are one, with the better score,
        and of all words that continue it only one branch's state is needed later, which the word says. log p(b_t) is
        part of a branch's score also with decode_score: words, where nothing else could speak for a boundary.
        """
        search = self.settings.search
        steps, last = self.steps(memory), state.after(last_tokens_BK)
        e_BKE = self.words.embed_target(last_tokens_BK)
        u_BKH = steps.word_first(steps.word_first.project(e_BKE), last.s_XH)
        boundary_BK2: Tensor = self.boundary(e_BKE, u_BKH)
        updated = self.update(steps, u_BKH, last.chunk)
        copied = self.copy(last.chunk, updated)

        def continued(chunk: Chunk) -> tuple[Tensor, Carried]:
            s_BKH = self.say(steps, u_BKH, chunk)
            return self.words.next_log_probs(self.read(s_BKH, e_BKE, chunk)), Carried(s_XH=s_BKH, chunk=chunk)

        joint = search.decode_score == "joint"
        label_BK = self.label(updated.p_XP, updated.pe_XQ, updated.c_XC).amax(-1) if joint else 0.0
        update_BK, copy_BK = boundary_BK2[..., 1] + label_BK, boundary_BK2[..., 0]
        if search.boundary_decode == "branch" and not state.first:
            log_probs_BKV, carried = continued(updated)
            copy_log_probs_BKV, carried_by_copy = continued(copied)
            log_probs_BKV += update_BK[..., None]
            copy_log_probs_BKV += copy_BK[..., None]
            better_BKV = log_probs_BKV > copy_log_probs_BKV
            log_probs_BKV = torch.where(better_BKV, log_probs_BKV, copy_log_probs_BKV)
            return log_probs_BKV, State(first=False, carried=carried, copied=carried_by_copy, better_BKV=better_BKV)
        starts_BK = torch.ones_like(begins(boundary_BK2)) if state.first else begins(boundary_BK2)
        log_probs_BKV, carried = continued(updated.where(starts_BK, copied))
        if joint or search.boundary_decode == "branch":
            log_probs_BKV += torch.where(starts_BK, update_BK, copy_BK)[..., None]
        return log_probs_BKV, State(first=False, carried=carried)

    def reorder(self, state: State, parents_BK: Tensor) -> State:
        def reordered(x_BKD: Tensor) -> Tensor:
            return x_BKD.gather(1, parents_BK[..., None].expand(-1, -1, x_BKD.shape[-1]))

        return state.each(reordered)

    def keep(self, memory: Attended, state: State, sentences: Tensor) -> tuple[Attended, State]:
        return memory.kept(sentences), state.each(lambda x_BKD: x_BKD.index_select(0, sentences))


def build(settings: BiscaleModel, *, source_vocabulary: int, target_vocabulary: int) -> Biscale:
    """The untrained model; sizes count the special symbols."""
    return Biscale(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
