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

from typing import Any

from phrasemt.batching.batch import Source
from phrasemt.models.transformer import Attend, EncoderLayer, Memory, TransformerDecoder
from phrasemt.nn.attention import SelfAttention
from phrasemt.nn.embeddings import Words
from phrasemt.nn.init import initialise
from phrasemt.nn.layers import Stack, last_norm
from phrasemt.nn.ngram_attention import NgramSelfAttention
from phrasemt.nn.recording import Attention
from phrasemt.nn.relative_attention import RelativeSelfAttention
from phrasemt.study.architectures import LanguageModel


def _attention(settings: LanguageModel) -> Any:
    sizes = settings.width, settings.heads, settings.attn_dropout
    if settings.attention == "relative":
        return RelativeSelfAttention(*sizes, rel_k=settings.rel_k)
    if settings.attention == "phrasal":
        return NgramSelfAttention(*sizes, ngrams=settings.ngrams, score="query_kernel")
    return SelfAttention(*sizes)


class LanguageModelTransformer(TransformerDecoder[Memory]):
    """A Transformer decoder without attention to a source."""

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
        self.decoder_norm = last_norm(settings)
        initialise(self, settings.init)

    def encode(self, source: Source) -> Memory:
        return Memory(mask_BS=source.mask_BS)

    def attend_to_memory(self, memory: Memory) -> list[tuple[Attend, ...]]:
        return [() for _ in self.decoder]  # Eqs. (1-2) alone

    def attentions(self) -> list[Attention]:
        return [
            Attention(place="dec_self", layer=number, module=layer.attention)
            for number, layer in enumerate(self.decoder, 1)
        ]


build = LanguageModelTransformer
