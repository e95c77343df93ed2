"""Mode `parse`: Algorithm 1 on the parse."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.algorithm_1 import cut_tree
from phrasemt.syntax.phrases.source_sentence import SourceSentence


def segment(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    return cut_tree(sentence.tree, sentence, settings)
