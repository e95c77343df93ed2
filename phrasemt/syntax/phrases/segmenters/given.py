"""Mode `given`: the user gives the phrases."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.source_sentence import SourceSentence


def segment(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    return [*(sentence.offsets[end] for end in sentence.given[:-1]), sentence.length]
