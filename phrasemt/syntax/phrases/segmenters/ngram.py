"""Mode `ngram`: phrases of n tokens."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.ngrams import ngram_ends
from phrasemt.syntax.phrases.source_sentence import SourceSentence


def segment(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    ends: list[int] = ngram_ends(sentence.length, settings).tolist()
    return ends
