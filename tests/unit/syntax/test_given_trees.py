"""Trees of another parser: found by the tokens of a sentence, whatever their order and their escapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemt.artefacts.syntax import Card
from phrasemt.errors import DataError
from phrasemt.files.lines import write_lines
from phrasemt.stages.syntax import AnnotateSentences, CollectTrees
from phrasemt.syntax.annotate import parse_sentences
from phrasemt.syntax.annotations import Annotation, Annotations, parser_tokens, sentence_key
from phrasemt.syntax.given_annotators import collect_trees

TREES = """\
(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))
(S (NP (NN Tom)) (VP (VBZ &apos;s) (ADJP (JJ old))))

(TOP (NP
  (-LRB- -LRB-) (NN x)
  (-RRB- -RRB-)))
(S (NP (NN Tom)) (VP (VBZ 's) (NP (JJ old))))
(NP (NN can) (RB not))
"""
LINES = ["Tom &apos;s old", "( x )", "the dog barks .", "", "the dog barks .", *(f"word{n}" for n in range(20))]


def collect(folder: Path, trees: str) -> Path:
    (folder / "given.mrg").write_text(trees, encoding="utf-8")
    collect_trees(
        settings=CollectTrees(language="en"),
        cores=1,
        files=[folder / "given.mrg"],
        trees=folder / "trees.arrow",
        annotator=folder / "annotator.json",
    )
    return folder / "annotator.json"


def parse(folder: Path, card: Path, lines: list[str]) -> Annotations:
    write_lines(folder / "tokens", lines)
    parse_sentences(
        settings=AnnotateSentences(job=0, jobs=1),
        cores=1,
        tokens=folder / "tokens",
        annotator=card,
        annotations=folder / "parses.arrow",
        cache=folder / "cache",
    )
    return Annotations([folder / "parses.arrow"])


def found(annotations: Annotations, *lines: str) -> list[Annotation | None]:
    return annotations.find([sentence_key(parser_tokens(line)) for line in lines])


def test_sentences_find_their_trees(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    words = "".join(f"(NP (NN word{number}))\n" for number in range(19))
    card = collect(tmp_path, TREES + words)
    assert found(parse(tmp_path, card, LINES), *LINES[:3], "word19") == [
        Annotation("(S (NP (NN 0)) (VP (VBZ 1) (ADJP (JJ 2))))", None),
        Annotation("(NP (-LRB- 0) (NN 1) (-RRB- 2))", None),
        Annotation("(S (NP (DT 0) (NN 1)) (VP (VBZ 2)) (. 3))", None),
        Annotation(None, "no tree was given"),
    ]
    assert "warning: sentences without a tree: 1, such as 'word19'" in caplog.text


def test_other_trees_are_another_parser(tmp_path: Path) -> None:
    """The store keeps what one file of trees says apart from what the next one says, and so do reruns."""
    first = Card.read(collect(tmp_path, TREES)).fingerprint
    card = collect(tmp_path, TREES.replace("(VP (VBZ barks))", "(VBZ barks)"))
    assert Card.read(card).fingerprint != first
    assert found(parse(tmp_path, card, LINES[:3]), LINES[2]) == [
        Annotation("(S (NP (DT 0) (NN 1)) (VBZ 2) (. 3))", None)
    ]


def test_too_many_sentences_without_trees(tmp_path: Path) -> None:
    card = collect(tmp_path, TREES)
    for _ in range(2):  # the second time from the store
        with pytest.raises(DataError, match="at most 10% of 2 sentences, found 1, such as 'cannot'"):
            parse(tmp_path, card, ["Tom &apos;s old", "cannot"])
    assert not (tmp_path / "parses.arrow").exists()


@pytest.mark.parametrize(
    ("trees", "message"), [("", "no trees"), ("(S (NP (NN a))", "a bracket too few"), ("(S (NP ))\n", "without words")]
)
def test_broken_trees(tmp_path: Path, trees: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        collect(tmp_path, trees)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.mrg"]
