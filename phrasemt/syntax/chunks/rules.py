"""Chunks like those of CoNLL-2000, computed by rules from English constituency trees (labels of the Penn Treebank).

A chunk is a phrase from its beginning to its head, without embedded phrases that have their own head. Noun phrases end
at the last noun, adjective and adverb phrases at the last word. The chunk of a prepositional phrase or a subordinate
clause is its preposition or conjunction. A verb group extends over nested verb phrases and over clauses without a
subject ("wanted to go"). A possessive 's begins the chunk of the possessed noun. Conjunctions and punctuation between
chunks are outside of all chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from phrasemt.syntax.trees import Tree, leaves

_PUNCTUATION = {",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP"}
_NOT = {"not", "n't"}
# Phrases that belong to the chunk of a noun phrase when they precede its head. Other phrases become separate chunks.
_PREMODIFIERS = {
    "ADJP", "ADVP", "CONJP", "INTJ", "JJP", "NAC", "NML", "NX", "PRT", "QP", "UCP", "WHADJP", "WHADVP", "X"
}  # fmt: skip
_NOMINAL = {"NAC", "NML", "NX", "QP"}
_CLAUSAL = {"PP", "S", "SBAR", "SINV", "VP"}
_AFTER_CONJUNCTION = {"FRAG", "S", "SINV", "SQ", "WHADVP", "WHNP", "WHPP"}
# Chunk type of a word without a phrase of its own, by the beginning of its tag.
_LONE_WORDS = {
    **dict.fromkeys(["NN", "CD", "PRP"], "NP"),
    **dict.fromkeys(["VB", "MD"], "VP"),
    **{"RB": "ADVP", "JJ": "ADJP", "RP": "PRT", "UH": "INTJ"},
}


def chunk_tags(tree: Tree, words: Sequence[str]) -> list[str]:
    """The chunk tags (B-NP, I-NP, O) of the tokens of a tree. words: the tokens; stored trees only number them."""
    rules = _Rules([leaf.label for leaf in leaves(tree)], [word.lower() for word in words])
    rules.visit(_with_spans(tree, 0))
    return rules.tags()


@dataclass(frozen=True, slots=True)
class _Node:
    """A tree with the span of its tokens. A part of speech has no children."""

    label: str
    start: int
    end: int
    children: tuple[_Node, ...]

    @property
    def is_word(self) -> bool:
        return not self.children

    @property
    def is_verb(self) -> bool:
        return self.is_word and self.label.startswith(("VB", "MD", "TO"))

    @property
    def is_punctuation(self) -> bool:
        return self.is_word and self.label in _PUNCTUATION

    def contains(self, labels: Collection[str]) -> bool:
        """Whether a phrase below has one of these labels."""
        return any(not child.is_word and (child.label in labels or child.contains(labels)) for child in self.children)


def _with_spans(tree: Tree, start: int) -> _Node:
    label = tree.label.split("|")[0]  # an ambiguous label like ADVP|PRT has the more likely one first
    if tree.word is not None:
        return _Node(label, start, start + 1, ())
    children = []
    end = start
    for child in tree.children:
        children.append(_with_spans(child, end))
        end = children[-1].end
    return _Node(label, start, end, tuple(children))


class _Rules:
    """Walks a tree from the top and marks chunks. Later marks replace earlier ones. labels, words: of the tokens."""

    def __init__(self, labels: Sequence[str], words: Sequence[str]) -> None:
        self._labels, self._words = labels, words
        self._types = ["O"] * len(labels)
        self._numbers = [0] * len(labels)  # number of the chunk of each token
        self._count = itertools.count(1)
        self._rules: Mapping[str, Callable[[_Node], None]] = {
            **dict.fromkeys(["NP", "WHNP", "NX", "NAC", "NML", "QP"], self._noun_phrase),
            **dict.fromkeys(["VP"], self._verb_phrase),
            **dict.fromkeys(["PP", "WHPP"], self._preposition),
            **dict.fromkeys(["SBAR"], self._conjunction),
            **dict.fromkeys(["ADVP", "WHADVP"], lambda node: self._modifier(node, "ADVP")),
            **dict.fromkeys(["ADJP", "WHADJP", "JJP"], lambda node: self._modifier(node, "ADJP")),
            **dict.fromkeys(["CONJP", "INTJ", "LST", "PRT"], lambda node: self._mark(node.label, node.start, node.end)),
        }

    def tags(self) -> list[str]:
        numbers = [0, *self._numbers]
        return [
            type_ if type_ == "O" else f"{'I' if number == before else 'B'}-{type_}"
            for type_, (before, number) in zip(self._types, itertools.pairwise(numbers), strict=True)
        ]

    def visit(self, node: _Node) -> None:
        if node.is_word:
            if type_ := _lone_type(node):
                self._mark(type_, node.start, node.end)
        else:
            self._rules.get(node.label, self._clause)(node)

    def _visit_all(self, nodes: Iterable[_Node]) -> None:
        for node in nodes:
            self.visit(node)

    def _mark(self, type_: str, start: int, end: int) -> None:
        """Mark a chunk without the punctuation at its edges."""
        while start < end and self._labels[start] in _PUNCTUATION:
            start += 1
        while start < end and self._labels[end - 1] in _PUNCTUATION:
            end -= 1
        number = next(self._count)
        for token in range(start, end):
            self._types[token], self._numbers[token] = type_, number

    def _clause(self, node: _Node) -> None:
        for child in node.children:
            if child.is_word and child.label == "IN":
                self._mark("SBAR" if node.label.startswith("S") else "PP", child.start, child.end)
            else:
                self.visit(child)

    def _noun_phrase(self, node: _Node) -> None:
        children = node.children
        head = _last(children, lambda child: child.label in _NOMINAL if not child.is_word else _can_end_a_chunk(child))
        if head is None or children[head].contains(_CLAUSAL):
            self._visit_all(children)
            return
        first = self._visit_around(children, head, self._is_premodifier)
        start = children[first].start
        if first and self._is_possessive(children[first - 1]):
            start -= 1  # its 's
        self._mark_nouns(start, children[head].end)

    def _visit_around(self, children: Sequence[_Node], head: int, belongs: Callable[[_Node], bool]) -> int:
        """Visit the children before and after the chunk that ends at the head; returns the first child of the chunk.

        belongs: whether a child directly before the rest of the chunk is part of it.
        """
        first = head
        while first and belongs(children[first - 1]):
            first -= 1
        self._visit_all([*children[:first], *children[head + 1 :]])
        return first

    def _mark_nouns(self, start: int, end: int) -> None:
        """Mark a noun phrase; each possessive begins a new chunk."""
        for token in range(start + 1, end):
            if self._labels[token] == "POS":
                self._mark("NP", start, token)
                start = token
        self._mark("NP", start, end)

    def _is_premodifier(self, node: _Node) -> bool:
        if node.is_word:
            return True
        return node.label in _PREMODIFIERS and not node.contains({*_CLAUSAL, "NP"}) and not self._is_possessive(node)

    def _is_possessive(self, node: _Node) -> bool:
        return not node.is_word and self._labels[node.end - 1] == "POS"

    def _preposition(self, node: _Node) -> None:
        self._mark_function_word(node, "PP", _first_preposition(node.children))

    def _conjunction(self, node: _Node) -> None:
        before = list(itertools.takewhile(lambda child: child.label not in _AFTER_CONJUNCTION, node.children))
        head = _last(
            before, lambda child: child.is_word and child.label in ("IN", "DT", "RB", "TO", "NN", "VBG", "VBN")
        )
        self._mark_function_word(node, "SBAR", head)

    def _mark_function_word(self, node: _Node, type_: str, head: int | None) -> None:
        """Mark the head with the words and adverbs directly before it, and visit the rest of the phrase."""
        children = node.children
        if head is None:
            self._visit_all(children)
            return
        first = self._visit_around(children, head, _goes_with_function_word)
        self._mark(type_, children[first].start, children[head].end)
        for child in children[head + 1 :]:
            if child.is_word and child.label == "IN":
                self._mark("PP", child.start, child.end)

    def _modifier(self, node: _Node, type_: str) -> None:
        """An adjective or adverb phrase."""
        children = node.children
        head = _last(children, _can_end_a_chunk)
        if head is None:
            self._visit_all(children)
            return
        first = self._visit_around(children, head, self._is_premodifier)
        self._mark(type_, children[first].start, children[head].end)

    def _verb_phrase(self, node: _Node) -> None:
        self._end_group(self._extend_group(node, []))

    def _extend_group(self, node: _Node, group: list[_Node]) -> list[_Node]:
        """Visit a verb phrase with the open verb group; returns the group that is open at the end of the phrase."""
        children = node.children
        coordinated = sum(child.label == "VP" for child in children) > 1
        for number, child in enumerate(children):
            before_verb = any(following.is_verb for following in children[number + 1 : number + 3])
            if _goes_with_verbs(child) or (child.label == "CC" and group and before_verb):
                group.append(child)
            elif child.label == "VP":
                group = self._extend_group(child, group)
                if coordinated:
                    group = self._end_group(group)
            elif child.label == "S" and group and _has_no_subject(child):
                group = self._extend_group(child, group)
            else:
                group = self._end_group(group)
                self.visit(child)
        return group

    def _end_group(self, group: list[_Node]) -> list[_Node]:
        """Mark a verb group. Adverbs after its last verb are separate chunks; "not" is then outside of all chunks."""
        last = _last(group, lambda node: node.is_verb)
        verbs = 0 if last is None else last + 1
        if verbs:
            self._mark("VP", group[0].start, group[verbs - 1].end)
        for node in group[verbs:]:
            if not (node.is_word and self._words[node.start] in _NOT):
                self.visit(node)
        return []


def _last(nodes: Sequence[_Node], condition: Callable[[_Node], bool]) -> int | None:
    return next((number for number in reversed(range(len(nodes))) if condition(nodes[number])), None)


def _lone_type(node: _Node) -> str | None:
    return next((type_ for start, type_ in _LONE_WORDS.items() if node.label.startswith(start)), None)


def _can_end_a_chunk(node: _Node) -> bool:
    return node.is_word and node.label not in _PUNCTUATION and node.label != "CC"


def _first_preposition(children: Sequence[_Node]) -> int | None:
    """The last word of the first run of words that may form a preposition ("because of", "according to")."""
    head = None
    for number, child in enumerate(children):
        if child.is_word and child.label in ("IN", "TO", "VBG", "VBN", "RP", "JJ", "RB", "VBD", "FW", "NN", "CC"):
            head = number
        elif head is not None:
            break
    return head


def _goes_with_function_word(node: _Node) -> bool:
    return _can_end_a_chunk(node) or _is_plain_adverb(node)


def _goes_with_verbs(node: _Node) -> bool:
    return node.is_verb or (node.is_word and node.label.startswith("RB")) or _is_plain_adverb(node)


def _is_plain_adverb(node: _Node) -> bool:
    return not node.is_word and node.label == "ADVP" and not node.contains({*_CLAUSAL, "NP"})


def _has_no_subject(clause: _Node) -> bool:
    """Whether a clause begins with its verb phrase, not counting adverbs and punctuation."""
    labels = [child.label for child in clause.children if not child.is_punctuation]
    return labels[:1] == ["VP"] or labels[:2] == ["ADVP", "VP"]
