"""Mode `right`: Algorithm 1 on the right-branching binary tree."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.algorithm_1 import cut_tree
from phrasemt.syntax.phrases.source_sentence import SourceSentence


def segment(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    return cut_tree(right_tree(sentence.words), sentence, settings)


def right_tree(words: int) -> str:
    """The tree over at least one word in which the sister of each word is the tree of all words after it."""
    if words == 1:
        return "(X (W 0))"
    return " ".join(f"(X (W {word})" for word in range(words - 1)) + f" (W {words - 1})" + ")" * (words - 1)
