"""Algorithm 1 of Xu et al. (2020) as docs/syntax.md restates it: phrases from a tree.

What remains of a sentence is always its beginning, so nothing is removed from the tree: above the last remaining token,
a node that begins at start(v) has the remaining size e - start(v) when e positions remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.ngrams import phrase_tokens
from phrasemt.syntax.phrases.segmenters import Sentence


@dataclass(frozen=True, slots=True)
class Nodes:
    """A tree over positions, as algorithm 1 reads it.

    parents, starts, depths: of each node the node above it, its first position and its level. Node 0 stands above the
    root and never fits into a phrase; node 1 is the root, at level 0. leaves: the lowest node above each position.
    """

    parents: list[int]
    starts: list[int]
    depths: list[int]
    leaves: list[int]


_ABOVE_ALL = -(1 << 60)  # start of node 0


def tree_nodes(text: str, offsets: Sequence[int]) -> Nodes:
    """The nodes of a tree in the short text of `phrasemt.syntax.trees`, with subwords hung under their words.

    offsets: first position of each word, and at the end the number of positions. A word of one subword stays a leaf;
    the subwords of a longer one become nodes below its own. With offsets 0, 1, 2, ... positions are words.
    Raises ValueError when the tree does not have as many leaves as there are words, or its brackets do not match.
    """
    parents, starts, depths, leaves = [0], [_ABOVE_ALL], [-1], []
    node = word = start = 0
    depth = 0  # of the next node
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
    if depth or parents.count(0) != 2 or word != len(offsets) - 1:  # below node 0 there are itself and the root
        raise ValueError(f"not a tree over {len(offsets) - 1} words: {text[:80]}")
    return Nodes(parents, starts, depths, leaves)


def hang_end(nodes: Nodes) -> Nodes:
    """`</s>`, one position more, as the root's last child; changes the nodes and returns them."""
    nodes.parents.append(1)
    nodes.starts.append(len(nodes.leaves))
    nodes.depths.append(1)
    nodes.leaves.append(len(nodes.parents) - 1)
    return nodes


def phrase_ends(nodes: Nodes, size: int) -> list[int]:
    """Algorithm 1: the ends of the phrases of a tree, none of them longer than size >= 1."""
    parents, starts, depths, leaves = nodes.parents, nodes.starts, nodes.depths, nodes.leaves
    ends = []
    end = len(leaves)
    while end:
        ends.append(end)
        node = leaves[end - 1]
        # The highest node on the right edge of what remains that fits.
        while end - starts[parents[node]] <= size:
            node = parents[node]
        level = depths[node]
        room = size - end + starts[node]
        end = starts[node]
        # Its neighbours of the same level, from right to left, while they fit.
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


def cut_tree(tree: str, sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    """The ends of the phrases of a sentence by a tree over its words. Raises ValueError as `tree_nodes`."""
    size = phrase_tokens(sentence.length, settings)
    if settings.parse_unit == "subword":
        return phrase_ends(hang_end(tree_nodes(tree, sentence.offsets)), size)
    *ends, _ = phrase_ends(hang_end(tree_nodes(tree, range(sentence.words + 1))), size)
    return [*(sentence.offsets[end] for end in ends), sentence.length]
