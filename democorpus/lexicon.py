"""The lexicon of the demonstration corpus: the words of lexicon.tsv with all their forms, and the German endings.

German tables have a row for each gender of the singular and one for the plural, and a column for each case. Entries are
immutable tuples. Each class of words is in the order of the file, common words first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)
FIRST, SINGULAR, MANY = range(3)  # agreement of a finite verb: with "I", with a third person singular, with a plural

Table = tuple[tuple[str, ...], ...]  # rows: gender or number; columns: case
Finite = tuple[str, str, str]  # FIRST, SINGULAR, MANY


def _table(text: str) -> Table:
    """Rows between slashes, forms between spaces; a hyphen stands for no ending."""
    return tuple(tuple(form.strip("-") for form in row.split()) for row in text.split("/"))


ARTICLES = _table("der den dem des / die die der der / das das dem des / die die den der")
RELATIVE_PRONOUNS = _table("der den dem / die die der / das das dem / die die denen")
# Endings of dieser, jeder, viele ..., and of ein, kein, mein ...
DIESER_ENDINGS = _table("er en em es / e e er er / es es em es / e e en er")
EIN_ENDINGS = _table("- en em es / e e er er / - - em es / e e en er")
# Adjective endings: strong without a determiner, weak after der and dieser, mixed after ein.
ADJECTIVE_ENDINGS = {
    "strong": _table("er en em en / e e er er / es es em en / e e en er"),
    "weak": _table("e en en en / e e en en / e e en en / en en en en"),
    "mixed": _table("er en en en / e e en en / es es en en / en en en en"),
}


class EnglishVerb(NamedTuple):
    """The forms of an English verb. particle: "up" in "wake up"."""

    base: str
    present: Finite
    past: Finite
    participle: str
    particle: str = ""


class GermanVerb(NamedTuple):
    """The forms of a German verb. The participle includes the separable prefix; the other forms do not."""

    infinitive: str
    present: Finite
    past: Finite
    participle: str
    prefix: str
    perfect_with_sein: bool


class Verb(NamedTuple):
    """An English and a German verb with their frame, the kinds of their arguments, and the German case of the object.

    Each language may have its own preposition before the object: "look for" is suchen, "doubt" is zweifeln an. The
    further words of a multiword unit follow the object: English phrases of tagged words, German words with the chunk
    that begins with them, "ins/PP Gras/NP", or none.
    """

    english: EnglishVerb
    german: GermanVerb
    frame: str
    subjects: str
    objects: str
    case: int
    english_preposition: str
    german_preposition: str
    english_rest: tuple[tuple[tuple[str, str], ...], ...] = ()
    german_rest: tuple[tuple[str, str], ...] = ()


class Modal(NamedTuple):
    """A modal verb: finite forms, English tag (None: depends on agreement), and whether "to" follows ("want to")."""

    english: Finite
    tag: str | None
    to: bool
    german: Finite


class Noun(NamedTuple):
    """A noun. english: by number; german: by number and case; place: preposition group of a place, else empty."""

    english: tuple[str, str]
    german: Table
    gender: int
    kind: str
    place: str = ""


class Adjective(NamedTuple):
    """An adjective. german: predicate form; inflected: by declension, gender and case; kinds: kinds of its nouns."""

    english: str
    german: str
    inflected: dict[str, Table]
    kinds: str


class Determiner(NamedTuple):
    """An article, possessive or quantifier. english: by number; None if the determiner has no such number.

    declension: of German adjectives after the determiner. definite: False for quantifiers and indefinite articles.
    """

    english: tuple[str | None, str | None]
    tag: str
    german: Table | None
    declension: str
    definite: bool = False


class Pronoun(NamedTuple):
    """A personal pronoun. english: subject and object form; german: by case; agreement: of the verb."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    agreement: int


class Adverb(NamedTuple):
    """A fixed expression. english: words with tags; is_noun: True for "last week", False for "often"."""

    english: tuple[tuple[str, str], ...]
    german: tuple[str, ...]
    is_noun: bool


class Word(NamedTuple):
    """A word that is not inflected. tag: the English one of a conjunction; case: governed by a German preposition.

    The German of the first part of a compound contains the linking element: "work" is Arbeits.
    """

    english: str
    german: str
    tag: str = ""
    case: int = NOMINATIVE


Entry = TypeVar("Entry")


def read_sections(path: Path) -> dict[str, list[list[str]]]:
    """The rows of a table of words by the names of their sections."""
    sections: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split("\t"))
    return sections


_SECTIONS = read_sections(Path(__file__).with_suffix(".tsv"))


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


def noun_of_row(*row: str) -> Noun:
    english, english_plural, gender, nominative, oblique, genitive, plural, dative_plural, kind = row
    german = ((nominative, oblique, oblique, genitive), (plural, plural, dative_plural, plural))
    return Noun((english, english_plural), german, "mfn".index(gender), kind)


_PLACES = {
    place: tuple(noun._replace(kind="l", place=place) for noun in nouns)
    for place, nouns in _groups("place", noun_of_row).items()
}
# By kind. The preposition groups of places alternate.
NOUNS = _groups("noun", noun_of_row) | {
    "l": tuple(noun for turn in itertools.zip_longest(*_PLACES.values()) for noun in turn if noun)
}
MODIFIERS = _entries("modifier", Word)
COMPOUND_KINDS = "tvdxlef"  # of nouns that a modifier may precede


def _inflect(stem: str, endings: Table) -> Table:
    return tuple(tuple(stem + ending for ending in row) for row in endings)


def adjective_of_row(english: str, german: str, kinds: str) -> Adjective:
    predicate, stem = _pair(german)
    inflected = {name: _inflect(stem.removesuffix("e"), endings) for name, endings in ADJECTIVE_ENDINGS.items()}
    return Adjective(english, predicate, inflected, kinds)


def _determiner(english: str, tag: str, german: str, declension: str, group: str) -> Determiner:
    if group == "possessive":
        return Determiner((english, english), tag, _inflect(german, EIN_ENDINGS), declension, definite=True)
    endings = DIESER_ENDINGS if group == "quantifier" else (("",) * 4,) * 4
    return Determiner((None, english), tag, _inflect(german, endings), declension)


ADJECTIVES = _entries("adjective", adjective_of_row)
DETERMINERS = _groups("determiner", _determiner)
THE = Determiner(("the", "the"), "DT", ARTICLES, "weak", definite=True)
INDEFINITE = Determiner(("a", None), "DT", _inflect("ein", EIN_ENDINGS), "mixed")
BARE = Determiner((None, ""), "", None, "strong")
THIS = Determiner(("this", "these"), "DT", _inflect("dies", DIESER_ENDINGS), "weak", definite=True)
EVERY = Determiner(("every", None), "DT", _inflect("jed", DIESER_ENDINGS), "weak")
KEIN = Determiner((None, None), "", _inflect("kein", EIN_ENDINGS), "mixed")  # "not a", "not any"

SPEAKER = Pronoun(("I", "me"), ("ich", "mich", "mir"), FIRST)
WE = Pronoun(("we", "us"), ("wir", "uns", "uns"), MANY)
HE = Pronoun(("he", "him"), ("er", "ihn", "ihm"), SINGULAR)
SHE = Pronoun(("she", "her"), ("sie", "sie", "ihr"), SINGULAR)
THEY = Pronoun(("they", "them"), ("sie", "sie", "ihnen"), MANY)
GERMAN_THIRD_PERSONS = (HE.german, SHE.german, ("es", "es", "ihm"), THEY.german)  # by gender or plural

WOMEN, MEN, FAMILIES = (_entries(name, str) for name in ("woman", "man", "family"))
CITIES = _entries("city", Word)


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
    present = (first, third, plural[0] if plural else infinitive)
    past = (preterite, preterite, preterite_plural)
    return GermanVerb(infinitive, present, past, participle.removeprefix("*"), prefix, participle.startswith("*"))


def verb_of_row(english: str, german: str, subjects: str, *rest: str) -> Verb:
    *objects, frame = rest
    english, _, english_preposition = english.partition("+")
    german, _, german_preposition = german.partition("+")
    german_preposition, _, letter = german_preposition.partition("/")
    case = "NAD".index(letter or ("D" if frame == "dative" else "A"))
    verbs = _english_verb(english), _german_verb(german)
    return Verb(*verbs, frame, subjects, "".join(objects), case, english_preposition, german_preposition)


VERBS = _groups("verb", verb_of_row)  # by frame
BE = _english_verb("be am is are was was were been")
DO = _english_verb("do does did done")
HAVE = _english_verb("have has had had")
HABEN = _german_verb("haben habe hat hatte hatten gehabt")
SEIN = _german_verb("sein bin ist sind war waren *gewesen")
WERDEN = _german_verb("werden werde wird wurde wurden *worden")


def _modal(first: str, third: str, to: str, german_first: str, german_third: str, plural: str, tense: str) -> Modal:
    tag = "MD" if to == "-" else "VBD" if tense == "past" else None
    return Modal((first, third, first), tag, to == "to", (german_first, german_third, plural))


def _adverb(english: str, german: str, group: str) -> Adverb:
    words = tuple(_pair(word) for word in english.split())
    return Adverb(words, tuple(german.split()), words[-1][1] == "NN")


def _preposition(english: str, german: str, case: str, *group: str) -> Word:
    return Word(english, german, case="NADG".index(case))


MODALS = _groups("modal", _modal)  # by tense
WILL = MODALS["present"][2]
ADVERBS = _groups("adverb", _adverb)
PREDICATE_INTENSIFIERS = ADVERBS["intensifier"] + ADVERBS["predicate"]
PREPOSITIONS = _groups("preposition", _preposition)
AT_PLACE, TO_PLACE = (dict(zip(_PLACES, PREPOSITIONS[name], strict=True)) for name in ("place", "goal"))
WITH, ABOUT, FROM, IN_CITY, TO_CITY = (
    _preposition(*entry.split()) for entry in ("with mit D", "about über A", "from aus D", "in in D", "to nach D")
)
CONTRACTIONS = {whole: short for whole, short, *_ in _SECTIONS["contraction"]}
CONNECTIVES = _groups("connective", lambda english, tag, german, group: Word(english, german, tag))
COMPLEMENTIZERS = {"clause": Word("that", "dass", "IN"), "question": Word("whether", "ob", "IN")}
