"""Witness: brackets listed by hand, as evalb with COLLINS.prm would list them."""

from __future__ import annotations

from collections import Counter

import pytest

from phrasemt.syntax.trees import BracketScores, brackets, parse_tree

GOLD = "(S (`` 0) (NP (DT 1) (NN 2)) (VP (VBZ 3) (PRT (RP 4)) (NP (NN 5))) (. 6))"
PARSE = "(S (`` 0) (NP (DT 1) (NN 2)) (VP (VBZ 3) (ADVP (RB 4) (NP (NN 5)))) (. 6))"


def test_brackets_by_hand() -> None:
    kept = [False, True, True, True, True, True, False]
    # Without the quotation mark and the full stop the tokens are: 1->0, 2->1, 3->2, 4->3, 5->4.
    assert brackets(parse_tree(GOLD), kept) == Counter(
        [("S", 0, 5), ("NP", 0, 2), ("VP", 2, 5), ("ADVP", 3, 4), ("NP", 4, 5)]
    )
    assert brackets(parse_tree(PARSE), kept) == Counter(
        [("S", 0, 5), ("NP", 0, 2), ("VP", 2, 5), ("ADVP", 3, 5), ("NP", 4, 5)]
    )


def test_scores_by_hand() -> None:
    scores = BracketScores()
    scores.add(parse_tree(GOLD), parse_tree(PARSE))
    assert scores.as_dict() == {"f1": 0.8, "precision": 0.8, "recall": 0.8, "exact": 0.0, "sentences": 1}
    scores.add(parse_tree(GOLD), None)  # a failed parse: five brackets are not found
    assert scores.as_dict() == {"f1": 8 / 15, "precision": 0.8, "recall": 0.4, "exact": 0.0, "sentences": 2}
    scores.add(parse_tree(GOLD), parse_tree(GOLD))
    assert scores.exact == 1


def test_the_same_bracket_twice_counts_twice() -> None:
    unary = parse_tree("(NP (NP (NN 0)))")
    assert brackets(unary, [True]) == Counter({("NP", 0, 1): 2})
    scores = BracketScores()
    scores.add(unary, parse_tree("(NP (NN 0))"))
    assert (scores.gold, scores.predicted, scores.correct) == (2, 1, 1)


def test_punctuation_is_that_of_the_reference() -> None:
    scores = BracketScores()
    scores.add(parse_tree("(S (NP (NN 0)) (, 1))"), parse_tree("(S (NP (NN 0)) (NN 1))"))
    assert scores.f1 == 1
    scores = BracketScores()
    scores.add(parse_tree("(S (NP (NN 0)) (PRN (, 1)))"), parse_tree("(S (NP (NN 0)) (PRN (, 1)))"))
    assert (scores.gold, scores.predicted) == (2, 2)  # nothing of PRN is left


def test_roots_are_no_constituents() -> None:
    scores = BracketScores()
    scores.add(parse_tree("(ROOT (CD 0))"), parse_tree("(NP (CD 0))"))
    assert (scores.gold, scores.predicted, scores.f1) == (0, 1, 0.0)


def test_nothing_is_no_division_by_zero() -> None:
    assert BracketScores().as_dict() == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "exact": 0.0, "sentences": 0}


@pytest.mark.parametrize("text", ["(S (A 0))", "(S (A 0) (B 1) (C 2))"])
def test_trees_over_other_tokens_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"the trees have \d and 2 tokens"):
        BracketScores().add(parse_tree("(S (A 0) (B 1))"), parse_tree(text))
