"""The lexicon of the demonstration corpus: the words of lexicon.tsv as entries with all forms.

Entries are immutable tuples. Each class of words is in the order of the file, common words first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from democorpus.morphology import (
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
    german_adjective,
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


Entry = TypeVar("Entry")


def _read_sections() -> dict[str, list[list[str]]]:
    """The rows of lexicon.tsv by the names of their sections."""
    sections: dict[str, list[list[str]]] = {}
    for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split("\t"))
    return sections


_SECTIONS = _read_sections()


def _entries(section: str, entry: Callable[..., Entry], *more: str) -> tuple[Entry, ...]:
    """An entry of each row of a section. more: arguments of all entries."""
    return tuple(entry(*row, *more) for row in _SECTIONS[section])


def _groups(word_class: str, entry: Callable[..., Entry]) -> dict[str, tuple[Entry, ...]]:
    """The entries of a class of words by their group, their last argument: those of `[modal past]` by `past`."""
    groups = [name.split(" ")[1] for name in _SECTIONS if name.startswith(f"{word_class} ")]
    return {group: _entries(f"{word_class} {group}", entry, group) for group in groups}


def _pair(text: str) -> tuple[str, str]:
    """The texts on both sides of a slash; without a slash, the whole text twice."""
    left, found, right = text.partition("/")
    return left, right if found else left


def _noun(*row: str) -> Noun:
    english, english_plural, gender, nominative, oblique, genitive, plural, dative_plural, kind = row
    german = ((nominative, oblique, oblique, genitive), (plural, plural, dative_plural, plural))
    return Noun((english, english_plural), german, "mfn".index(gender), kind)


_PLACES = {
    place: tuple(noun._replace(kind="l", place=place) for noun in nouns)
    for place, nouns in _groups("place", _noun).items()
}
# By kind. The preposition groups of places alternate.
NOUNS = _groups("noun", _noun) | {
    "l": tuple(noun for turn in itertools.zip_longest(*_PLACES.values()) for noun in turn if noun)
}
MODIFIERS = _entries("modifier", Modifier)
COMPOUND_KINDS = "tvdxlef"  # of nouns that a modifier may precede


def _adjective(english: str, german: str, kinds: str) -> Adjective:
    predicate, stem = _pair(german)
    return Adjective(english, predicate, german_adjective(stem), kinds)


ADJECTIVES = _entries("adjective", _adjective)

THE = Determiner(("the", "the"), "DT", ARTICLES, "weak", definite=True)
INDEFINITE = Determiner(("a", None), "DT", inflect("ein", EIN_ENDINGS), "mixed")
BARE = Determiner((None, ""), "", None, "strong")
THIS = Determiner(("this", "these"), "DT", inflect("dies", DIESER_ENDINGS), "weak", definite=True)
EVERY = Determiner(("every", None), "DT", inflect("jed", DIESER_ENDINGS), "weak")
# "not a", "not any"; English has no such determiner
KEIN = Determiner((None, None), "", inflect("kein", EIN_ENDINGS), "mixed")


def _determiner(english: str, tag: str, german: str, declension: str, group: str) -> Determiner:
    if group == "possessive":
        return Determiner((english, english), tag, inflect(german, EIN_ENDINGS), declension, definite=True)
    endings = DIESER_ENDINGS if group == "quantifier" else (("",) * 4,) * 4
    return Determiner((None, english), tag, inflect(german, endings), declension)


DETERMINERS = _groups("determiner", _determiner)

SPEAKER = Pronoun(("I", "me"), ("ich", "mich", "mir"), FIRST)
WE = Pronoun(("we", "us"), ("wir", "uns", "uns"), MANY)
HE = Pronoun(("he", "him"), ("er", "ihn", "ihm"), SINGULAR)
SHE = Pronoun(("she", "her"), ("sie", "sie", "ihr"), SINGULAR)
THEY = Pronoun(("they", "them"), ("sie", "sie", "ihnen"), MANY)
GERMAN_THIRD_PERSONS = (HE.german, SHE.german, ("es", "es", "ihm"), THEY.german)  # by gender or plural

WOMEN, MEN, FAMILIES = (_entries(name, str) for name in ("woman", "man", "family"))
CITIES = tuple((english, german) for english, german in _SECTIONS["city"])


def _english_verb(text: str) -> EnglishVerb:
    base, *finite, participle = text.split()
    base, _, particle = base.partition("·")
    if len(finite) == 2:  # all but "be"
        third, past = finite
        return EnglishVerb(base, (base, third, base), (past, past, past), participle, particle)
    am, is_, are, was, was_too, were = finite
    return EnglishVerb(base, (am, is_, are), (was, was_too, were), participle)


def _german_verb(text: str) -> GermanVerb:
    infinitive, first, third, *plural, preterite, preterite_plural, participle = text.split()
    prefix, _, infinitive = infinitive.rpartition("·")
    return GermanVerb(
        infinitive,
        (first, third, plural[0] if plural else infinitive),
        (preterite, preterite, preterite_plural),
        participle.removeprefix("*"),
        prefix,
        perfect_with_sein=participle.startswith("*"),
    )


def _verb(english: str, german: str, subjects: str, *rest: str) -> Verb:
    *objects, frame = rest
    english, _, english_preposition = english.partition("+")
    german, _, german_preposition = german.partition("+")
    german_preposition, _, case = german_preposition.partition("/")
    return Verb(
        _english_verb(english),
        _german_verb(german),
        frame,
        subjects,
        "".join(objects),
        "NAD".index(case or ("D" if frame == "dative" else "A")),
        english_preposition,
        german_preposition,
    )


VERBS = _groups("verb", _verb)  # by frame

BE = _english_verb("be am is are was was were been")
DO = _english_verb("do does did done")
HAVE = _english_verb("have has had had")
HABEN = _german_verb("haben habe hat hatte hatten gehabt")
SEIN = _german_verb("sein bin ist sind war waren *gewesen")
WERDEN = _german_verb("werden werde wird wurde wurden *worden")


def _modal(first: str, third: str, to: str, german_first: str, german_third: str, plural: str, tense: str) -> Modal:
    tag = "MD" if to == "-" else "VBD" if tense == "past" else None
    return Modal((first, third, first), tag, to == "to", (german_first, german_third, plural))


MODALS = _groups("modal", _modal)  # by tense
WILL = MODALS["present"][2]


def _adverb(english: str, german: str, group: str) -> Adverb:
    words = tuple(_pair(word) for word in english.split())
    return Adverb(words, tuple(german.split()), words[-1][1] == "NN")


ADVERBS = _groups("adverb", _adverb)
PREDICATE_INTENSIFIERS = ADVERBS["intensifier"] + ADVERBS["predicate"]


def _preposition(english: str, german: str, case: str, *group: str) -> Preposition:
    return Preposition(english, german, "NADG".index(case))


PREPOSITIONS = _groups("preposition", _preposition)
AT_PLACE, TO_PLACE = (dict(zip(_PLACES, PREPOSITIONS[name], strict=True)) for name in ("place", "goal"))
WITH, ABOUT, FROM = (_preposition(*entry.split()) for entry in ("with mit D", "about über A", "from aus D"))
IN_CITY, TO_CITY = _preposition("in", "in", "D"), _preposition("to", "nach", "D")
CONTRACTIONS = {whole: short for whole, short, *_ in _SECTIONS["contraction"]}

CONNECTIVES = _groups("connective", lambda english, tag, german, group: Connective(english, tag, german))
COMPLEMENTIZERS = {"clause": Connective("that", "IN", "dass"), "question": Connective("whether", "IN", "ob")}
