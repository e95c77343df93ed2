"""Segmenters divide a source sentence into phrases. phrasemt/phrase_modes.py names the segmenter of each `phrase.mode`.

A segmenter returns increasing phrase ends; the last one is `sentence.length`.

Algorithm 1 of Xu et al. (2020), as docs/syntax.md restates it, makes phrases from a tree (`tree_nodes`, `append_eos`,
`phrase_ends`). No library has it, and the authors' program has other constants in some variants (docs/decisions.md,
X2). It cuts phrases off the end of the sentence, so the rest is always positions 0 to e-1. The code therefore removes
nothing from the tree: for a node v above position e-1, e - start(v) positions of v remain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.ngrams import ngram_ends, phrase_tokens


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """Everything that a segmenter may use.

    offsets: position of the first subword of each word, then the position of `</s>`. key: digest of the tokens
    (`phrasemt.syntax.annotations`). tree: the parse in the short text of `phrasemt.syntax.trees`, empty if the
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
    """A binary tree over at least one word. Each span is divided at a place chosen uniformly at random."""
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


@dataclass(frozen=True, slots=True)
class Nodes:
    """A tree over positions in the form that Algorithm 1 needs.

    parents, starts, depths: for each node its parent, its first position and its depth. Node 0 is a sentinel above the
    root that never fits into a phrase; node 1 is the root, at depth 0. leaves: for each position the lowest node that
    covers it.
    """

    parents: list[int]
    starts: list[int]
    depths: list[int]
    leaves: list[int]


_ABOVE_ALL = -(1 << 60)  # start of node 0


def tree_nodes(text: str, offsets: Sequence[int]) -> Nodes:
    """Read a tree in the short text of `phrasemt.syntax.trees` and add the subwords of each word below the word.

    offsets: first position of each word, then the number of positions. A word of one subword stays a leaf; the subwords
    of a longer word become its children. With offsets 0, 1, 2, ... positions are words.
    Raises ValueError if the numbers of leaves and words differ or the brackets do not match.
    """
    parents, starts, depths, leaves = [0], [_ABOVE_ALL], [-1], []
    node = word = start = 0
    depth = 0  # depth of the next node
    try:
        for piece in text.split(" "):
            if piece[0] == "(":
                parents.append(node)
                starts.append(start)
                depths.append(depth)
                node = len(parents) - 1
                depth += 1
                continue
            word += 1
            end = offsets[word]
            if end == start + 1:
                leaves.append(node)
            else:
                for position in range(start, end):
                    leaves.append(len(parents))
                    parents.append(node)
                    starts.append(position)
                    depths.append(depth)
            start = end
            for _ in range(len(piece) - len(piece.rstrip(")"))):
                node = parents[node]
                depth -= 1
    except IndexError:
        word = -1
    if depth or parents.count(0) != 2 or word != len(offsets) - 1:  # node 0 is the parent of itself and of the root
        raise ValueError(f"not a tree over {len(offsets) - 1} words: {text[:80]}")
    return Nodes(parents, starts, depths, leaves)


def append_eos(nodes: Nodes) -> Nodes:
    """Add `</s>` as the last child of the root, in place, and return the nodes."""
    nodes.parents.append(1)
    nodes.starts.append(len(nodes.leaves))
    nodes.depths.append(1)
    nodes.leaves.append(len(nodes.parents) - 1)
    return nodes


def phrase_ends(nodes: Nodes, size: int) -> list[int]:
    """Algorithm 1: the phrase ends of a tree; no phrase is longer than `size` >= 1 positions."""
    parents, starts, depths, leaves = nodes.parents, nodes.starts, nodes.depths, nodes.leaves
    ends = []
    end = len(leaves)
    while end:
        ends.append(end)
        node = leaves[end - 1]
        # The highest node on the right edge of the rest that fits into a phrase.
        while end - starts[parents[node]] <= size:
            node = parents[node]
        level = depths[node]
        room = size - end + starts[node]
        end = starts[node]
        # Its left neighbours of the same depth, as long as they fit into the same phrase.
        while room and end:
            node = leaves[end - 1]
            while depths[node] > level and end - starts[node] <= room:
                node = parents[node]
            if depths[node] != level or end - starts[node] > room:
                break
            room += starts[node] - end
            end = starts[node]
    ends.reverse()
    return ends
