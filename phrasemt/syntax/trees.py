"""Constituency trees in treebank files, and in the short text in which parses are stored.

In the short text a leaf is the number of its token, so that no character of a token can break the text:
`(S (NP (DT 0) (NN 1)) (VP (VBZ 2)))`. The tokens are stored separately.

Stanza's reader of treebanks needs torch, reads the whole file into memory, and cuts Unicode spaces off words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines

# Labels of outermost brackets: of the Penn Treebank, Stanza and CoreNLP, the parsers of Charniak and BLLIP, and NeGra.
ROOTS = frozenset(["", "ROOT", "TOP", "S1", "VROOT"])
_EMPTY = "-NONE-"
# Brackets, and runs of other characters. Only ASCII white space separates; Unicode spaces belong to words.
_PIECES = re.compile(r"[()]|[^() \t\r]+")
_FUNCTION = re.compile(r"(?<=.)[-=#*].*")
_BRACKETS = {
    f"{mark}{name}{mark}": bracket
    for mark in "-*"
    for name, bracket in zip(("LRB", "RRB", "LSB", "RSB", "LCB", "RCB"), "()[]{}", strict=True)
}


@dataclass(frozen=True, slots=True)
class Tree:
    """A node: a constituent with children, or the part of speech of a token (`word`) without children."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None


def parse_tree(text: str) -> Tree:
    """Read a text of `tree_text`. The words of the leaves are "0", "1", ..."""
    open_nodes: list[tuple[str, list[Tree]]] = [("", [])]  # the last one is the innermost
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
    return tree


def tree_text(tree: Tree) -> str:
    """The short text of a tree. Leaves are numbered from left to right; their words are ignored.

    Raises ValueError for a label that is empty or contains a bracket or a space, and for constituents without children.
    """
    pieces: list[str] = []
    leaf = 0
    waiting: list[Tree | None] = [tree]  # None closes a bracket. No recursion, as trees may be deep.
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
    """The parts of speech of a tree, from left to right."""
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
    """The trees of a file in Penn Treebank brackets. A tree may extend over several lines.

    Outermost brackets with a label of ROOTS, also several around each other, are removed; above several constituents or
    a single part of speech they are one ROOT. Empty elements (-NONE-) are removed, function tags are cut off (NP-SBJ=1
    becomes NP), and escaped words (-LRB-, *LRB*, 1\\/2) are unescaped.

    Raises DataError, with the file and the first line of the tree, for a missing or an extra bracket, a label of ROOTS
    within a tree, a word outside of a leaf, and a tree without words.
    """
    first_line = 1  # first line of the current tree
    open_nodes: list[list[Tree | str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            for piece in _PIECES.findall(line):
                if piece == "(":
                    first_line = first_line if open_nodes else number
                    open_nodes.append([])
                elif not open_nodes:
                    raise _BrokenTreeError("a bracket too many" if piece == ")" else f"{piece} outside of all brackets")
                elif piece != ")":
                    open_nodes[-1].append(piece)
                else:
                    content = open_nodes.pop()
                    node = _node(content, open_nodes[-1] if open_nodes else ())
                    if open_nodes:
                        open_nodes[-1].append(node)
                    else:
                        yield _whole(node)
        except _BrokenTreeError as problem:
            raise _broken(path, first_line, f"{problem} in line {number}") from None
    if open_nodes:
        raise _broken(path, first_line, f"a bracket too few: {len(open_nodes)} open at the end of the file")


class _BrokenTreeError(Exception):
    pass


_NOTHING = Tree(_EMPTY)


def _node(content: Sequence[Tree | str], around: Sequence[Tree | str]) -> Tree:
    """The tree of a bracket; _NOTHING for empty elements alone. around: what precedes it in the bracket around it."""
    written = content[0] if content and isinstance(content[0], str) else ""
    label, rest = _plain(written), content[1:] if written else content
    children = tuple(child for child in rest if isinstance(child, Tree) and child is not _NOTHING)
    texts = [text for text in rest if isinstance(text, str)]
    if texts and (len(rest) > 1 or not label):
        raise _BrokenTreeError(f"{texts[-1]} not alone in its bracket")
    if texts:
        word = _BRACKETS.get(texts[0]) or texts[0].replace("\\/", "/").replace("\\*", "*")
        return _NOTHING if label == _EMPTY else Tree(label, word=word)
    if not rest:
        raise _BrokenTreeError("a bracket without words")
    if not children:
        return _NOTHING
    # A missing bracket in an earlier tree has the same effect: the next tree then seems to be a part of it.
    if label in ROOTS and around and (isinstance(around[-1], Tree) or around[-1] not in ROOTS):
        raise _BrokenTreeError(f"a bracket {f'with label {label}' if label else 'without label'} within a tree")
    if any(map(_is_root, children)):
        if label not in ROOTS or len(children) > 1:
            raise _BrokenTreeError("a bracket after the end of a tree")
        return children[0]
    return Tree("ROOT" if label in ROOTS else label, children)


def _is_root(tree: Tree) -> bool:
    return tree.label == "ROOT" and tree.word is None


def _whole(tree: Tree) -> Tree:
    """The tree of an outermost bracket, below a ROOT only if it needs one."""
    if tree is _NOTHING:
        raise _BrokenTreeError("a tree without words")
    if tree.word is not None:
        return Tree("ROOT", (tree,))
    (child, *further) = tree.children
    return child if _is_root(tree) and not further and child.word is None else tree


def _plain(label: str) -> str:
    """The label without function tags and indices. Labels that begin with a hyphen, like -LRB-, stay."""
    return label if label.startswith("-") else _FUNCTION.sub("", label)


def _broken(path: Path, line: int, problem: str) -> DataError:
    return DataError(
        "the tree that begins here is malformed",
        where=f"{path}, line {line}",
        expected="a tree in Penn Treebank brackets",
        found=problem,
        next_step="repair the tree",
    )


PUNCTUATION = frozenset([",", ":", "``", "''", ".", "-NONE-"])
_EQUAL = {"PRT": "ADVP"}

Bracket = tuple[str, int, int]  # label, first token, token after the last; punctuation does not count


def bracket_scores(pairs: Iterable[tuple[Tree, Tree | None]]) -> dict[str, float]:
    """Labelled brackets of parses against those of references, by the rules of Collins, as in `evalb` with COLLINS.prm.

    Punctuation is removed before constituents are compared, PRT counts as ADVP, and the root is not a constituent. The
    tags of the reference decide which tokens are punctuation, so a wrong predicted tag does not shift other brackets.
    Stanza computes these scores with CoreNLP, in Java; NLTK does not have them.

    pairs: reference and parse of each sentence; None if parsing failed. Returns `measures`, the number of sentences and
    `exact`, the share of those whose parse equals the reference. Raises ValueError if the numbers of tokens differ.
    """
    gold = predicted = correct = sentences = exact = 0
    for tree, parse in pairs:
        counts = [leaf.label not in PUNCTUATION for leaf in leaves(tree)]
        reference = brackets(tree, counts)
        judged = brackets(parse, counts) if parse else Counter[Bracket]()
        gold += reference.total()
        predicted += judged.total()
        correct += (reference & judged).total()
        sentences += 1
        exact += parse is not None and reference == judged
    return {**measures(gold, predicted, correct), "exact": exact / max(sentences, 1), "sentences": sentences}


def brackets(tree: Tree, counts: Sequence[bool]) -> Counter[Bracket]:
    """The constituents of a tree over the tokens that count (True), such as all tokens but punctuation.

    A constituent without such tokens is left out. Raises ValueError if `counts` and the tree have different lengths.
    """
    constituents: Counter[Bracket] = Counter()
    leaf = position = 0
    waiting: list[tuple[Tree, int | None]] = [(tree, None)]  # (node, start); start is set once all children are read
    while waiting:
        node, start = waiting.pop()
        if node.word is not None:
            if leaf < len(counts):
                position += counts[leaf]
            leaf += 1
        elif start is None:
            waiting.append((node, position))
            waiting += ((child, None) for child in reversed(node.children))
        elif start < position and node.label not in ROOTS:
            constituents[_EQUAL.get(node.label, node.label), start, position] += 1
    if leaf != len(counts):
        raise ValueError(f"the trees have {leaf} and {len(counts)} tokens")
    return constituents


def measures(gold: int, predicted: int, correct: int) -> dict[str, float]:
    """Precision, recall, F1 and counts. As in conlleval, a measure with denominator 0 is 0."""
    return {
        "precision": correct / predicted if predicted else 0.0,
        "recall": correct / gold if gold else 0.0,
        "f1": 2 * correct / (gold + predicted) if correct else 0.0,
        "gold": gold,
        "predicted": predicted,
        "correct": correct,
    }
