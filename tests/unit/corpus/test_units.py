"""Multiword units and long sentences of the demonstration corpus: sentences translated by hand, and what must hold."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

from democorpus import lexicon, long, units
from democorpus.english import EnglishSentence
from democorpus.german import GermanSentence
from democorpus.grammar import Clause, LongSentence, Name, NounPhrase, Relative, Sentence
from democorpus.pairs import DemoPair, demo_pairs, detokenise
from democorpus.sampling import Sampler
from phrasemt.artefacts.corpus import Contrasts
from phrasemt.corpus.contrastive_pairs import generate_demo
from phrasemt.errors import DataError
from phrasemt.files.lines import write_lines
from phrasemt.stages.corpus import GenerateDemo
from phrasemt.syntax.trees import read_treebank, words


@pytest.fixture(scope="module")
def split() -> list[DemoPair]:
    return [*demo_pairs(split="test", pairs=1200, seed=1, multiword_units=True)]


@pytest.fixture(scope="module")
def of_units(split: list[DemoPair]) -> list[DemoPair]:
    return [pair for pair in split if pair.contrast]


def test_each_reading_has_its_frequency_in_train() -> None:
    found = Counter((unit.english, unit.kind, reading) for unit, reading in units.occurrences("train"))
    assert len(found) == 2 * 66
    assert sorted(Counter(found.values()).items()) == [(2, 44), (8, 44), (32, 44)]
    assert Counter(unit.kind for unit in units.units()) == {"particle_verb": 24, "idiom": 24, "compound": 18}


def test_the_splits_keep_the_sentences_of_the_stream(split: list[DemoPair], of_units: list[DemoPair]) -> None:
    """But for those with words of units, and without contrasts; sentences of units stand at even distances."""
    stream = [
        replace(pair, contrast=None)
        for pair in demo_pairs(split="test", pairs=200, seed=1)
        if not units.is_taken(pair.source_tokens)
    ]
    others = [pair for pair in split if pair not in of_units]
    assert others == stream[: len(others)]
    assert len(of_units) == 8 * 2 * 66
    assert len({pair.source for pair in split}) == 1200
    places = [place for place, pair in enumerate(split) if pair in others]
    assert {later - place for place, later in itertools.pairwise(places)} <= {8, 9}


@pytest.mark.parametrize(("pairs", "is_enough"), [(132, True), (131, False)])
def test_the_stage_writes_the_kinds_of_contrasts(pairs: int, is_enough: bool, tmp_path: Path) -> None:
    settings = GenerateDemo(split="dev", pairs=pairs, seed=1, multiword_units=True, long_sentences=False)
    files = {name: tmp_path / name for name in ("source", "target", "trees", "source_chunks", "target_chunks")}
    contrasts = tmp_path / "contrasts"
    if not is_enough:
        with pytest.raises(DataError, match=r"dev has 131 pairs, but .* need 132.*give the split more pairs"):
            generate_demo(settings=settings, cores=1, contrasts=contrasts, **files)
        assert not any(tmp_path.iterdir())
        return
    generate_demo(settings=settings, cores=1, contrasts=contrasts, **files)
    rows, found = Contrasts.read(contrasts)
    assert rows == list(range(132))
    assert Counter(pair.kind for pair in found)["idiom_8_literal"] == 8
    assert {*Counter(pair.cluster for pair in found).values()} == {2}


def test_objects_and_verbs_of_the_readings_are_apart() -> None:
    """What decides the reading never stands with the other one."""
    for row in units._SECTIONS["particle_verb"]:
        assert (row[2] == "-") != (row[5] == "-") or not set(row[2].split()) & set(row[5].split())
    for row in units._SECTIONS["idiom_with_gap"]:
        assert not set(row[2].split()) & set(row[5].split())
        assert "p" not in row[5].split()
    for *_, kind in units._SECTIONS["compound"]:
        for other in set("pxtfa") - {kind}:
            assert not set(units._contexts(kind, other)) & set(units._contexts(other, kind))


def test_readings_differ_in_german_and_trees_fit(of_units: list[DemoPair], tmp_path: Path) -> None:
    english, german = MosesTokenizer("en"), MosesTokenizer("de")
    write_lines(tmp_path / "trees", (pair.tree for pair in of_units))
    for pair, tree in zip(of_units, read_treebank(tmp_path / "trees"), strict=True):
        assert pair.contrast is not None
        assert pair.contrast.wrong != pair.target
        assert tuple(words(tree)) == pair.source_tokens
        assert tuple(english.tokenize(pair.source, escape=True)) == pair.source_tokens
        assert tuple(german.tokenize(pair.target, escape=True)) == pair.target_tokens
        assert len(pair.target_chunks) == len(pair.target_tokens)


def sentence(english: str, reading: units.Reading, **parts: object) -> tuple[str, str, str]:
    """A sentence of a unit in the past whose subject is Anna, with these parts in place of drawn ones."""
    (unit,) = (one for one in units.units() if one.english == english)
    sampler = Sampler(random.Random(1), (0.0, 0.0, 0.0))
    frame = Clause(lexicon.VERBS["intransitive"][0], tense="past")
    clauses = unit.clauses(sampler, reading, frame)
    assert clauses is not None
    source, right, wrong = (Sentence(clause._replace(subject=ANNA, **parts)) for clause in clauses)
    tokens = EnglishSentence(source).tokens, GermanSentence(right).tokens, GermanSentence(wrong).tokens
    return tuple(map(detokenise, tokens))


ANNA, PAUL = Name(("Anna",), ("Anna",), female=True), Name(("Paul",), ("Paul",))
BALL, VILLAGE = (
    NounPhrase(next(noun for noun in lexicon.NOUNS[kind] if noun.english[0] == english), lexicon.THE)
    for kind, english in (("t", "ball"), ("l", "village"))
)


@pytest.mark.parametrize(
    ("unit", "reading", "parts", "expected"),
    [
        ("kick the bucket", "idiomatic", {}, "Anna kicked the bucket.|Anna biss ins Gras.|Anna trat gegen den Eimer."),
        (
            "wipe out",
            "idiomatic",
            {"object": VILLAGE, "particle_last": True},
            "Anna wiped the village out.|Anna vernichtete das Dorf.|Anna wischte das Dorf aus.",
        ),
        (
            "throw under the bus",
            "literal",
            {"object": BALL},
            "Anna threw the ball under the bus.|Anna warf den Ball unter den Bus.|Anna lieferte den Ball ans Messer.",
        ),
        (
            "take to the cleaners",
            "idiomatic",
            {"object": PAUL, "tense": "perfect"},
            "Anna has taken Paul to the cleaners.|Anna hat Paul ausgenommen.|Anna hat Paul in die Reinigung gebracht.",
        ),
    ],
)
def test_readings_by_hand(unit: str, reading: units.Reading, parts: dict[str, object], expected: str) -> None:
    assert "|".join(sentence(unit, reading, **parts)) == expected


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
