"""Long sentences of the demonstration corpus: lengths, agreement across sentences, a sentence translated by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

from democorpus import lexicon, long
from democorpus.english import EnglishSentence
from democorpus.german import GermanSentence
from democorpus.grammar import Clause, LongSentence, NounPhrase, Relative, Sentence
from democorpus.pairs import DemoPair, demo_pairs, detokenise
from phrasemt.files.lines import write_lines
from phrasemt.syntax.trees import read_treebank, words


@pytest.fixture(scope="module")
def pairs() -> list[DemoPair]:
    return [*demo_pairs(split="test", pairs=50, seed=1, long_sentences=True)]


def test_a_block_has_as_many_sentences_of_each_length(pairs: list[DemoPair]) -> None:
    lengths = [len(pair.source_tokens) for pair in pairs]
    for shortest, longest in long.LENGTHS:
        assert sum(shortest <= length <= longest for length in lengths) == 10


def test_trees_tokens_and_contrasts(pairs: list[DemoPair], tmp_path: Path) -> None:
    english, german = MosesTokenizer("en"), MosesTokenizer("de")
    write_lines(tmp_path / "trees", (pair.tree for pair in pairs))
    for pair, tree in zip(pairs, read_treebank(tmp_path / "trees"), strict=True):
        assert tuple(words(tree)) == pair.source_tokens == tuple(english.tokenize(pair.source, escape=True))
        assert tuple(german.tokenize(pair.target, escape=True)) == pair.target_tokens
        assert pair.contrast is not None
        assert pair.contrast.distance > 10
        wrong = german.tokenize(pair.contrast.wrong, escape=True)
        assert sum(one != other for one, other in zip(wrong, pair.target_tokens, strict=True)) == 1


def test_splits_share_no_sentence() -> None:
    sources = [
        {pair.source for pair in demo_pairs(split=split, pairs=10, seed=1, long_sentences=True)}
        for split in ("train", "dev", "test")
    ]
    assert not any(one & other for one, other in itertools.combinations(sources, 2))


def test_an_elided_subject_agrees_over_sentences() -> None:
    (king, dog) = (
        NounPhrase(next(noun for noun in lexicon.NOUNS[kind] if noun.english[0] == english), lexicon.THE)
        for kind, english in (("p", "king"), ("a", "dog"))
    )
    sleep, see = lexicon.VERBS["intransitive"][0], lexicon.VERBS["transitive"][0]
    subject = king._replace(relative=Clause(see, Relative(True, lexicon.MASCULINE), "past", object=dog))
    parts = (
        Sentence(Clause(sleep, subject, "past")),
        Sentence(Clause(see, subject, "past", object=dog._replace(plural=True), is_elided=True)),
    )
    sentence = LongSentence(parts, (long.AND,))
    english, german = EnglishSentence(sentence), GermanSentence(sentence)
    assert detokenise(english.tokens) == "The king who saw the dog slept and saw the dogs."
    assert detokenise(german.tokens) == "Der König, der den Hund sah, schlief und sah die Hunde."
    assert [(one.distance, one.number_is_hidden) for one in english.subjects] == [(5, True), (7, True)]
    assert [(one.wrong, one.distance) for one in german.agreements] == [("sahen", 3), ("schliefen", 7), ("sahen", 9)]
