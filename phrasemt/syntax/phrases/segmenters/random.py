"""Mode `random`: Algorithm 1 on a random binary tree."""

from __future__ import annotations

import random
from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.algorithm_1 import cut_tree
from phrasemt.syntax.phrases.source_sentence import SourceSentence


def segment(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    return cut_tree(random_tree(sentence.words, sentence.random(settings)), sentence, settings)


def random_tree(words: int, numbers: random.Random) -> str:
    """A binary tree over at least one word. Each span is cut at a place drawn uniformly from its places."""
    pieces = []
    waiting = [(0, words, 0)]  # a stack of spans: start, end, number of brackets that close after it
    while waiting:
        start, end, closing = waiting.pop()
        if end - start == 1:
            pieces.append(f"(W {start}){')' * closing}")
            continue
        middle = start + 1 + int(numbers.random() * (end - start - 1))
        pieces.append("(X")
        waiting += [(middle, end, closing + 1), (start, middle, 0)]
    tree = " ".join(pieces)
    return tree if words > 1 else f"(X {tree})"
