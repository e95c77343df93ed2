"""Phrases of the user."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.segmenters import Sentence


def segment(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    return [*(sentence.offsets[end] for end in sentence.given[:-1]), sentence.length]
