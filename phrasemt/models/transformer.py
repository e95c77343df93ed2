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
    (Eq. (3), the learning rate, is in phrasemt/training/optimizer.py.)

Deviations and choices (docs/decisions.md)
    norm: pre        layer normalisation before the sub-layers, as in tensor2tensor since version 2
    attention        `relative` (Shaw et al. 2018, phrasemt/nn/relative_attention.py) or `ngrams` (Nguyen et al.,
                     phrasemt/nn/ngram_attention.py) in place of the paper's
    attn_dropout, act_dropout  in both code bases of the reproduced papers; the paper names only `dropout`
    tie: decoder     the source has an embedding table of its own (Xu et al.); with `all`, as in the paper, it has not
    softmax_bias     a bias on the logits (Neutron); the paper has none
    Attention has no biases, as in the paper's formula; the feed-forward network has both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from torch import Tensor, nn

from phrasemt.batching.batch import Pairs, Source, Target
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.attention import Attention, KeyValueAttention, Projected, SelfAttention
from phrasemt.nn.beams import BeamCache, SearchTensors
from phrasemt.nn.embeddings import TransformerEmbeddings
from phrasemt.nn.layers import FeedForward, Mask, Residual, Stack, causal_mask, initialise, key_mask, last_norm
from phrasemt.nn.ngram_attention import NgramKeyValueAttention, NgramSelfAttention
from phrasemt.nn.relative_attention import RelativeSelfAttention
from phrasemt.study.architectures import LanguageModel, Layers, TransformerModel

# An attention, ready to be called: x [B, T, D] -> [B, T, D], or in a search [B, K, D] -> [B, K, D].
Attend = Callable[[Tensor], Tensor]
# A decoder layer that knows its memory: the states, and its attention to the past -> the states, of the same shapes.
ReadyLayer = Callable[[Tensor, Attend], Tensor]
AnyMemory = TypeVar("AnyMemory", bound="Memory")


@dataclass(frozen=True, kw_only=True)
class Memory(SearchTensors):
    """Sources. mask_BS: True at real positions. pairs: of packed rows, which no search has."""

    mask_BS: Tensor
    pairs: Pairs | None = None

    @cached_property
    def _mask_of_search(self) -> Mask:
        return key_mask(self.mask_BS)

    def mask(self, queries: Pairs | None) -> Mask:
        """Return the mask of queries to the sources. queries: the pairs of packed rows of the target."""
        return self._mask_of_search if self.pairs is None else key_mask(self.mask_BS, self.pairs, queries)


@dataclass(frozen=True, kw_only=True)
class EncodedSources(Memory):
    """Output of the encoder, as keys and values of each decoder layer."""

    source_nBhSE: tuple[Projected, ...]


@dataclass(frozen=True)
class Attentions:
    """Factories of the attention modules in the Transformer's three places. A call makes the module of one layer.

    The modules have the methods of `SelfAttention` (enc_self, dec_self) and of `KeyValueAttention` (cross).
    positions: whether absolute positions are added to the embeddings. With relative ones they are not.
    positions_in_row: of packed rows, shorter where all scores are in memory because torch's fused attention cannot
    compute them.
    """

    enc_self: Callable[[], Any]
    dec_self: Callable[[], Any]
    cross: Callable[[], Any]
    positions: bool = True
    positions_in_row: int = 64

    @classmethod
    def of(cls, settings: TransformerModel | LanguageModel) -> Attentions:
        """Return the attentions that `attention` and its options name."""
        sizes = settings.width, settings.heads, settings.attn_dropout
        itself = partial(SelfAttention, *sizes)
        of_sources = partial(KeyValueAttention, *sizes)
        tokens = cls(enc_self=itself, dec_self=itself, cross=of_sources, positions_in_row=128)
        if settings.attention == "relative":
            relative = partial(RelativeSelfAttention, *sizes, rel_k=settings.rel_k)
            return replace(tokens, enc_self=relative, dec_self=relative, positions=False, positions_in_row=64)
        if settings.attention == "ngrams":
            options: dict[str, Any] = {"ngrams": settings.ngrams, "score": settings.ngram_score}
            of_itself = partial(NgramSelfAttention, *sizes, **options)
            of_memory = partial(NgramKeyValueAttention, *sizes, **options)
            return cls(enc_self=of_itself, dec_self=of_itself, cross=of_memory)
        return tokens


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network."""

    def __init__(self, settings: Layers, attention: Any) -> None:
        super().__init__()
        self.attention = attention
        self.around_attention = Residual(settings)
        self.ffn = FeedForward(settings)
        self.around_ffn = Residual(settings)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """[B, S, D] -> [B, S, D]. attend: this layer's attention with its mask, or in a search with its cache."""
        x = self.around_attention(x, attend)  # Eq. (1)
        states: Tensor = self.around_ffn(x, self.ffn)  # Eq. (2)
        return states


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and feed-forward network."""

    def __init__(self, settings: TransformerModel, attention: Any, source_attention: Any) -> None:
        super().__init__()
        self.attention = attention
        self.around_attention = Residual(settings)
        self.source_attention = source_attention
        self.around_source_attention = Residual(settings)
        self.ffn = FeedForward(settings)
        self.around_ffn = Residual(settings)

    def forward(self, y: Tensor, attend_to_past: Attend, attend_to_source: Attend) -> Tensor:
        """[B, T, D] -> [B, T, D], or in a search [B, K, D] -> [B, K, D]."""
        y = self.around_attention(y, attend_to_past)  # Eq. (1)
        y = self.around_source_attention(y, attend_to_source)
        states: Tensor = self.around_ffn(y, self.ffn)  # Eq. (2)
        return states


class TransformerDecoder(TranslationModel[AnyMemory, BeamCache]):
    """What models with a Transformer's decoder have in common: teacher forcing and the steps of a search."""

    embeddings: TransformerEmbeddings
    decoder: Stack[Any]
    decoder_norm: nn.Module

    @abstractmethod
    def layers_with(self, memory: AnyMemory, pairs: Pairs | None) -> Sequence[ReadyLayer]:
        """Return the layers of the decoder, which attend to this memory. pairs: of packed rows of the target."""

    def decode(self, memory: AnyMemory, target: Target) -> Tensor:
        """Teacher forcing: the decoder's states [B, T, D], from each of which one word is predicted."""
        y_BTD = self.embeddings.embed_target(target.inputs_BT, target.pairs)
        causal = causal_mask(y_BTD.shape[1], y_BTD.device, target.pairs)
        attend = [partial(layer.attention, mask=causal) for layer in self.decoder]
        return self._decode(y_BTD, attend, memory, target.pairs)

    def start(self, memory: AnyMemory, beams: int) -> BeamCache:
        """Return the empty cache of self-attention."""
        attention, like = next(iter(self.decoder)).attention, self.embeddings.target_table_VD
        cache: BeamCache = attention.cache(len(self.decoder), sentences=len(memory.mask_BS), beams=beams, like=like)
        return cache

    def step(self, memory: AnyMemory, state: BeamCache, last_tokens_BK: Tensor) -> tuple[Tensor, BeamCache]:
        y_BKD = self.embeddings.embed_last(last_tokens_BK, state.steps)
        cache = state.grown()
        attend = [partial(layer.attention.step, cache=cache, layer=index) for index, layer in enumerate(self.decoder)]
        return self.embeddings.output.next_log_probs(self._decode(y_BKD, attend, memory)), cache

    def _decode(
        self, y: Tensor, attend_to_past: Sequence[Attend], memory: AnyMemory, pairs: Pairs | None = None
    ) -> Tensor:
        for layer, to_past in zip(self.layers_with(memory, pairs), attend_to_past, strict=True):
            y = layer(y, to_past)
        states: Tensor = self.decoder_norm(y)
        return states


class Transformer(TransformerDecoder[EncodedSources]):
    """Encoder, decoder, and an output layer that shares the target embeddings.

    attentions: of a family that has others than those of the settings.
    """

    def __init__(
        self,
        settings: TransformerModel,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        attentions: Attentions | None = None,
    ) -> None:
        super().__init__()
        attentions = attentions or Attentions.of(settings)
        self.positions_in_row = attentions.positions_in_row
        self.embeddings = TransformerEmbeddings(
            settings,
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            tie_all=settings.tie == "all",
            embed_ln=settings.embed_ln,
            softmax_bias=settings.softmax_bias,
            positions=attentions.positions,
        )
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(settings, attentions.enc_self()) for _ in range(settings.encoder_layers)
        )
        self.decoder = Stack[DecoderLayer](
            DecoderLayer(settings, attentions.dec_self(), attentions.cross()) for _ in range(settings.decoder_layers)
        )
        self.encoder_norm = last_norm(settings)
        self.decoder_norm = last_norm(settings)
        initialise(self, settings.init)

    def encode(self, source: Source) -> EncodedSources:
        x_BSD = self.embeddings.embed_source(source.ids_BS, source.pairs)
        mask = key_mask(source.mask_BS, source.pairs, source.pairs)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, partial(layer.attention, mask=mask))
        states_BSD = self.encoder_norm(x_BSD)
        projected = tuple(layer.source_attention.project_memory(states_BSD) for layer in self.decoder)
        return EncodedSources(source_nBhSE=projected, mask_BS=source.mask_BS, pairs=source.pairs)

    def layers_with(self, memory: EncodedSources, pairs: Pairs | None) -> list[ReadyLayer]:
        layers, mask = zip(self.decoder, memory.source_nBhSE, strict=True), memory.mask(pairs)
        return [
            partial(layer, attend_to_source=partial(layer.source_attention, keys_values=source, mask=mask))
            for layer, source in layers
        ]

    def attentions(self) -> list[Attention]:
        attentions = [
            Attention(place="enc_self", layer=number, module=layer.attention)
            for number, layer in enumerate(self.encoder, 1)
        ]
        for number, target_layer in enumerate(self.decoder, 1):
            attentions.append(Attention(place="dec_self", layer=number, module=target_layer.attention))
            attentions.append(Attention(place="cross", layer=number, module=target_layer.source_attention))
        return attentions


build = Transformer
