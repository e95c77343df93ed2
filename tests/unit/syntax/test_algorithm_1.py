"""Algorithm 1 of Xu et al. (2020) on trees.

Witness: the algorithm as it is printed, with the corrections A1-A9 of docs/decisions.md, written here anew: it takes
trees apart; and the example worked out by hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.syntax.segmenters import Nodes, append_eos, phrase_ends, tree_nodes

# A tree is a list of trees; a word is the number of its subwords.
Shape = list["Shape"] | int

EXAMPLE = "(S (NP (DT 0) (JJ 1) (JJ 2) (NN 3)) (VP (VBD 4) (PP (IN 5) (NP (DT 6) (JJ 7) (NN 8)))) (. 9))"
EXAMPLE_WORDS = ["The", "quick", "brown", "fox", "jumped", "over", "the", "lazy", "dog", "."]
WORDS = st.one_of(st.just(1), st.integers(1, 20))
# Random trees with unary chains, flat ones, and left- and right-branching ones.
TREES = st.one_of(
    st.recursive(WORDS, lambda trees: st.lists(trees, min_size=1, max_size=5), max_leaves=20),
    st.lists(WORDS, min_size=1, max_size=30),
    st.lists(WORDS, min_size=2, max_size=15).map(lambda words: branching(words, left=True)),
    st.lists(WORDS, min_size=2, max_size=15).map(lambda words: branching(words, left=False)),
).map(lambda tree: tree if isinstance(tree, list) else [tree])
SIZES = st.integers(1, 10)


def branching(words: list[int], *, left: bool) -> Shape:
    tree: Shape = words[0] if left else words[-1]
    for word in words[1:] if left else reversed(words[:-1]):
        tree = [tree, word] if left else [word, tree]
    return tree


def text_of(shape: Shape) -> str:
    numbers = itertools.count()

    def text(tree: Shape) -> str:
        return f"(W {next(numbers)})" if isinstance(tree, int) else f"(X {' '.join(map(text, tree))})"

    return text(shape)


def words_of(shape: Shape) -> list[int]:
    return [shape] if isinstance(shape, int) else [word for tree in shape for word in words_of(tree)]


def nodes_of(shape: Shape) -> Nodes:
    """With `</s>`."""
    return append_eos(tree_nodes(text_of(shape), list(itertools.accumulate(words_of(shape), initial=0))))


def spans_of(ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise([0, *ends]))


@dataclass(eq=False)
class Node:
    level: int
    children: list[Node] = field(default_factory=list)
    is_token: bool = False

    def size(self) -> int:
        return 1 if self.is_token else sum(child.size() for child in self.children)


def literal_tree(shape: Shape) -> Node:
    """Subwords under their word, a word of one subword a leaf; `</s>` the last child of the root."""

    def build(tree: Shape, level: int) -> Node:
        if tree == 1:
            return Node(level, is_token=True)
        below = [1] * tree if isinstance(tree, int) else tree
        return Node(level, [build(child, level + 1) for child in below])

    root = build(shape, 0)
    root.children.append(Node(1, is_token=True))
    return root


def right_edge(root: Node) -> list[Node]:
    """From the root down to the last token."""
    edge = [root]
    while edge[-1].children:
        edge.append(edge[-1].children[-1])
    return edge


def remove(root: Node, node: Node) -> bool:
    """Take a node on the right edge out, and what is empty then; says whether anything is left."""
    edge = right_edge(root)
    for above, below in reversed(list(itertools.pairwise(edge[: edge.index(node) + 1]))):
        above.children.remove(below)
        if above.children:
            return True
    return False


def literal_phrases(shape: Shape, size: int) -> list[int]:
    """Lengths of the phrases, left to right."""
    root = literal_tree(shape)
    lengths = []
    left = True
    while left:
        subtree = next(node for node in right_edge(root) if node.size() <= size)  # the largest, the highest of equals
        level, length = subtree.level, subtree.size()
        left = remove(root, subtree)
        while left and length < size:
            adjacent = [node for node in right_edge(root) if node.level == level]
            if not adjacent or adjacent[0].size() > size - length:
                break
            length += adjacent[0].size()
            left = remove(root, adjacent[0])
        lengths.append(length)
    return lengths[::-1]


@pytest.mark.parametrize(
    ("size", "phrases"),
    [
        (3, ["The", "quick brown fox", "jumped over", "the lazy dog", "."]),
        (4, ["The quick brown fox", "jumped", "over the lazy dog", "."]),
        (8, ["The quick brown fox", "jumped over the lazy dog ."]),
    ],
)
def test_worked_example(size, phrases):
    ends = phrase_ends(tree_nodes(EXAMPLE, range(11)), size)
    assert [" ".join(EXAMPLE_WORDS[start:end]) for start, end in spans_of(ends)] == phrases


@settings(max_examples=300)
@given(shape=TREES, size=SIZES)
def test_equal_to_taking_trees_apart(shape, size):
    spans = spans_of(phrase_ends(nodes_of(shape), size))
    assert [end - start for start, end in spans] == literal_phrases(shape, size)
    assert spans == spans_of(phrase_ends(nodes_of(shape), size))


class Counting(list):
    reads = 0

    def __getitem__(self, index):
        Counting.reads += 1
        return super().__getitem__(index)


@settings(max_examples=100)
@given(shape=TREES, size=SIZES)
def test_work_is_linear_in_the_nodes(shape, size):
    """Reads of parents are visits; two of them are one step."""
    nodes = nodes_of(shape)
    Counting.reads = 0
    phrase_ends(Nodes(Counting(nodes.parents), nodes.starts, nodes.depths, nodes.leaves), size)
    assert Counting.reads <= 6 * len(nodes.parents)


@pytest.mark.parametrize("text", ["(S (A 0))", "(S (A 0) (B 1) (C 2))", "(S (A 0) (B 1)", "(S (A 0) (B 1)))", ""])
def test_trees_of_other_sentences_and_broken_ones_are_refused(text):
    with pytest.raises(ValueError, match="not a tree over 2 words"):
        tree_nodes(text, [0, 1, 2])
