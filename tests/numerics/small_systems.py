"""The systems all invariants are tested with: small, without dropout, sizes that differ from each other."""

from __future__ import annotations

from phrasemt.architectures import PhraseRepresentationModel, PhraseSegmentation, TransformerModel

SMALL = {"encoder_layers": 2, "decoder_layers": 3, "width": 12, "heads": 3, "ffn_width": 20}
NO_DROPOUT = {"dropout": 0.0, "attn_dropout": 0.0, "act_dropout": 0.0}
SHORT_PHRASES = PhraseSegmentation(ntok_div=3, ntok_min=2, ntok_max=3)  # several phrases in short sentences

SYSTEMS: dict[str, TransformerModel] = {
    "transformer": TransformerModel(**SMALL, **NO_DROPOUT),
    "transformer, pre": TransformerModel(**SMALL, **NO_DROPOUT, norm="pre", tie="all", softmax_bias=False),
    "transformer, embed_ln": TransformerModel(**SMALL, **NO_DROPOUT, embed_ln=True),
    "+Mean": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, glance="mean"),
    "+Max": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES),
    "+Max+Attn": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn"),
    "+Max+Attn+TA": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on"),
    "+Max+Attn+TA, pre": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on", norm="pre", tie="all"
    ),
}
SOURCE_VOCABULARY, TARGET_VOCABULARY = 31, 29
