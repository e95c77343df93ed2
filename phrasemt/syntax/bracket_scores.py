"""Labelled bracket F1 of parses by the rules of Collins, as in `evalb` with COLLINS.prm.

Punctuation is removed before constituents are compared, PRT counts as ADVP, and the root is not a constituent. The tags
of the reference decide which tokens are punctuation, so a wrong predicted tag does not shift other brackets.

Stanza computes these scores with CoreNLP, in Java; NLTK does not have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from phrasemt.syntax.chunks.conll import measures
from phrasemt.syntax.trees import Tree, leaves

PUNCTUATION = frozenset([",", ":", "``", "''", ".", "-NONE-"])
_EQUAL = {"PRT": "ADVP"}
_ROOTS = frozenset(["ROOT", "TOP", "S1", ""])

Bracket = tuple[str, int, int]  # label, first token, token after the last; punctuation does not count


@dataclass
class BracketScores:
    """Numbers of constituents in the references, in the parses and in both, and numbers of sentences.

    exact: number of sentences whose parse equals the reference.
    """

    gold: int = 0
    predicted: int = 0
    correct: int = 0
    sentences: int = 0
    exact: int = 0

    def add(self, gold: Tree, predicted: Tree | None) -> None:
        """Add a sentence. predicted: None if parsing failed. Raises ValueError if the numbers of tokens differ."""
        kept = [leaf.label not in PUNCTUATION for leaf in leaves(gold)]
        reference = brackets(gold, kept)
        judged = brackets(predicted, kept) if predicted else Counter[Bracket]()
        self.gold += reference.total()
        self.predicted += judged.total()
        self.correct += (reference & judged).total()
        self.sentences += 1
        self.exact += predicted is not None and reference == judged

    @property
    def f1(self) -> float:
        return measures(self.gold, self.predicted, self.correct)["f1"]

    def as_dict(self) -> dict[str, float]:
        """F1, precision, recall and exact match as shares from 0 to 1, and the number of sentences."""
        overall = measures(self.gold, self.predicted, self.correct)
        return {
            **{name: overall[name] for name in ("f1", "precision", "recall")},
            "exact": self.exact / self.sentences if self.sentences else 0.0,
            "sentences": self.sentences,
        }


def brackets(tree: Tree, kept: Sequence[bool]) -> Counter[Bracket]:
    """The constituents of a tree after the removal of tokens. kept: False for each removed token.

    A constituent without kept tokens is left out. Raises ValueError if `kept` and the tree have different lengths.
    """
    found: Counter[Bracket] = Counter()
    leaf = position = 0
    waiting: list[tuple[Tree, int | None]] = [(tree, None)]  # (node, start); start is set once all children are read
    while waiting:
        node, start = waiting.pop()
        if node.word is not None:
            if leaf < len(kept):
                position += kept[leaf]
            leaf += 1
        elif start is None:
            waiting.append((node, position))
            waiting += ((child, None) for child in reversed(node.children))
        elif start < position and node.label not in _ROOTS:
            found[_EQUAL.get(node.label, node.label), start, position] += 1
    if leaf != len(kept):
        raise ValueError(f"the trees have {leaf} and {len(kept)} tokens")
    return found
