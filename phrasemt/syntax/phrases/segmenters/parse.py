"""Algorithm 1 on the parse."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.algorithm_1 import cut_tree
from phrasemt.syntax.phrases.segmenters import Sentence


def segment(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    return cut_tree(sentence.tree, sentence, settings)
