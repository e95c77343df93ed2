"""Transformer with phrasal attention: queries attend to n-grams of tokens, of all orders up to 2, 3 or 4 together.

Nguyen, Joty, Nguyen (2019): Enhancing Attention with Explicit Phrasal Alignments. Submission to ICLR 2020.

Notation
    paper       here                       shape
    d           width, D                   512 (base)
    h           heads, h                   8
    n           1..N = ngrams              orders of n-grams; key and value of an n-gram stand at its last token
    l_q, l_k    T, S                       numbers of queries and keys
    W_q (of n)  query                      [n*D, D] for each n, one below the other
    W_k         key                        [D, D], one for all n (score static: [n*D, D] for each n)
    W_v (of n)  value                      [n*D, D] for each n, one below the other
    A           scores                     [B, h, T, N*S]

Equations
    Eq. (1)  attention: softmax over the keys
    Eq. (4)  convolution over n tokens: values of n-grams (score static: also their keys)
    Eq. (5)  query as kernel: the score of an n-gram is a sum of one product for each of its tokens
    Eqs. (7-12)  heads, and one softmax over the n-grams of all orders

Deviations and choices (docs/decisions.md, N1-N9)
    Eq. (4), (5)  without padding S keys have S-n+1 n-grams (N1). A query may use an n-gram if it may use the n-gram's
                  last token; the paper does not say which n-grams the decoder may use (N3)
    Eq. (5)       divided by sqrt(n d/h) in each head (N2)
    ngram_where   all three attentions, because only this gives the paper's numbers of parameters (N4)
    norm: pre, tie: all, no softmax bias, dropout in four places: as in tensor2tensor (N7, N8)
    Initial values: the n matrices of W_v are Xavier-uniform, divided by sqrt(n): equal variance of values for all n.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from phrasemt.models.transformer import Attentions, Transformer
from phrasemt.nn.ngram_attention import NgramKeyValueAttention, NgramSelfAttention
from phrasemt.study.architectures import PhrasalAttentionModel


def attentions(settings: PhrasalAttentionModel) -> Attentions:
    """Return attention to n-grams in the places that `ngram_where` names, and attention to tokens elsewhere."""
    plain, where = Attentions.plain(settings), settings.ngram_where
    sizes: dict[str, Any] = {
        "width": settings.width,
        "heads": settings.heads,
        "dropout": settings.attn_dropout,
        "ngrams": settings.ngrams,
        "score": settings.ngram_score,
    }
    of_itself = partial(NgramSelfAttention, **sizes)  # Eqs. (4-5), Eqs. (7-12), Eq. (1) over all n-grams
    of_source = partial(NgramKeyValueAttention, **sizes)
    return Attentions(
        encoder=of_itself if "enc_self" in where else plain.encoder,
        decoder=of_itself if "dec_self" in where else plain.decoder,
        source=of_source if "cross" in where else plain.source,
    )


class PhrasalTransformer(Transformer):
    """Transformer with attention to n-grams."""

    def __init__(self, settings: PhrasalAttentionModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(
            settings,
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            attentions=attentions(settings),
        )


build = PhrasalTransformer
