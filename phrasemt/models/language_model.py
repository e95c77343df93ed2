"""Decoder-only language model with plain, relative or phrasal attention.

Enhancing Attention with Explicit Phrasal Alignments. Submission to ICLR 2020, Table 3.
Vaswani et al. (2017): Attention Is All You Need. NIPS. (The layers.)

Notation
    paper    here          shape
    d_model  width, D      512
    d_ff     ffn_width     2048
    N        layers        6
    y        y_BTD         [B sentences, T positions, D], in a search [B, K hypotheses, D]

Equations (of Vaswani et al.)
    Eq. (1)  attention, to the words so far
    Eq. (2)  feed-forward network

Deviations and choices (docs/decisions.md)
    Each sentence is a text of its own: `<s>` w1 .. wn are the inputs, w1 .. wn `</s>` the outputs.
    A decoder layer without attention to a source is an encoder layer under a causal mask.
    attention: relative   Shaw et al. (2018), phrasemt/nn/relative_attention.py, without absolute positions
    attention: phrasal    phrasemt/nn/ngram_attention.py
    A batch has source sentences here too, so that training and scoring work as in other families; the model ignores
    them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from phrasemt.batching.batch import Source, Target
from phrasemt.models.interface import TranslationModel
from phrasemt.models.transformer import EncoderLayer
from phrasemt.nn.attention import SelfAttention
from phrasemt.nn.beams import BeamCache, SearchTensors
from phrasemt.nn.embeddings import Words
from phrasemt.nn.init import initialise
from phrasemt.nn.layers import Stack, last_norm
from phrasemt.nn.masks import causal_mask
from phrasemt.nn.ngram_attention import NgramSelfAttention
from phrasemt.nn.recording import Attention
from phrasemt.nn.relative_attention import RelativeSelfAttention
from phrasemt.study.architectures import LanguageModel


@dataclass(frozen=True, kw_only=True)
class Memory(SearchTensors):
    """An empty tensor [B, 0, D]: the number of sentences, and the model's type and device."""

    empty_B0D: Tensor


@dataclass(frozen=True, kw_only=True)
class State(SearchTensors):
    """State of a search. cache: keys and values of self-attention for all hypotheses."""

    cache: BeamCache


def _attention(settings: LanguageModel) -> Any:
    sizes = settings.width, settings.heads, settings.attn_dropout
    if settings.attention == "relative":
        return RelativeSelfAttention(*sizes, rel_k=settings.rel_k)
    if settings.attention == "phrasal":
        return NgramSelfAttention(*sizes, ngrams=settings.ngrams, score="query_kernel")
    return SelfAttention(*sizes)


class LanguageModelTransformer(TranslationModel[Memory, State]):
    """A Transformer decoder without attention to a source."""

    words: Words

    def __init__(self, settings: LanguageModel, *, source_vocabulary: int = 0, target_vocabulary: int) -> None:
        super().__init__()
        self.words = Words(
            settings,
            source_vocabulary=0,
            target_vocabulary=target_vocabulary,
            tie_all=True,
            positions=settings.attention != "relative",
        )
        self.decoder = Stack[EncoderLayer](EncoderLayer(settings, _attention(settings)) for _ in range(settings.layers))
        self.decoder_norm = last_norm(settings.width, settings.norm)
        initialise(self, settings.init)

    def encode(self, source: Source) -> Memory:
        table_VD = self.words.target_table_VD
        return Memory(empty_B0D=table_VD.new_empty(source.ids_BS.shape[0], 0, table_VD.shape[1]))

    def decode(self, _: Memory, target: Target) -> Tensor:
        """Teacher forcing: the decoder's states [B, T, D], from each of which one word is predicted."""
        y_BTD = self.words.embed_target(target.inputs_BT)
        causal_TT = causal_mask(y_BTD.shape[1], y_BTD.device)
        for layer in self.decoder:
            y_BTD = layer(y_BTD, partial(layer.attention, mask=causal_TT))  # Eqs. (1-2)
        states_BTD: Tensor = self.decoder_norm(y_BTD)
        return states_BTD

    def attentions(self) -> list[Attention]:
        return [
            Attention(place="dec_self", layer=number, module=layer.attention)
            for number, layer in enumerate(self.decoder, 1)
        ]

    def start(self, memory: Memory, beams: int) -> State:
        first = next(iter(self.decoder)).attention
        return State(cache=first.cache(layers=len(self.decoder), beams=beams, like_BXD=memory.empty_B0D))

    def step(self, _: Memory, state: State, last_tokens_BK: Tensor) -> tuple[Tensor, State]:
        y_BKD = self.words.embed_last(last_tokens_BK, state.cache.steps)
        cache = state.cache.grown()
        for index, layer in enumerate(self.decoder):
            y_BKD = layer(y_BKD, partial(layer.attention.step, cache=cache, layer=index))
        return self.words.next_log_probs(self.decoder_norm(y_BKD)), State(cache=cache)


build = LanguageModelTransformer
