"""Segmenters cut a source sentence into phrases. phrasemt/phrase_modes.py names the segmenter of each `phrase.mode`.

A segmenter returns increasing phrase ends; the last one is `sentence.length`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.algorithm_1 import append_eos, phrase_ends, tree_nodes
from phrasemt.syntax.ngrams import ngram_ends, phrase_tokens


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """Everything that a segmenter may use.

    offsets: position of the first subword of each word, then the position of `</s>`. key: digest of the tokens
    (`phrasemt.syntax.sentences`). tree: the parse in the short text of `phrasemt.syntax.trees`, empty if the
    segmentation needs no parse. given: phrase ends in words from your files, empty without them.
    """

    offsets: list[int]
    key: bytes
    tree: str
    given: Sequence[int]

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.offsets) - 1

    @property
    def length(self) -> int:
        """Number of encoder positions, `</s>` included."""
        return self.offsets[-1] + 1

    def random(self) -> Random:
        """A generator seeded with the tokens: equal for the same sentence in any corpus."""
        digest = blake2b(self.key, key=b"\0\0\0\0\0\0\0\1", digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))


Segmenter = Callable[[SourceSentence, PhraseSegmentation], Sequence[int]]


def cut_ngrams(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """Phrases of n tokens."""
    ends: list[int] = ngram_ends(sentence.length, settings).tolist()
    return ends


def cut_parse(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """Algorithm 1 on the parse."""
    return cut_tree(sentence.tree, sentence, settings)


def cut_random_tree(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """Algorithm 1 on a random binary tree."""
    return cut_tree(random_tree(sentence.words, sentence.random()), sentence, settings)


def cut_right_tree(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """Algorithm 1 on the right-branching binary tree."""
    return cut_tree(right_tree(sentence.words), sentence, settings)


def shuffle_parse(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """The phrase lengths of `cut_parse` in random order."""
    ends = cut_parse(sentence, settings)
    lengths = [end - start for start, end in itertools.pairwise([0, *ends])]
    # Python keeps only the numbers of random() the same in every version.
    numbers = sentence.random()
    return list(itertools.accumulate(sorted(lengths, key=lambda _: numbers.random())))


def cut_as_given(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """The phrases of your files."""
    return [*(sentence.offsets[end] for end in sentence.given[:-1]), sentence.length]


def cut_tree(tree: str, sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    """The phrase ends of a sentence, by Algorithm 1 on a tree over its words. Raises ValueError like `tree_nodes`."""
    size = phrase_tokens(sentence.length, settings)
    return phrase_ends(append_eos(tree_nodes(tree, sentence.offsets)), size)


def random_tree(words: int, numbers: Random) -> str:
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


def right_tree(words: int) -> str:
    """The tree over at least one word in which the sister of each word is the tree of all words after it."""
    if words == 1:
        return "(X (W 0))"
    return " ".join(f"(X (W {word})" for word in range(words - 1)) + f" (W {words - 1})" + ")" * (words - 1)
