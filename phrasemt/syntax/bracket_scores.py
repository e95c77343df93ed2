"""Labelled bracket F1 of parses, by the rules of Collins as `evalb` with COLLINS.prm applies them.

Punctuation is taken out before constituents are compared, PRT counts as ADVP, and the root is no constituent. Which
tokens are punctuation is decided by the tags of the reference, so that a wrong tag moves no other bracket.

Stanza leaves these scores to CoreNLP, in Java, and NLTK has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from phrasemt.syntax.trees import Tree, leaves

PUNCTUATION = frozenset([",", ":", "``", "''", ".", "-NONE-"])
_EQUAL = {"PRT": "ADVP"}
_ROOTS = frozenset(["ROOT", "TOP", "S1", ""])

Bracket = tuple[str, int, int]  # label, first token, token after the last; punctuation does not count


@dataclass
class BracketScores:
    """Constituents and sentences counted: of the reference, of the parses, and those that agree."""

    gold: int = 0
    predicted: int = 0
    correct: int = 0
    sentences: int = 0
    exact: int = 0

    def add(self, gold: Tree, predicted: Tree | None) -> None:
        """Count a sentence; None is a parse that failed. Raises ValueError for trees over unequal numbers of tokens."""
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
        return 2 * self.correct / (self.gold + self.predicted) if self.correct else 0.0

    def as_dict(self) -> dict[str, float]:
        """Shares from 0 to 1, and the number of sentences."""
        return {
            "f1": self.f1,
            "precision": self.correct / self.predicted if self.predicted else 0.0,
            "recall": self.correct / self.gold if self.gold else 0.0,
            "exact": self.exact / self.sentences if self.sentences else 0.0,
            "sentences": self.sentences,
        }


def brackets(tree: Tree, kept: Sequence[bool]) -> Counter[Bracket]:
    """The constituents over the tokens that are kept; one that is left without tokens vanishes.

    Raises ValueError when `kept` is not about as many tokens as the tree has.
    """
    found: Counter[Bracket] = Counter()
    leaf = position = 0
    waiting: list[tuple[Tree, int | None]] = [(tree, None)]  # with its first token: all below it has been seen
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
        raise ValueError(f"a tree over {leaf} tokens to be compared over {len(kept)}")
    return found
