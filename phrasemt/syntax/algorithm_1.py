"""Algorithm 1 of Xu et al. (2020) as docs/syntax.md restates it: phrases from a tree.

No library has it, and the authors' program has other constants in some variants (docs/decisions.md, X2).

The algorithm cuts phrases off the end of the sentence, so the rest is always positions 0 to e-1. The code therefore
removes nothing from the tree: for a node v above position e-1, e - start(v) positions of v remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
