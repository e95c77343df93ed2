"""The lexicon of the demonstration corpus: the words of `words` as entries with all forms from `morphology`.

Closed classes are constants. Functions return the open classes, which are read once. Entries are immutable tuples.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from phrasemt.corpus.demo import words as demo_words
from phrasemt.corpus.demo.morphology import (
    ARTICLES,
    DIESER_ENDINGS,
    EIN_ENDINGS,
    FIRST,
    MANY,
    SINGULAR,
    EnglishVerb,
    Finite,
    GermanVerb,
    Table,
    english_s,
    english_verb,
    german_adjective,
    german_noun,
    german_verb,
    inflect,
)


class Noun(NamedTuple):
    """A noun. english: by number; german: by number and case; place: preposition group of a place, else empty."""

    english: tuple[str, str]
    german: Table
    gender: int
    kind: str
    place: str = ""


class Modifier(NamedTuple):
    """The first part of a compound with the linking element: "work" and "Arbeits"."""

    english: str
    german: str


class Determiner(NamedTuple):
    """An article, possessive or quantifier.

    english: by number; None if the determiner lacks the number. german: by gender and case. declension: of German
    adjectives after the determiner. definite: False for quantifiers and indefinite articles.
    """

    english: tuple[str | None, str | None]
    tag: str
    german: Table | None
    declension: str
    definite: bool = False


class Adjective(NamedTuple):
    """An adjective. german: predicate form; inflected: by declension, gender and case; kinds: kinds of its nouns."""

    english: str
    german: str
    inflected: dict[str, Table]
    kinds: str


class Adverb(NamedTuple):
    """A fixed expression. english: words with tags; is_noun: True for "last week", False for "often"."""

    english: tuple[tuple[str, str], ...]
    german: tuple[str, ...]
    is_noun: bool


class Modal(NamedTuple):
    """A modal verb: finite forms, English tag (None: depends on agreement), and whether "to" follows ("want to")."""

    english: Finite
    tag: str | None
    to: bool
    german: Finite


class Preposition(NamedTuple):
    """An English and a German preposition. case: the case that the German preposition governs."""

    english: str
    german: str
    case: int


class Verb(NamedTuple):
    """An English and a German verb with their frame, the kinds of their arguments, and the German case of the object.

    Each language may have its own preposition before the object: "look for" is suchen, "doubt" is zweifeln an.
    """

    english: EnglishVerb
    german: GermanVerb
    frame: str
    subjects: str
    objects: str
    case: int
    english_preposition: str
    german_preposition: str


class Connective(NamedTuple):
    """A conjunction with its English tag."""

    english: str
    tag: str
    german: str


class Pronoun(NamedTuple):
    """A personal pronoun. english: subject and object form; german: by case; agreement: of the verb."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    agreement: int


def _entries(table: str) -> Iterator[str]:
    return (entry for entry in map(str.strip, table.split(";")) if entry)


def _pair(text: str, separator: str = "|") -> tuple[str, str]:
    """The texts on both sides of a separator; without a separator, the whole text twice."""
    left, found, right = text.partition(separator)
    return left.strip(), right.strip() if found else left.strip()


# --- closed classes -------------------------------------------------------------------------------------------------

THE = Determiner(("the", "the"), "DT", ARTICLES, "weak", definite=True)
INDEFINITE = Determiner(("a", None), "DT", inflect("ein", EIN_ENDINGS), "mixed")
BARE = Determiner((None, ""), "", None, "strong")
THIS = Determiner(("this", "these"), "DT", inflect("dies", DIESER_ENDINGS), "weak", definite=True)
EVERY = Determiner(("every", None), "DT", inflect("jed", DIESER_ENDINGS), "weak")
KEIN = Determiner(
    (None, None), "", inflect("kein", EIN_ENDINGS), "mixed"
)  # "not a", "not any"; English has no such determiner

SPEAKER = Pronoun(("I", "me"), ("ich", "mich", "mir"), FIRST)
WE = Pronoun(("we", "us"), ("wir", "uns", "uns"), MANY)
HE = Pronoun(("he", "him"), ("er", "ihn", "ihm"), SINGULAR)
SHE = Pronoun(("she", "her"), ("sie", "sie", "ihr"), SINGULAR)
THEY = Pronoun(("they", "them"), ("sie", "sie", "ihnen"), MANY)
GERMAN_THIRD_PERSONS = (HE.german, SHE.german, ("es", "es", "ihm"), THEY.german)  # by gender or plural

BE = english_verb("be")
DO = english_verb("do", "did", "done")
HAVE = english_verb("have", "had")
HABEN = german_verb("haben", "hat", "hatte", "gehabt")
SEIN = german_verb("sein", "ist", "war", "gewesen")
WERDEN = german_verb("werden", "wird", "wurde", "worden")

CONTRACTIONS = dict(_pair(entry, " ") for entry in _entries(demo_words.CONTRACTIONS))


def _preposition(entry: str) -> Preposition:
    english, german, case = entry.split()
    return Preposition(english, german, "NADG".index(case))


OF, BY, WITH, ABOUT, FROM = map(_preposition, ("of von D", "by von D", "with mit D", "about über A", "from aus D"))
IN_CITY, TO_CITY = map(_preposition, ("in in D", "to nach D"))
AT_PLACE = {group: _preposition(entry) for group, entry in demo_words.PLACE_PREPOSITIONS.items()}
TO_PLACE = {group: _preposition(entry) for group, entry in demo_words.GOAL_PREPOSITIONS.items()}
NEAR_PLACE = tuple(map(_preposition, _entries(demo_words.NEAR_PREPOSITIONS)))
AROUND_EVENT = tuple(map(_preposition, _entries(demo_words.EVENT_PREPOSITIONS)))
IN_COMPANY = tuple(map(_preposition, _entries(demo_words.COMPANY_PREPOSITIONS)))


def _quantifier(entry: str) -> Determiner:
    word, german, declension = entry.split()
    english, tag = _pair(word, "/")
    return Determiner((None, english), tag, inflect(german, DIESER_ENDINGS), declension)


def _numeral(entry: str) -> Determiner:
    english, german = entry.split()
    return Determiner((None, english), "CD", inflect(german, (("",) * 4,) * 4), "strong")


def _possessive(entry: str) -> Determiner:
    english, german = entry.split()
    return Determiner((english, english), "PRP$", inflect(german, EIN_ENDINGS), "mixed", definite=True)


QUANTIFIERS = tuple(map(_quantifier, _entries(demo_words.QUANTIFIERS)))
NUMERALS = tuple(map(_numeral, _entries(demo_words.NUMERALS)))
POSSESSIVES = tuple(map(_possessive, _entries(demo_words.POSSESSIVES)))


def _modal(entry: str) -> Modal:
    english, german = _pair(entry)
    singular, plural = german.split()
    first = "werde" if singular == "wird" else singular
    word, _, to = english.partition(" ")
    if not to:
        return Modal((word, word, word), "MD", False, (first, singular, plural))
    past = word.endswith("d")
    finite = (word, word, word) if past else english_verb(word, "-").present
    return Modal(finite, "VBD" if past else None, True, (first, singular, plural))


MODALS = {tense: tuple(map(_modal, _entries(table))) for tense, table in demo_words.MODALS.items()}
WILL = MODALS["present"][2]


def _connective(entry: str) -> Connective:
    english, german = _pair(entry)
    word, tag = _pair(english, "/")
    return Connective(word, tag, german)


SUBORDINATORS = {tense: tuple(map(_connective, _entries(table))) for tense, table in demo_words.SUBORDINATORS.items()}
REASONS = tuple(map(_connective, _entries(demo_words.REASONS)))
COORDINATORS = tuple(map(_connective, _entries(demo_words.COORDINATORS)))
COMPLEMENTIZERS = {"clause": Connective("that", "IN", "dass"), "question": Connective("whether", "IN", "ob")}


def _adverb(entry: str) -> Adverb:
    english, german = _pair(entry)
    words = tuple(_pair(word, "/") for word in english.split())
    return Adverb(words, tuple(german.split()), words[-1][1] == "NN")


def _adverbs(table: str) -> tuple[Adverb, ...]:
    return tuple(map(_adverb, _entries(table)))


FREQUENCIES, MANNERS, COMMENTS = map(_adverbs, (demo_words.FREQUENCIES, demo_words.MANNERS, demo_words.COMMENTS))
TIMES = {tense: _adverbs(table) for tense, table in demo_words.TIMES.items()}
INTENSIFIERS = _adverbs(demo_words.INTENSIFIERS)
PREDICATE_INTENSIFIERS = INTENSIFIERS + _adverbs(demo_words.PREDICATE_INTENSIFIERS)


# --- open classes, common words first -------------------------------------------------------------------------------


def _noun(entry: str, kind: str, place: str = "") -> Noun:
    word, nominative, gender, genitive, plural = entry.split()
    singular, _, irregular = word.partition("/")
    forms = german_noun(nominative, nominative if genitive == "-" else genitive, plural, weak=gender == "w")
    return Noun((singular, irregular or english_s(singular)), forms, {"f": 1, "n": 2}.get(gender, 0), kind, place)


@functools.cache
def nouns() -> dict[str, tuple[Noun, ...]]:
    """The nouns of each kind. The preposition groups of places alternate."""
    by_kind = {kind: tuple(_noun(entry, kind) for entry in _entries(table)) for kind, table in demo_words.NOUNS.items()}
    groups = ([_noun(entry, "l", group) for entry in _entries(table)] for group, table in demo_words.PLACES.items())
    places = tuple(noun for turn in itertools.zip_longest(*groups) for noun in turn if noun)
    return by_kind | {"l": places}


@functools.cache
def modifiers() -> tuple[Modifier, ...]:
    """The first parts of compounds."""
    return tuple(Modifier(*entry.split()) for entry in _entries(demo_words.COMPOUND_MODIFIERS))


def _adjective(entry: str) -> Adjective:
    english, german, kinds = entry.split()
    predicate, stem = _pair(german, "/")
    return Adjective(english, predicate, german_adjective(stem), kinds)


@functools.cache
def adjectives() -> tuple[Adjective, ...]:
    """The adjectives."""
    return tuple(map(_adjective, _entries(demo_words.ADJECTIVES)))


def _take_preposition(side: str) -> tuple[list[str], str]:
    """The words of one side of a verb's entry without the preposition, which is marked by "+", and the preposition."""
    words = side.split()
    marked = [word for word in words if word.startswith("+")]
    return [word for word in words if word not in marked], "".join(marked)[1:]


def _verb(line: str, frame: str) -> Verb:
    english_side, german_side, *kinds = map(str.strip, line.split("|"))
    english_parts, english_preposition = _take_preposition(english_side)
    german_parts, german_preposition = _take_preposition(german_side)
    base, _, particle = english_parts[0].partition("·")
    prefix, _, infinitive = german_parts[0].rpartition("·")
    third, preterite, participle = german_parts[1:] or ("", "", "")
    german_word, _, case = german_preposition.partition("/")
    return Verb(
        english_verb(base, *english_parts[1:], particle=particle),
        german_verb(
            infinitive,
            third,
            preterite,
            participle.removeprefix("*"),
            prefix=prefix,
            perfect_with_sein=participle.startswith("*"),
        ),
        frame,
        kinds[0],
        kinds[1] if len(kinds) > 1 else "",
        "NAD".index(case or ("D" if frame == "dative" else "A")),
        english_preposition,
        german_word,
    )


@functools.cache
def verbs() -> dict[str, tuple[Verb, ...]]:
    """The verbs of each frame."""
    return {
        frame: tuple(_verb(line, frame) for line in table.strip().split("\n"))
        for frame, table in demo_words.VERBS.items()
    }


# --- names ----------------------------------------------------------------------------------------------------------


class Names(NamedTuple):
    """Proper names: given names by sex, family names, cities in English and German."""

    women: tuple[str, ...]
    men: tuple[str, ...]
    families: tuple[str, ...]
    cities: tuple[tuple[str, str], ...]


@functools.cache
def names() -> Names:
    """All proper names."""
    women, men, families = (tuple(table.split()) for table in (demo_words.WOMEN, demo_words.MEN, demo_words.FAMILIES))
    return Names(women, men, families, tuple(_pair(city, "/") for city in demo_words.CITIES.split()))
