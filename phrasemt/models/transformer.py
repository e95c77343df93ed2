"""Transformer.

Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin (2017): Attention Is All You Need. NIPS.

Notation
    paper    here                  shape
    d_model  width, D              512 (base), 1024 (big)
    d_ff     ffn_width             2048, 4096
    h        heads, h              8, 16
    d_k,d_v  E                     D / h
    N        encoder_layers, ...   6
    x        x_BSD                 [B sentences, S source positions, D]
    y        y_BTD                 [B, T target positions, D], in a search [B, K hypotheses, D]
    E        *_table_VD            [V words, D]

Equations
    Eq. (1)  attention             phrasemt/nn/attention.py
    Eq. (2)  feed-forward network  phrasemt/nn/layers.py
    (Eq. (3), the learning rate, belongs to training.)

Deviations and choices (science of the project, sections 1.0 and 1.1)
    norm: pre        layer normalisation before the sub-layers, as tensor2tensor does since version 2
    attn_dropout, act_dropout  both code bases of the reproduced papers have them; the paper names only `dropout`
    tie: decoder     the source table apart (Xu et al.); `all` is the paper's
    softmax_bias     a bias on the logits (Neutron); the paper has none
    Attention has no biases (as the paper's formula), the feed-forward network has both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor, nn

from phrasemt.architectures import TransformerModel
from phrasemt.batching.batch import Batch, Source, Target
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.attention import KeyValueAttention, SelfAttention
from phrasemt.nn.beams import BeamCache
from phrasemt.nn.layers import FeedForward, Residual, Stack, layer_norm
from phrasemt.nn.masks import causal_mask, key_mask
from phrasemt.nn.words import Loss, Words


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What the encoder makes of B sources: its states [B, S, D], and True at real positions [B, S]."""

    states_BSD: Tensor
    mask_BS: Tensor


@dataclass(frozen=True, kw_only=True)
class State:
    """Self-attention keys and values of all hypotheses, and per decoder layer those of the source [2, B, h, S, E]."""

    cache: BeamCache
    source: tuple[Tensor, ...]


class EncoderLayer(nn.Module):
    """Self-attention, feed-forward network."""

    def __init__(self, settings: TransformerModel) -> None:
        super().__init__()
        width, norm = settings.width, settings.norm
        self.attention = SelfAttention(width, settings.heads, settings.attn_dropout)
        self.around_attention = Residual(width, settings.dropout, norm)
        self.ffn = FeedForward(width, settings.ffn_width, settings.act_dropout)
        self.around_ffn = Residual(width, settings.dropout, norm)

    def forward(self, x_BSD: Tensor, mask_B11S: Tensor) -> Tensor:
        x_BSD = self.around_attention(x_BSD, lambda x: self.attention(x, mask_B11S))  # Eq. (1)
        states_BSD: Tensor = self.around_ffn(x_BSD, self.ffn)  # Eq. (2)
        return states_BSD


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward network."""

    def __init__(self, settings: TransformerModel) -> None:
        super().__init__()
        width, norm = settings.width, settings.norm
        self.attention = SelfAttention(width, settings.heads, settings.attn_dropout)
        self.around_attention = Residual(width, settings.dropout, norm)
        self.source_attention = KeyValueAttention(width, settings.heads, settings.attn_dropout)
        self.around_source_attention = Residual(width, settings.dropout, norm)
        self.ffn = FeedForward(width, settings.ffn_width, settings.act_dropout)
        self.around_ffn = Residual(width, settings.dropout, norm)

    def forward(
        self, y: Tensor, attend_to_past: Callable[[Tensor], Tensor], source_2BhSE: Tensor, source_mask_B11S: Tensor
    ) -> Tensor:
        """Teacher forcing and search differ only in what attention to the past is; y is [B, T, D] or [B, K, D]."""
        y = self.around_attention(y, attend_to_past)  # Eq. (1)
        y = self.around_source_attention(y, lambda y: self.source_attention(y, source_2BhSE, source_mask_B11S))
        states: Tensor = self.around_ffn(y, self.ffn)  # Eq. (2)
        return states


class Transformer(TranslationModel[Memory, State]):
    """Encoder, decoder and a softmax that shares the target embeddings."""

    def __init__(self, settings: TransformerModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        width = settings.width
        self.words = Words(
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            width=width,
            dropout=settings.dropout,
            tie_all=settings.tie == "all",
            softmax_bias=settings.softmax_bias,
            normalise=settings.embed_ln,
        )
        self.encoder = Stack[EncoderLayer](EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = Stack[DecoderLayer](DecoderLayer(settings) for _ in range(settings.decoder_layers))
        self.encoder_norm = layer_norm(width) if settings.norm == "pre" else nn.Identity()
        self.decoder_norm = layer_norm(width) if settings.norm == "pre" else nn.Identity()

    def encode(self, source: Source) -> Memory:
        x_BSD = self.words.embed_source(source.ids_BS)
        mask_B11S = key_mask(source.mask_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, mask_B11S)
        return Memory(states_BSD=self.encoder_norm(x_BSD), mask_BS=source.mask_BS)

    def decode(self, memory: Memory, target: Target) -> Tensor:
        """Teacher forcing: the decoder's states [B, T, D], from each of which one word is predicted."""
        y_BTD = self.words.embed_target(target.inputs_BT)
        causal_TT = causal_mask(y_BTD.shape[1], y_BTD.device)
        source_mask_B11S = key_mask(memory.mask_BS)
        for layer in self.decoder:
            source_2BhSE = layer.source_attention.project_memory(memory.states_BSD)
            y_BTD = layer(y_BTD, partial(layer.attention, mask=causal_TT), source_2BhSE, source_mask_B11S)
        states_BTD: Tensor = self.decoder_norm(y_BTD)
        return states_BTD

    def loss(self, batch: Batch, *, label_smoothing: float) -> Loss:
        states_BTD = self.decode(self.encode(batch.source), batch.target)
        return self.words.loss(states_BTD, batch.target, label_smoothing=label_smoothing)

    def log_probs(self, batch: Batch) -> Tensor:
        return self.words.log_probs(self.decode(self.encode(batch.source), batch.target), batch.target)

    def start(self, memory: Memory, beams: int) -> State:
        source = tuple(layer.source_attention.project_memory(memory.states_BSD).contiguous() for layer in self.decoder)
        return State(cache=BeamCache.empty(layers=len(self.decoder), beams=beams, like_2BhSE=source[0]), source=source)

    def step(self, memory: Memory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        y_BKD = self.words.embed_last(last_tokens_BK, state.cache.steps)
        cache = state.cache.grown()
        source_mask_B11S = key_mask(memory.mask_BS)
        for index, (layer, source_2BhSE) in enumerate(zip(self.decoder, state.source, strict=True)):
            attend_to_past = partial(layer.attention.step, cache=cache, layer=index)
            y_BKD = layer(y_BKD, attend_to_past, source_2BhSE, source_mask_B11S)
        return self.words.next_log_probs(self.decoder_norm(y_BKD)), replace(state, cache=cache)

    def reorder(self, state: State, parents_BK: Tensor) -> State:
        return replace(state, cache=state.cache.reordered(parents_BK))

    def keep(self, memory: Memory, state: State, sentences: Tensor) -> tuple[Memory, State]:
        memory = Memory(
            states_BSD=memory.states_BSD.index_select(0, sentences), mask_BS=memory.mask_BS.index_select(0, sentences)
        )
        source = tuple(source_2BhSE.index_select(1, sentences) for source_2BhSE in state.source)
        return memory, State(cache=state.cache.kept(sentences), source=source)


def build(settings: TransformerModel, *, source_vocabulary: int, target_vocabulary: int) -> Transformer:
    """The untrained model; sizes count the special symbols."""
    return Transformer(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
