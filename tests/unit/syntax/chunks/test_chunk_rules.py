"""Witnesses: the gold chunks of the demo corpus, which its grammar makes without looking at trees; sentences of the
CoNLL-2000 shared task's description and of its data's kind, tagged by hand.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from democorpus.pairs import demo_pairs
from phrasemt.syntax.chunks.conll import TAGS, chunk_scores
from phrasemt.syntax.chunks.rules import chunk_tags
from phrasemt.syntax.trees import Tree, leaves, words


def tree_of(text: str) -> Tree:
    """A tree written with its words."""
    pieces = re.findall(r"\((\S+)|([^\s()]+)|(\))", text)
    open_nodes: list[tuple[str, list]] = [("", [])]
    for label, word, _ in pieces:
        if label:
            open_nodes.append((label, []))
        elif word:
            open_nodes[-1][1].append(word)
        else:
            name, content = open_nodes.pop()
            leaf = isinstance(content[0], str)
            open_nodes[-1][1].append(Tree(name, word=content[0]) if leaf else Tree(name, tuple(content)))
    return open_nodes[0][1][0]


CASES = {
    "possessive": (
        "(S (NP (NP (NNP Smith) (POS 's)) (JJ old) (NN house)) (VP (VBD burned)) (. .))",
        "[NP Smith ] [NP 's old house ] [VP burned ] .",
    ),
    "possessive without a phrase of its own": ("(NP (NNP Smith) (POS 's) (NN house))", "[NP Smith ] [NP 's house ]"),
    "verb group through nested phrases, infinitive and adverb": (
        "(S (NP (PRP They)) (VP (MD would) (RB not) (VP (VB want) (S (VP (TO to) (ADVP (RB really)) (VP (VB go))))"
        " (ADVP (RB home)))))",
        "[NP They ] [VP would not want to really go ] [ADVP home ]",
    ),
    "coordinated verb phrases": (
        "(S (NP (NNS Dogs)) (VP (VP (VBP bark)) (CC and) (VP (VBP bite) (NP (NNS men)))))",
        "[NP Dogs ] [VP bark ] and [VP bite ] [NP men ]",
    ),
    "a clause with a subject is no part of the group": (
        "(S (NP (PRP I)) (VP (VBP want) (S (NP (PRP him)) (VP (TO to) (VP (VB go))))))",
        "[NP I ] [VP want ] [NP him ] [VP to go ]",
    ),
    "not after the verb": (
        "(S (NP (PRP It)) (VP (VBZ is) (RB not) (ADJP (RB very) (JJ good))))",
        "[NP It ] [VP is ] not [ADJP very good ]",
    ),
    "flat and other coordination": (
        "(NP (NP (NNS cats) (CC and) (NNS dogs)) (, ,) (NP (DT a) (NN cow)) (CC or) (NP (NNS pigs)))",
        "[NP cats and dogs ] , [NP a cow ] or [NP pigs ]",
    ),
    "number phrase in a noun phrase, phrase after the head": (
        "(NP (NP (QP (RB about) (CD 20)) (NN %)) (PP (IN of) (NP (DT the) (NN sum))))",
        "[NP about 20 % ] [PP of ] [NP the sum ]",
    ),
    "prepositions of several words": ("(PP (IN because) (IN of) (NP (NN rain)))", "[PP because of ] [NP rain ]"),
    "subordinate clauses and relative pronouns": (
        "(SBAR (WHNP (WP who)) (S (VP (VBD said) (SBAR (IN that) (S (NP (PRP he)) (VP (VBD left)))))))",
        "[NP who ] [VP said ] [SBAR that ] [NP he ] [VP left ]",
    ),
    "particle": ("(VP (VB give) (PRT (RP up)) (NP (PRP it)))", "[VP give ] [PRT up ] [NP it ]"),
    "undecided label": ("(VP (VB give) (PRT|ADVP (RP up)))", "[VP give ] [PRT up ]"),
    "punctuation at edges": ("(NP (`` ``) (NN peace) ('' ''))", "`` [NP peace ] ''"),
    "one word": ("(ROOT (NN dog))", "[NP dog ]"),
    "one word that is no chunk": ("(ROOT (. .))", "."),
}


@pytest.mark.parametrize("case", CASES)
def test_by_hand(case):
    text, brackets = CASES[case]
    tokens, tags, type_ = [], [], ""
    for piece in brackets.split(" "):
        if piece == "]":
            type_ = ""
        elif piece.startswith("["):
            type_ = f"B-{piece[1:]}"
        else:
            tokens.append(piece)
            tags.append(type_ or "O")
            type_ = type_.replace("B-", "I-")
    tree = tree_of(text)
    assert words(tree) == tokens
    assert chunk_tags(tree, tokens) == tags


def test_agreement_with_the_demo_corpus():
    """All that differs: an infinitive after another verb, which CoNLL-2000 has in one chunk with it, and "not" after
    the last verb, which it has in none.
    """
    pairs = list(demo_pairs(split="dev", pairs=600, seed=3))
    given = [chunk_tags(tree_of(pair.tree), pair.source_tokens) for pair in pairs]
    scores = chunk_scores([pair.source_chunks for pair in pairs], given).as_dict()
    assert scores["f1"] > 0.98
    assert all(measures["f1"] == 1 for type_, measures in scores["types"].items() if type_ != "VP")
    for pair, tags in zip(pairs, given, strict=True):
        for word, gold, tag in zip(pair.source_tokens, pair.source_chunks, tags, strict=True):
            assert tag == gold or (word, gold, tag) in (("to", "B-VP", "I-VP"), ("not", "I-VP", "O"))


LABELS = st.sampled_from(
    "S NP VP PP SBAR ADVP ADJP QP PRT CONJP INTJ UCP WHNP WHPP PRN FRAG X ROOT PRT|ADVP NML SINV".split()  # noqa: SIM905
)
PARTS_OF_SPEECH = st.sampled_from("NN NNP DT JJ RB VB VBZ MD TO IN CC CD POS , . `` -LRB- RP UH WP PRP$ $ FW".split())  # noqa: SIM905
TREES = st.recursive(
    st.builds(Tree, PARTS_OF_SPEECH, word=st.sampled_from(["not", "n't", "a"])),
    lambda trees: st.builds(Tree, LABELS, st.lists(trees, min_size=1, max_size=5).map(tuple)),
    max_leaves=25,
)


@settings(max_examples=300)
@given(tree=TREES)
def test_any_tree_gives_valid_tags(tree):
    """A known tag for each token, I- only after a token of the same type, no chunk that begins or ends in a comma."""
    tokens = words(tree)
    tags = chunk_tags(tree, tokens)
    assert len(tags) == len(tokens)
    assert set(tags) <= TAGS
    for before, tag, leaf in zip(["O", *tags], tags, leaves(tree), strict=False):
        if tag.startswith("I-"):
            assert before[2:] == tag[2:]
        if tag.startswith("B-"):
            assert leaf.label not in (",", ".", "``", "-LRB-")
