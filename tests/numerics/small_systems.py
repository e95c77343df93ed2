"""The systems all invariants are tested with: small, without dropout, sizes that differ from each other."""

from __future__ import annotations

from phrasemt.architectures import PhraseRepresentationModel, PhraseSegmentation, TransformerModel

SMALL = {"encoder_layers": 2, "decoder_layers": 3, "width": 12, "heads": 3, "ffn_width": 20}
NO_DROPOUT = {"dropout": 0.0, "attn_dropout": 0.0, "act_dropout": 0.0}
SHORT_PHRASES = PhraseSegmentation(ntok_div=3, ntok_min=2, ntok_max=3)  # several phrases in short sentences
# The switches of preset xu-code but for ntok_scope: batch, which makes scores depend on the company of a sentence.
NEUTRON = {
    "pool": "attn",
    "ta": "on",
    "init": "neutron",
    "embed_ln": True,
    "src_bos": True,
    "score_norm": "sigmoid_mix",
    "combine_hidden": 4.0,
    "combine_residual": "x+a",
    "ta_tokens": True,
}

SYSTEMS: dict[str, TransformerModel] = {
    "transformer": TransformerModel(**SMALL, **NO_DROPOUT),
    "transformer, pre": TransformerModel(**SMALL, **NO_DROPOUT, norm="pre", tie="all", softmax_bias=False),
    "transformer, embed_ln": TransformerModel(**SMALL, **NO_DROPOUT, embed_ln=True),
    "+Mean": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, glance="mean"),
    "+Max": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES),
    "+Max+Attn": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn"),
    "+Max+Attn+TA": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on"),
    "xu-code": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, **NEUTRON),
    "xu-code, pre": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, **NEUTRON, norm="pre", tie="all"
    ),
    "+Max+Attn+TA, pre": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on", norm="pre", tie="all"
    ),
}
SOURCE_VOCABULARY, TARGET_VOCABULARY = 31, 29
