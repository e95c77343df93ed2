"""Training data of taggers, parsers and chunkers: trees and chunk columns from files, in Stanza's forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from phrasemt.errors import DataError
from phrasemt.syntax.chunks.conll import read_conll
from phrasemt.syntax.stanza.tagger import Tagger
from phrasemt.syntax.trees import Tree, leaves, read_treebank, words

Item = TypeVar("Item")
ChunkedSentence = tuple[list[str], list[str]]  # tokens and their chunk tags
# Largest depth of a tree. Trees of sentences have a third of it; Stanza fails at about twice as much.
_DEEPEST = 100
# Longest chain of nodes with one child. Treebanks have at most about five in a row; Stanza fails with many more.
_LONGEST_CHAIN = 10


def read_trees(paths: list[Path], most: int | None = None) -> list[Tree]:
    """The trees of all files, at most the first `most`. Raises DataError if there are none or one is too deep."""
    return _some((tree for path in paths for tree in _shallow_trees(path)), most, paths, "trees")


def _shallow_trees(path: Path) -> Iterator[Tree]:
    """The trees of a file. Raises DataError for a tree that is too deep for Stanza's recursion or transitions."""
    for tree in read_treebank(path):
        depth, longest_chain, level = 0, 0, [(tree, 0)]
        while level:
            depth, longest_chain = depth + 1, max(longest_chain, *(chain for _, chain in level))
            level = [
                (child, chain + 1 if len(node.children) == 1 else 0) for node, chain in level for child in node.children
            ]
        for found, most, what in (
            (depth, _DEEPEST, "nodes above each other"),
            (longest_chain, _LONGEST_CHAIN, "nodes with a single child above each other"),
        ):
            if found > most:
                raise DataError(
                    "a tree is too deep to learn from",
                    where=path,
                    expected=f"at most {most} {what}",
                    found=f"{found} in the tree that begins {' '.join(words(tree)[:8])!r}",
                    next_step="repair or remove the tree",
                )
        yield tree


def read_chunked(paths: list[Path], most: int | None = None) -> list[ChunkedSentence]:
    """The sentences of CoNLL files, at most the first `most`. Raises DataError if there are none."""
    sentences = (sentence for path in paths for sentence in read_conll(path) if sentence[0])
    return _some(sentences, most, paths, "sentences with chunks")


def train_and_dev(
    read: Callable[..., list[Item]], train: list[Path], dev: list[Path], most: int | None
) -> tuple[list[Item], list[Item]]:
    """Sentences to learn from, and sentences that choose the best epoch.

    Without dev files every twelfth sentence of train is held out. most: largest number of sentences read from train.
    """
    learned = read(train, most)
    if dev:
        return learned, read(dev)
    return [item for number, item in enumerate(learned) if number % 12 != 11], learned[11::12] or learned[:1]


def _some(items: Iterable[Item], most: int | None, paths: list[Path], what: str) -> list[Item]:
    found = list(islice(items, most))
    if not found:
        raise DataError(f"there are no {what}", where=", ".join(map(str, paths)), next_step="give other files")
    return found


def conllu_lines(tree: Tree) -> Iterator[str]:
    """A sentence in CoNLL-U with XPOS tags. Each word depends on the first one, because Stanza's scorer needs heads."""
    for number, leaf in enumerate(leaves(tree), start=1):
        word = re.sub(r"\s", "_", leaf.word or "_")  # CoNLL-U readers split at any Unicode space
        head = "0\troot" if number == 1 else "1\tdep"
        yield f"{number}\t{word}\t_\t_\t{leaf.label}\t_\t{head}\t_\t_"
    yield ""


def retagged(tagger: Tagger, trees: list[Tree]) -> list[Tree]:
    """The trees with the tags that a tagger gives their words."""

    def retag(node: Tree, tags: Iterator[str]) -> Tree:
        if node.word is not None:
            return replace(node, label=next(tags))
        return replace(node, children=tuple(retag(child, tags) for child in node.children))

    order = sorted(range(len(trees)), key=lambda number: len(words(trees[number])), reverse=True)
    tagged = tagger.tag([words(trees[number]) for number in order])
    found = {number: retag(trees[number], iter(tags)) for number, tags in zip(order, tagged, strict=True)}
    return [found[number] for number in range(len(trees))]


def stanza_tree(tree: Tree) -> Any:
    """The tree as Stanza's class, below a ROOT."""
    from stanza.models.constituency.parse_tree import Tree as StanzaTree

    def convert(node: Tree) -> Any:
        if node.word is not None:
            return StanzaTree(node.label, StanzaTree(node.word))
        return StanzaTree(node.label, [convert(child) for child in node.children])

    return convert(tree) if tree.label == "ROOT" else StanzaTree("ROOT", convert(tree))
