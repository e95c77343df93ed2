"""Decoder-only language model.

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
    attention: relative or ngrams   as in phrasemt/models/transformer.py; `ngrams` is the paper's
    A batch has source sentences here too, so that training and scoring work as in other families; the model ignores
    them.
"""

from __future__ import annotations

from phrasemt.batching.batch import Pairs, Source
from phrasemt.models.transformer import Attentions, EncoderLayer, Memory, ReadyLayer, TransformerDecoder
from phrasemt.nn.attention import Attention
from phrasemt.nn.embeddings import TransformerEmbeddings
from phrasemt.nn.layers import Stack, last_norm
from phrasemt.study.architectures import LanguageModel


class LanguageModelTransformer(TransformerDecoder[Memory]):
    """A Transformer decoder without attention to a source."""

    def __init__(self, settings: LanguageModel, *, source_vocabulary: int = 0, target_vocabulary: int) -> None:
        super().__init__()
        attentions = Attentions.of(settings)
        self.positions_in_row = attentions.positions_in_row
        self.embeddings = TransformerEmbeddings(
            settings,
            source_vocabulary=0,
            target_vocabulary=target_vocabulary,
            tie_all=True,
            positions=attentions.positions,
        )
        self.decoder = Stack[EncoderLayer](
            EncoderLayer(settings, attentions.dec_self()) for _ in range(settings.layers)
        )
        self.decoder_norm = last_norm(settings)

    def encode(self, source: Source) -> Memory:
        return Memory(mask_BS=source.mask_BS)

    def layers_with(self, memory: Memory, pairs: Pairs | None) -> list[ReadyLayer]:
        return list(self.decoder)  # Eqs. (1-2) alone

    def attentions(self) -> list[Attention]:
        return [
            Attention(place="dec_self", layer=number, module=layer.attention)
            for number, layer in enumerate(self.decoder, 1)
        ]


build = LanguageModelTransformer
