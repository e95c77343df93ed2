"""Small systems of all families, for tests: no dropout, and all sizes differ from each other."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch

from phrasemt.models.interface import TranslationModel, build_model
from phrasemt.study.architectures import (
    Architecture,
    BiscaleModel,
    Dl4mtModel,
    LanguageModel,
    PhraseRepresentationModel,
    PhraseSegmentation,
    TransformerModel,
)

SMALL = {"encoder_layers": 2, "decoder_layers": 3, "width": 12, "heads": 3, "ffn_width": 20}
NO_DROPOUT = {"dropout": 0.0, "attn_dropout": 0.0, "act_dropout": 0.0}
SHORT_PHRASES = PhraseSegmentation(ntok_div=3, ntok_min=2, ntok_max=3)  # several phrases in short sentences
# The settings of preset xu-code, except ntok_scope: batch, with which scores depend on the other sentences of a batch.
NEUTRON = {
    "pool": "attn",
    "ta": "on",
    "init": "neutron",
    "embed_ln": True,
    "src_bos": True,
    "sigmoid": "plain",
    "score_norm": "sigmoid_mix",
    "combine_hidden": 4.0,
    "combine_residual": "x+a",
    "ta_tokens": True,
}

SMALL_RECURRENT = {"embedding": 10, "hidden": 7, "attention_width": 9}
SMALL_BISCALE = {**SMALL_RECURRENT, "family": "biscale", "chunk_hidden": 8, "chunk_embedding": 6}
SMALL_LM = {"family": "language_model", "layers": 2, "width": 12, "heads": 3, "ffn_width": 20}

SYSTEMS: dict[str, Architecture] = {
    "transformer": TransformerModel(**SMALL, **NO_DROPOUT),
    "transformer, pre": TransformerModel(**SMALL, **NO_DROPOUT, norm="pre", tie="all", softmax_bias=False),
    "transformer, embed_ln": TransformerModel(**SMALL, **NO_DROPOUT, embed_ln=True),
    "+Mean": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, glance="mean"),
    "+Max": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES),
    "+Max+Attn": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn"),
    "+Max+Attn+TA": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on"),
    "+Max+Attn, dot product": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", score="dot_product"
    ),
    "xu-code": PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, **NEUTRON),
    "xu-code, pre": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, **NEUTRON, norm="pre", tie="all"
    ),
    "+Max+Attn+TA, pre": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on", norm="pre", tie="all"
    ),
    "no phrases": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=PhraseSegmentation(mode="none"), pool="attn", ta="on"
    ),
    "+Max+Attn+TA, relative": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on", attention="relative", rel_k=2
    ),
    "+Max+Attn+TA, phrasal 1-2-3": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, pool="attn", ta="on", attention="ngrams", ngrams=3
    ),
    "xu-code, phrasal 1-2": PhraseRepresentationModel(
        **SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, **NEUTRON, attention="ngrams"
    ),
    "relative positions": TransformerModel(
        **SMALL, **NO_DROPOUT, attention="relative", rel_k=2
    ),  # most sentences are longer
    "relative positions, pre": TransformerModel(
        **SMALL, **NO_DROPOUT, attention="relative", rel_k=3, norm="pre", tie="all", softmax_bias=False
    ),
    "phrasal 1-2": TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams"),
    "phrasal 1-2-3-4": TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams", ngrams=4, norm="pre", tie="all"),
    "phrasal 1-2 static": TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams", ngram_score="static"),
    "phrasal 1-2-3 last token": TransformerModel(
        **SMALL, **NO_DROPOUT, attention="ngrams", ngrams=3, ngram_score="last_token"
    ),
    "language model": LanguageModel(**SMALL_LM, **NO_DROPOUT),
    "language model, relative": LanguageModel(**SMALL_LM, **NO_DROPOUT, norm="pre", attention="relative", rel_k=2),
    "language model, phrasal": LanguageModel(**SMALL_LM, **NO_DROPOUT, norm="pre", attention="ngrams", ngrams=3),
    "dl4mt": Dl4mtModel(family="dl4mt", **SMALL_RECURRENT),
    "dl4mt-2": Dl4mtModel(family="dl4mt", **SMALL_RECURRENT, decoder_layers=2),
    "dl4mt, maxout": Dl4mtModel(family="dl4mt", **SMALL_RECURRENT, readout="maxout", readout_width=4),
    "bi-scale": BiscaleModel(**SMALL_BISCALE),
    "bi-scale, word attention": BiscaleModel(**SMALL_BISCALE, attention="word"),
    "bi-scale, as coded": BiscaleModel(**SMALL_BISCALE, ctx_update="every_step", word_inputs="p+c"),
    "bi-scale, p_prev": BiscaleModel(**SMALL_BISCALE, chunk_query="p_prev"),
}
# Every value of every setting above, and of two settings most pairs of values. `make test` computes with these.
PAIRWISE = (
    "transformer",
    "relative positions, pre",
    "phrasal 1-2-3-4",
    "phrasal 1-2 static",
    "phrasal 1-2-3 last token",
    "+Mean",
    "+Max+Attn, dot product",
    "+Max+Attn+TA, pre",
    "+Max+Attn+TA, relative",
    "xu-code, phrasal 1-2",
    "no phrases",
    "language model, relative",
    "dl4mt-2",
    "dl4mt, maxout",
    "bi-scale, word attention",
    "bi-scale, as coded",
    "bi-scale, p_prev",
)
# One system of each family and of each kind of attention.
ONE_OF_EACH_FAMILY = ("+Max+Attn+TA", "phrasal 1-2", "relative positions", "language model", "dl4mt", "bi-scale")
SOURCE_VOCABULARY, TARGET_VOCABULARY = 31, 29


def slow_except(quick: Iterable[str], names: Iterable[str] = SYSTEMS) -> list[object]:
    """Names of systems as parameters of a test. `make test-all` runs the others, too."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def random_model(settings: Architecture) -> TranslationModel:
    """A model with random weights, also for parameters that training starts at 0, at 1 or near 0."""
    torch.manual_seed(5)
    target = SOURCE_VOCABULARY if settings.one_vocabulary else TARGET_VOCABULARY
    model = build_model(settings, source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=target)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
            elif parameter.std() < 0.02:
                parameter.mul_(30)
            else:
                parameter[parameter == 0] = 0.3 * torch.randn(int((parameter == 0).sum()))
    return model.eval()
