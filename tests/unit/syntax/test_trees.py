"""Witness: trees written by hand; Stanza's own reader of treebanks; brackets as evalb with COLLINS.prm lists them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from phrasemt.errors import DataError
from phrasemt.syntax.trees import Tree, bracket_scores, brackets, leaves, parse_tree, read_treebank, tree_text, words

LABELS = st.text(st.characters(exclude_characters="() \n", exclude_categories=["Cs"]), min_size=1, max_size=4)
# Anything can be a token: brackets, quotes, Unicode spaces, emoji, -LRB- itself, control characters.
TOKENS = st.one_of(
    st.sampled_from(
        ["(", ")", "-LRB-", "a(b)", '"', "'", "\u00a0", "\u3000", "\u2028", "🙂", "a b", "\n", "\x00", "0"]
    ),
    st.text(min_size=1, max_size=5),
)
TREES = st.recursive(
    st.builds(Tree, LABELS, word=TOKENS),
    lambda trees: st.builds(Tree, LABELS, st.lists(trees, min_size=1, max_size=4).map(tuple)),
    max_leaves=15,
)


@settings(max_examples=200)
@given(tree=TREES)
def test_round_trip(tree):
    """Labels and shape survive whatever the words are; the leaves are their numbers."""
    text = tree_text(tree)
    again = parse_tree(text)
    assert tree_text(again) == text
    assert words(again) == [str(number) for number in range(len(words(tree)))]
    assert [leaf.label for leaf in leaves(again)] == [leaf.label for leaf in leaves(tree)]
    tokens = words(tree)
    assert with_words(again, tokens) == tree


def with_words(tree: Tree, tokens: list[str]) -> Tree:
    if tree.word is not None:
        return Tree(tree.label, word=tokens[int(tree.word)])
    return Tree(tree.label, tuple(with_words(child, tokens) for child in tree.children))


def test_deep_trees():
    """3,000 tokens, each in a bracket of its own."""
    text = " ".join(f"(X (W {number})" for number in range(2999)) + " (W 2999)" + ")" * 2999
    assert tree_text(parse_tree(text)) == text


PENN = r"""
( (S
    (NP-SBJ-1 (NNP Mr.) (NNP O'Neill) )
    (ADVP|PRT (RB up))
    (VP (VBD was)
      (VP (VBN named)
        (S (NP-SBJ (-NONE- *-1) ) (NP-PRD=2 (CD 1\/2) (-LRB- -LRB-) (: --) (-RRB- -RRB-) ($ US$) (-LCB- -LCB-)))))
    (. .) ))
(ROOT (FRAG (NP (NN caf\u00e9))))
(NP (NN dog))
( (CD 5) )
(CD 6)
""".replace("\\u00e9", "\u00e9")


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str) -> list[Tree]:
        (tmp_path / "trees.mrg").write_text(text, encoding="utf-8", newline="\n")
        return list(read_treebank(tmp_path / "trees.mrg"))

    return read


def test_treebank(read):
    trees = read(PENN)
    named = "(VP (VBD 3) (VP (VBN 4) (S (NP (CD 5) (-LRB- 6) (: 7) (-RRB- 8) ($ 9) (-LCB- 10)))))"
    assert [tree_text(tree) for tree in trees] == [
        f"(S (NP (NNP 0) (NNP 1)) (ADVP|PRT (RB 2)) {named} (. 11))",
        "(FRAG (NP (NN 0)))",
        "(NP (NN 0))",
        "(ROOT (CD 0))",
        "(ROOT (CD 0))",
    ]
    assert words(trees[0]) == ["Mr.", "O'Neill", "up", "was", "named", "1/2", "(", "--", ")", "US$", "{", "."]
    assert [words(tree) for tree in trees[1:]] == [["caf\u00e9"], ["dog"], ["5"], ["6"]]


@st.composite
def bracketed(draw, depth: int = 3) -> str:
    """A node in brackets, with function tags, empty elements, escaped brackets and spaces of all kinds."""
    space = draw(st.sampled_from(["", " ", "\n  "]))
    if not depth or draw(st.integers(0, 2)) == 0:
        leaf = draw(st.sampled_from(["NN a", "-NONE- *T*-1", "-LRB- -LRB-", "$*LRB* *RRB*", "# #", "-NONE- *", ", ,"]))
        return f"({leaf}{space})"
    label = draw(st.sampled_from(["NP", "NP-SBJ-1", "NP=2", "NP#3", "ADVP|PRT", "VP"]))
    return f"({label} " + space.join(draw(st.lists(bracketed(depth - 1), min_size=1, max_size=3))) + ")"


@settings(max_examples=300, deadline=None)
@given(
    nodes=st.lists(bracketed(), min_size=1, max_size=3),
    brackets=st.sampled_from(
        ["{}", "( {} )", "(ROOT {})", "(TOP {})", "(TOP (ROOT {}))", "(( {} ))", "(S1\n{})", "( (VROOT {}))"]
    ),
)
def test_like_stanzas_reader(tmp_path_factory, nodes, brackets):
    reader = pytest.importorskip("stanza.models.constituency.tree_reader")
    text = brackets.format("\n".join(nodes))

    def ours(theirs) -> Tree:
        if theirs.is_preterminal():
            return Tree(theirs.label, word=theirs.children[0].label.replace("*RRB*", ")"))
        return Tree(theirs.label, tuple(map(ours, theirs.children)))

    expected = []
    # broken_ok: else Stanza refuses a second bracket without label.
    for theirs in reader.read_trees(text, broken_ok=True, use_tqdm=False):
        pruned = theirs.prune_none()
        assume(pruned is not None)
        tree = ours(pruned.simplify_labels())
        while tree.label in (None, "ROOT", "TOP", "S1", "VROOT") and len(tree.children) == 1:
            (tree,) = tree.children
        rooted = tree.word is not None or tree.label in (None, "ROOT", "TOP", "S1", "VROOT")
        expected.append(Tree("ROOT", tree.children or (tree,)) if rooted else tree)
    path = tmp_path_factory.mktemp("treebank") / "trees"
    path.write_text(text, encoding="utf-8")
    assert list(read_treebank(path)) == expected


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        # In the second of three trees.
        ("(NP (NN a))\n(NP (NN a)\n(NP (NN a))\n", 2, "a bracket too few: 1 open at the end of the file"),
        ("(NP (NN a))\n(NP\n  (NN a)))\n(NP (NN a))\n", 2, "a bracket too many in line 3"),
        ("( (NP (NN a)))\n( (NP\n (NN a))\n( (NP (NN a)))\n", 2, "a bracket without label within a tree in line 4"),
        ("(ROOT (NP (NN a)))\n(ROOT (NP (NN a))\n(ROOT (NP (NN a)))\n", 2, "a bracket with label ROOT within a tree"),
        ("(NP (NN a b))\n", 1, "b not alone in its bracket"),
        ("(NP (NN a) dog)\n", 1, "dog not alone in its bracket"),
        ("(NP (NN a) (NN))\n", 1, "a bracket without words"),
        ("\n(NP (NP (-NONE- *)) (-NONE- *T*-1))\n", 2, "a tree without words"),
        ("\nhello (NP (NN a))\n", 1, "hello outside of all brackets in line 2"),
    ],
)
def test_broken_trees_are_named(read, tmp_path, text, line, problem):
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value).startswith(
        f"{tmp_path / 'trees.mrg'}, line {line}: the tree that begins here is malformed"
    )
    assert problem in str(caught.value)


def test_the_whole_sample_of_the_penn_treebank(shared_data, tmp_path):
    import zipfile

    with zipfile.ZipFile(shared_data / "treebank" / "treebank.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".mrg")]
        (tmp_path / "trees").write_bytes(b"".join(archive.read(name) for name in sorted(names)))
    counts = [len(words(tree)) for tree in read_treebank(tmp_path / "trees")]
    assert (len(counts), sum(counts)) == (3914, 94_084)


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


def scores(*pairs: tuple[str, str | None]) -> dict[str, float]:
    return bracket_scores((parse_tree(gold), parse_tree(parse) if parse else None) for gold, parse in pairs)


def test_scores_by_hand() -> None:
    one = {"gold": 5, "predicted": 5, "correct": 4}
    assert scores((GOLD, PARSE)) == {**one, "f1": 0.8, "precision": 0.8, "recall": 0.8, "exact": 0, "sentences": 1}
    two = {"gold": 10, "predicted": 5, "correct": 4}  # of a failed parse five brackets are not found
    expected = {**two, "f1": 8 / 15, "precision": 0.8, "recall": 0.4, "exact": 0, "sentences": 2}
    assert scores((GOLD, PARSE), (GOLD, None)) == expected
    assert scores((GOLD, PARSE), (GOLD, GOLD))["exact"] == 0.5


def test_punctuation_is_that_of_the_reference() -> None:
    assert scores(("(S (NP (NN 0)) (, 1))", "(S (NP (NN 0)) (NN 1))"))["f1"] == 1
    found = scores(("(S (NP (NN 0)) (PRN (, 1)))", "(S (NP (NN 0)) (PRN (, 1)))"))
    assert (found["gold"], found["predicted"]) == (2, 2)  # nothing of PRN is left


def test_roots_are_no_constituents() -> None:
    found = scores(("(ROOT (CD 0))", "(NP (CD 0))"))
    assert (found["gold"], found["predicted"], found["f1"]) == (0, 1, 0.0)
