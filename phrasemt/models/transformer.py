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
    E        *_table_VD            [V subwords, D]

Equations
    Eq. (1)  attention             phrasemt/nn/attention.py
    Eq. (2)  feed-forward network  phrasemt/nn/layers.py
    (Eq. (3), the learning rate, is in phrasemt/training/optimizers.py.)

Deviations and choices (docs/decisions.md)
    norm: pre        layer normalisation before the sub-layers, as in tensor2tensor since version 2
    attn_dropout, act_dropout  in both code bases of the reproduced papers; the paper names only `dropout`
    tie: decoder     the source has an embedding table of its own (Xu et al.); with `all`, as in the paper, it has not
    softmax_bias     a bias on the logits (Neutron); the paper has none
    Attention has no biases, as in the paper's formula; the feed-forward network has both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from phrasemt.batching.batch import Source, Target
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.attention import KeyValueAttention, Projected, SelfAttention, held
from phrasemt.nn.beams import BeamCache, SearchTensors
from phrasemt.nn.embeddings import Words
from phrasemt.nn.init import initialise
from phrasemt.nn.layers import FeedForward, Residual, Stack, last_norm
from phrasemt.nn.masks import causal_mask, key_mask
from phrasemt.nn.recording import Attention
from phrasemt.study.architectures import Layers, TransformerModel


@dataclass(frozen=True, kw_only=True)
class Memory(SearchTensors):
    """Output of the encoder. mask_BS: True at real positions."""

    states_BSD: Tensor
    mask_BS: Tensor


@dataclass(frozen=True, kw_only=True)
class State(SearchTensors):
    """State of a search.

    cache: keys and values of self-attention for all hypotheses.
    source_nBhSE: for each decoder layer the keys and values of the source.
    """

    cache: BeamCache
    source_nBhSE: tuple[Projected, ...]


@dataclass(frozen=True)
class Attentions:
    """Factories of the attention modules in the Transformer's three places. A call makes the module of one layer.

    The modules have the methods of `SelfAttention` (encoder, decoder) and of `KeyValueAttention` (source).
    """

    encoder: Callable[[], Any]
    decoder: Callable[[], Any]
    source: Callable[[], Any]

    @classmethod
    def plain(cls, settings: TransformerModel) -> Attentions:
        """Plain multi-head attention in all places, as in the paper."""
        sizes = settings.width, settings.heads, settings.attn_dropout
        return cls(
            encoder=partial(SelfAttention, *sizes),
            decoder=partial(SelfAttention, *sizes),
            source=partial(KeyValueAttention, *sizes),
        )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network."""

    def __init__(self, settings: Layers, attention: Any) -> None:
        super().__init__()
        width, norm = settings.width, settings.norm
        self.attention = attention
        self.around_attention = Residual(width, settings.dropout, norm)
        self.ffn = FeedForward(width, settings.ffn_width, settings.act_dropout)
        self.around_ffn = Residual(width, settings.dropout, norm)

    def forward(self, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, S, D] -> [B, S, D]. attend: this layer's attention with its mask, or in a search with its cache."""
        x = self.around_attention(x, attend)  # Eq. (1)
        states: Tensor = self.around_ffn(x, self.ffn)  # Eq. (2)
        return states


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and feed-forward network."""

    def __init__(self, settings: TransformerModel, attention: Any, source_attention: Any) -> None:
        super().__init__()
        width, norm = settings.width, settings.norm
        self.attention = attention
        self.around_attention = Residual(width, settings.dropout, norm)
        self.source_attention = source_attention
        self.around_source_attention = Residual(width, settings.dropout, norm)
        self.ffn = FeedForward(width, settings.ffn_width, settings.act_dropout)
        self.around_ffn = Residual(width, settings.dropout, norm)

    def forward(
        self, y: Tensor, attend_to_past: Callable[[Tensor], Tensor], source: Projected, source_mask_B11S: Tensor
    ) -> Tensor:
        """[B, T, D] -> [B, T, D], or in a search [B, K, D] -> [B, K, D].

        attend_to_past: this layer's self-attention with its causal mask, or in a search with its cache.
        source: keys and values of the source. source_mask_B11S: True at real source positions.
        """
        y = self.around_attention(y, attend_to_past)  # Eq. (1)
        y = self.around_source_attention(y, lambda y: self.source_attention(y, source, source_mask_B11S))
        states: Tensor = self.around_ffn(y, self.ffn)  # Eq. (2)
        return states


class Transformer(TranslationModel[Memory, State]):
    """Encoder, decoder, and an output layer that shares the target embeddings.

    attentions: other modules in the places of multi-head attention.
    positions: whether to add absolute positions to the embeddings.
    """

    words: Words

    def __init__(
        self,
        settings: TransformerModel,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        attentions: Attentions | None = None,
        positions: bool = True,
    ) -> None:
        super().__init__()
        attentions = attentions or Attentions.plain(settings)
        self.words = Words(
            settings,
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            tie_all=settings.tie == "all",
            positions=positions,
        )
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(settings, attentions.encoder()) for _ in range(settings.encoder_layers)
        )
        self.decoder = Stack[DecoderLayer](
            DecoderLayer(settings, attentions.decoder(), attentions.source()) for _ in range(settings.decoder_layers)
        )
        self.encoder_norm = last_norm(settings.width, settings.norm)
        self.decoder_norm = last_norm(settings.width, settings.norm)
        initialise(self, settings.init)

    def encode(self, source: Source) -> Memory:
        x_BSD = self.words.embed_source(source.ids_BS)
        mask_B11S = key_mask(source.mask_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, partial(layer.attention, mask=mask_B11S))
        return Memory(states_BSD=self.encoder_norm(x_BSD), mask_BS=source.mask_BS)

    def decode(self, memory: Memory, target: Target) -> Tensor:
        """Teacher forcing: the decoder's states [B, T, D], from each of which one word is predicted."""
        y_BTD = self.words.embed_target(target.inputs_BT)
        causal_TT = causal_mask(y_BTD.shape[1], y_BTD.device)
        source_mask_B11S = key_mask(memory.mask_BS)
        for layer in self.decoder:
            source = layer.source_attention.project_memory(memory.states_BSD)
            y_BTD = layer(y_BTD, partial(layer.attention, mask=causal_TT), source, source_mask_B11S)
        states_BTD: Tensor = self.decoder_norm(y_BTD)
        return states_BTD

    def attentions(self) -> list[Attention]:
        found = [
            Attention(place="enc_self", layer=number, module=layer.attention)
            for number, layer in enumerate(self.encoder, 1)
        ]
        for number, target_layer in enumerate(self.decoder, 1):
            found.append(Attention(place="dec_self", layer=number, module=target_layer.attention))
            found.append(Attention(place="cross", layer=number, module=target_layer.source_attention))
        return found

    def start(self, memory: Memory, beams: int) -> State:
        first = next(iter(self.decoder)).attention
        return State(
            cache=first.cache(layers=len(self.decoder), beams=beams, like_BXD=memory.states_BSD),
            source_nBhSE=tuple(
                held(layer.source_attention.project_memory(memory.states_BSD)) for layer in self.decoder
            ),
        )

    def step(self, memory: Memory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        y_BKD = self.words.embed_last(last_tokens_BK, state.cache.steps)
        cache = state.cache.grown()
        source_mask_B11S = key_mask(memory.mask_BS)
        for index, (layer, source) in enumerate(zip(self.decoder, state.source_nBhSE, strict=True)):
            y_BKD = layer(y_BKD, partial(layer.attention.step, cache=cache, layer=index), source, source_mask_B11S)
        return self.words.next_log_probs(self.decoder_norm(y_BKD)), replace(state, cache=cache)


build = Transformer
