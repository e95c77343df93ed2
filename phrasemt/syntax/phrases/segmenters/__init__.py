"""Segmenters cut a source sentence into phrases: one module for each value of `phrase.mode`, with a function `segment`.

The module is imported by the name of the mode. Code digests therefore cover only the module of the mode in use, and a
new mode changes no other module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.source_sentence import SourceSentence

Segmenter = Callable[[SourceSentence, PhraseSegmentation], Sequence[int]]


def segmenter(mode: str) -> Segmenter:
    """The function `segment` of a mode. It returns increasing phrase ends; the last one is `sentence.length`."""
    segment: Segmenter = importlib.import_module(f"{__name__}.{mode}").segment
    return segment
