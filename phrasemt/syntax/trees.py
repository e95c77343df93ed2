"""Constituency trees: as files of a treebank have them, and as the short text in which parses are stored.

In the short text the leaves are the numbers of the tokens, so that no character of a token can harm it:
`(S (NP (DT 0) (NN 1)) (VP (VBZ 2)))`. The tokens themselves stay beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.lines import read_lines

_TOP = ("", "ROOT", "TOP")
_EMPTY = "-NONE-"
# Brackets and what else a treebank may not write as it is; a Unicode space is a character like any other.
_PIECES = re.compile(r"[()]|[^() \t\r]+")
_FUNCTION = re.compile(r"(?<=.)[-=].*")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True, slots=True)
class Tree:
    """A node: a constituent with children, or the part of speech of one token (`word`) without."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None


def parse_tree(text: str, where: object = None) -> Tree:
    """The tree of a short text; the words of its leaves are "0", "1", ...

    Raises DamagedFileError, which says `where` the text is from, when it is not what `tree_text` writes.
    """
    open_nodes: list[tuple[str, list[Tree]]] = [("", [])]  # the last one is the innermost
    try:
        for piece in text.split(" "):
            if piece.startswith("("):
                open_nodes.append((piece[1:], []))
                continue
            word = piece.rstrip(")")
            label, _ = open_nodes.pop()
            open_nodes[-1][1].append(Tree(label, word=word))
            for _ in range(len(piece) - len(word) - 1):
                label, children = open_nodes.pop()
                open_nodes[-1][1].append(Tree(label, tuple(children)))
        ((_, (tree,)),) = open_nodes  # all closed, into one tree
        if tree_text(tree) == text:
            return tree
    except (IndexError, ValueError):
        pass
    raise DamagedFileError(
        "not a tree", where=where, expected="brackets around tokens 0, 1, ...", found=repr(text[:80])
    )


def tree_text(tree: Tree) -> str:
    """The short text of a tree, its leaves numbered from left to right whatever their words are.

    Raises ValueError for a label that is empty or holds a bracket or a space, and for a constituent without children.
    """
    pieces: list[str] = []
    leaf = 0
    waiting: list[Tree | None] = [tree]  # None: close a bracket. A stack, since trees of long sentences are deep.
    while waiting:
        node = waiting.pop()
        if node is None:
            pieces[-1] += ")"
            continue
        if not re.fullmatch(r"[^() \n]+", node.label) or (node.word is None) != bool(node.children):
            raise ValueError(f"not a node of a tree: label {node.label!r} with {len(node.children)} children")
        pieces.append(f"({node.label}")
        if node.word is None:
            waiting += [None, *reversed(node.children)]
        else:
            pieces.append(f"{leaf})")
            leaf += 1
    return " ".join(pieces)


def leaves(tree: Tree) -> Iterator[Tree]:
    """The nodes right above the tokens, from left to right."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.word is not None:
            yield node
        waiting += reversed(node.children)


def words(tree: Tree) -> list[str]:
    """The words of the leaves, from left to right."""
    return [leaf.word for leaf in leaves(tree) if leaf.word is not None]


def read_treebank(path: Path) -> Iterator[Tree]:
    """The trees of a file in the brackets of the Penn Treebank, each on one line or over several.

    The outermost bracket, if it has no label or ROOT or TOP, goes, except above a single part of speech, where it
    becomes ROOT. Empty elements (-NONE-) go, functions are cut off labels (NP-SBJ=1 is NP), and words that the treebank
    has to escape (-LRB-, 1\\/2) are written as they are.

    Raises DataError naming the file and the line at which a tree begins that has a bracket too few or too many, a
    bracket without label, a word that is no leaf, or no words at all.
    """
    first = 1  # line on which the last tree begins
    open_nodes: list[list[Tree | str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            for piece in _PIECES.findall(line):
                if piece == "(":
                    first = first if open_nodes else number
                    open_nodes.append([])
                elif not open_nodes:
                    raise _BrokenTreeError("a bracket too many" if piece == ")" else f"{piece} outside of all brackets")
                elif piece != ")":
                    open_nodes[-1].append(piece)
                else:
                    node = _node(open_nodes.pop(), outermost=not open_nodes)
                    if open_nodes:
                        open_nodes[-1].append(node)
                    else:
                        yield node
        except _BrokenTreeError as problem:
            raise _broken(path, first, f"{problem} in line {number}") from None
    if open_nodes:
        raise _broken(path, first, f"a bracket too few: {len(open_nodes)} open at the end of the file")


class _BrokenTreeError(Exception):
    pass


_NOTHING = Tree(_EMPTY)


def _node(content: Sequence[Tree | str], *, outermost: bool) -> Tree:
    """The tree of a bracket; _NOTHING if only empty elements are in it."""
    label = content[0] if content and isinstance(content[0], str) else ""
    rest = content[1:] if label else content
    children = tuple(child for child in rest if isinstance(child, Tree) and child is not _NOTHING)
    texts = [text for text in rest if isinstance(text, str)]
    if texts and (len(rest) > 1 or not label):
        raise _BrokenTreeError(f"{texts[-1]} not alone in its bracket")
    if texts:
        node = _NOTHING if label == _EMPTY else Tree(_plain(label), word=_unescaped(texts[0]))
    elif not rest:
        raise _BrokenTreeError("a bracket without words")
    elif not children:
        node = _NOTHING
    elif label not in _TOP:
        return Tree(_plain(label), children)
    elif not outermost:
        # Also what a bracket missing earlier looks like: the next tree then seems to be part of this one.
        raise _BrokenTreeError(f"a bracket {f'with label {label}' if label else 'without label'} within a tree")
    elif len(children) > 1:
        raise _BrokenTreeError("several trees in one outermost bracket")
    else:
        node = children[0]
    if outermost and node is _NOTHING:
        raise _BrokenTreeError("a tree without words")
    return Tree("ROOT", (node,)) if outermost and node.word is not None else node


def _plain(label: str) -> str:
    """Without functions and numbers; -LRB- and the like, which begin with their hyphen, stay whole."""
    return label if label.startswith("-") else _FUNCTION.sub("", label)


def _unescaped(word: str) -> str:
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def _broken(path: Path, line: int, problem: str) -> DataError:
    return DataError(
        "the tree that begins here is broken",
        where=f"{path}, line {line}",
        expected="a tree in Penn Treebank brackets",
        found=problem,
        next_step="repair the tree",
    )
