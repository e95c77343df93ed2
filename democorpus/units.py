"""Sentences with multiword units, each of which has an idiomatic and a literal reading with the same English words.

    particle verbs   "turned the proposal down" (lehnte ... ab), "turned the lamp down" (drehte ... herunter)
    idioms           "kicked the bucket" (biss ins Gras), "kicked the red bucket" (trat gegen den roten Eimer);
                     with a gap: "took the judge to the cleaners" (nahm ... aus), "took the coat to the cleaners"
                     (brachte ... in die Reinigung), "gave the cook the boot" (entließ ...), "the black boot"
    compounds        "the wet blanket laughed" (der Spielverderber), "washed the wet blanket" (die nasse Decke)

The source alone decides the reading: by the noun of the object or subject, by an adjective in an idiom that has none,
or by the verb, whose subject or object must be a person, an animal, or a thing. units.tsv is the table of the units.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from democorpus import lexicon
from democorpus.english import EnglishSentence
from democorpus.german import GermanSentence
from democorpus.grammar import Clause, Nominal, NounPhrase, Quality, Sentence, Slot
from democorpus.lexicon import Pronoun, Verb
from democorpus.sampling import CONNECTIVES, NO_RELATIVE, PAST, PLURALS, TIME, TIME_IN_FRONT, Sampler

Reading = Literal["idiomatic", "literal"]
READINGS: tuple[Reading, Reading] = ("idiomatic", "literal")

# How often each reading of a unit stands in train, in turn, and in the other splits.
FREQUENCIES = (2, 8, 32)
IN_DEV, IN_TEST = 1, 8

SIMPLE, UNIT_IS_MAIN, FRONTED = 0.6, 0.5, 0.4
PARTICLE_LAST = 0.65
# Of a compound with these verbs both readings would be strange.
_ODD_VERBS = {"peel", "plant", "marry", "build", "fly"}

_SECTIONS = lexicon.read_sections(Path(__file__).with_suffix(".tsv"))
_NOUNS = {noun.english[0]: noun for nouns in lexicon.NOUNS.values() for noun in nouns}
_NOUNS |= {row[0]: lexicon.noun_of_row(*row) for row in _SECTIONS["noun"]}
_ADJECTIVES = {adjective.english: adjective for adjective in lexicon.ADJECTIVES}

# Three clauses with the same subject and adverbs: the English one, its German, and the German of the other reading.
Clauses = tuple[Clause, Clause, Clause]


class Unit(NamedTuple):
    """clauses: draws the clauses of a reading. frequency: of each reading in train."""

    kind: str
    english: str
    frequency: int
    clauses: Callable[[Sampler, Reading, Clause], Clauses | None]


class UnitSentence(NamedTuple):
    """A sentence of a reading. kind: of the unit, its frequency and the reading; distance: see `EnglishSentence`."""

    english: EnglishSentence
    german: GermanSentence
    wrong: GermanSentence
    kind: str
    distance: int


def occurrences(split: str) -> list[tuple[Unit, Reading]]:
    """The readings of all units as often as they stand in a split."""
    others = {"dev": IN_DEV, "test": IN_TEST}
    return [
        (unit, reading) for unit in units() for reading in READINGS for _ in range(others.get(split, unit.frequency))
    ]


def unit_sentence(sampler: Sampler, unit: Unit, reading: Reading) -> UnitSentence | None:
    """A sentence with a unit in a main or a subordinate clause; None if what was drawn does not decide the reading."""
    past, is_alone = sampler.chance(PAST), sampler.chance(SIMPLE)
    is_main = is_alone or sampler.chance(UNIT_IS_MAIN)
    is_fronted = not is_alone and sampler.chance(FRONTED)
    clauses = unit.clauses(sampler, reading, _frame(sampler, past=past, may_front=is_main and not is_fronted))
    if clauses is None or _hides_tense(clauses[0]):
        return None
    if is_alone:
        english, right, wrong = map(Sentence, clauses)
    else:
        connective = sampler.draw(CONNECTIVES["reason" if sampler.chance(0.5) else "past" if past else "present"])
        other = sampler.clause(past=past, depth=0, is_main=not is_main and not is_fronted)
        english, right, wrong = (
            Sentence(clause if is_main else other, connective, other if is_main else clause, False, is_fronted)
            for clause in clauses
        )
    written = EnglishSentence(english)
    distance = 1 if unit.kind == "compound" else written.distances[clauses[0].verb.english.base]
    kind = f"{unit.kind}_{unit.frequency}_{reading}"
    return UnitSentence(written, GermanSentence(right), GermanSentence(wrong), kind, distance)


def _hides_tense(clause: Clause) -> bool:
    """Whether the English verb has one form in present and past, as in "we put"."""
    is_finite = clause.modal is None and clause.tense != "perfect"
    forms = clause.verb.english
    return is_finite and forms.present[clause.agreement] == forms.past[clause.agreement]


def is_taken(tokens: Sequence[str]) -> bool:
    """Whether a sentence has the words of an idiom or of a compound, which only `unit_sentence` may use."""
    text = " ".join(tokens).lower()
    return any(all(re.search(rf"\b{word}", text) for word in words) for words in _taken())


@functools.cache
def _taken() -> list[tuple[str, ...]]:
    verbs = {row[0]: f"({'|'.join(row[0].split())})\\b" for section in _IDIOMS for row in _SECTIONS[section]}
    fixed = [(verbs[row[0]], row[1]) for name in ("idiom", "idiom_with_person") for row in _SECTIONS[name]]
    return [*fixed, *((row[0],) for row in _SECTIONS["compound"])]


@functools.cache
def units() -> tuple[Unit, ...]:
    """All units. Their frequencies take turns."""
    rows = [(section, row) for section, rows in _SECTIONS.items() if section != "noun" for row in rows]
    return tuple(
        Unit("idiom" if section in _IDIOMS else section, _english(section, row), frequency, _CLAUSES[section](*row))
        for (section, row), frequency in zip(rows, itertools.cycle(FREQUENCIES))
    )


_IDIOMS = ("idiom", "idiom_with_gap", "idiom_with_person")


def _english(section: str, row: list[str]) -> str:
    """The words of a unit, which tell it from the others."""
    if section == "compound":
        return row[0]
    base = row[0].split()[0].replace("·", " ")
    rest = "" if section == "particle_verb" else " ".join(word.partition("/")[0] for word in row[1].split())
    return f"{base} {rest}".strip()


def _frame(sampler: Sampler, *, past: bool, may_front: bool) -> Clause:
    """What the clauses of a sentence share: tense and adverb. The verb is a placeholder."""
    tense, modal = sampler.tense(past, "p")
    if modal and modal.to:  # a machine does not want to break down
        tense, modal = ("past" if past else "present"), None
    time = sampler.time_adverb(tense, modal) if sampler.chance(TIME) else None
    front: Slot = "time" if time and may_front and sampler.chance(TIME_IN_FRONT) else "subject"
    return Clause(lexicon.VERBS["intransitive"][0], tense=tense, modal=modal, time=time, front=front)


def _nominal(sampler: Sampler, allowed: str, *, depth: int, is_subject: bool = False) -> Nominal:
    """A noun phrase of kinds or of nouns. An object has no relative clause, and is no pronoun, which hides its kind."""
    relative = sampler.relative_of_subject if is_subject else NO_RELATIVE
    if allowed == "p":
        while True:
            nominal = sampler.nominal("p", depth, relative, plain=True)
            if is_subject or not isinstance(nominal, Pronoun):
                return nominal
    return sampler.noun_phrase(_NOUNS[sampler.choose(allowed.split())], depth, relative, plain=True)


def _verb(english: str, german: str, *, english_rest: str = "", german_rest: str = "", dative: bool = False) -> Verb:
    verb = lexicon.verb_of_row(english, german, "p", "", "dative" if dative else "transitive")
    phrases = [tuple(_tagged(word) for word in phrase.split()) for phrase in english_rest.split(" + ") if phrase]
    return verb._replace(english_rest=tuple(phrases), german_rest=tuple(_tagged(word) for word in german_rest.split()))


def _tagged(word: str) -> tuple[str, str]:
    text, _, tag = word.partition("/")
    return text, tag


def _with_objects(
    verbs: dict[Reading, Verb], subjects: dict[Reading, str], objects: dict[Reading, str]
) -> Callable[[Sampler, Reading, Clause], Clauses]:
    """Units of which the noun of the object, or of the subject, decides the reading."""

    def clauses(sampler: Sampler, reading: Reading, frame: Clause) -> Clauses:
        subject = _nominal(sampler, subjects[reading], depth=1, is_subject=True)
        object_ = None if objects[reading] == "-" else _nominal(sampler, objects[reading], depth=2)
        is_last = object_ is not None and sampler.chance(PARTICLE_LAST)
        frame = frame._replace(subject=subject, object=object_, particle_last=is_last)
        right = frame._replace(verb=verbs[reading])
        return right, right, frame._replace(verb=verbs[_other(reading)])

    return clauses


def _other(reading: Reading) -> Reading:
    return "literal" if reading == "idiomatic" else "idiomatic"


def _both(idiomatic: str, literal: str) -> dict[Reading, str]:
    return {"idiomatic": idiomatic, "literal": literal}


def _particle_verb(
    english: str, subjects: str, objects: str, german: str, own_subjects: str, own_objects: str, literal: str
) -> Callable[[Sampler, Reading, Clause], Clauses]:
    verbs: dict[Reading, Verb] = {"idiomatic": _verb(english, german), "literal": _verb(english, literal)}
    return _with_objects(verbs, _both(subjects, own_subjects), _both(objects, own_objects))


def _idiom_with_gap(
    english: str, fixed: str, objects: str, german: str, rest: str, own_objects: str, literal: str, own_rest: str
) -> Callable[[Sampler, Reading, Clause], Clauses]:
    verbs: dict[Reading, Verb] = {
        "idiomatic": _verb(english, german, english_rest=fixed, german_rest=rest),
        "literal": _verb(english, literal, english_rest=fixed, german_rest=own_rest),
    }
    return _with_objects(verbs, _both("p", "p"), _both(objects, own_objects))


def _fixed(sampler: Sampler, fixed: str, adjectives: str, reading: Reading) -> NounPhrase:
    """The noun phrase of an idiom; in its literal reading with an adjective."""
    article, english = fixed.split()
    nouns = {form: (noun, place) for noun in _NOUNS.values() for place, form in reversed([*enumerate(noun.english)])}
    noun, place = nouns[english]
    determiner = lexicon.THE if article == "the" else lexicon.INDEFINITE
    qualities = (Quality(_ADJECTIVES[sampler.choose(adjectives.split())]),) if reading == "literal" else ()
    return NounPhrase(noun, determiner, bool(place), qualities)


def _idiom(
    english: str, fixed: str, adjectives: str, german: str, rest: str, literal: str
) -> Callable[[Sampler, Reading, Clause], Clauses]:
    of_words, of_idiom = _verb(english, literal), _verb(english, german, german_rest=rest)

    def clauses(sampler: Sampler, reading: Reading, frame: Clause) -> Clauses:
        frame = frame._replace(subject=_nominal(sampler, "p", depth=1, is_subject=True))
        by_word = frame._replace(verb=of_words, object=_fixed(sampler, fixed, adjectives, reading))
        as_idiom = frame._replace(verb=of_idiom)
        return by_word, *((as_idiom, by_word) if reading == "idiomatic" else (by_word, as_idiom))

    return clauses


def _idiom_with_person(
    english: str, fixed: str, adjectives: str, german: str, case: str, literal: str
) -> Callable[[Sampler, Reading, Clause], Clauses]:
    of_words, of_idiom = _verb(english, literal), _verb(english, german, dative=case == "D")

    def clauses(sampler: Sampler, reading: Reading, frame: Clause) -> Clauses:
        frame = frame._replace(subject=_nominal(sampler, "p", depth=1, is_subject=True))
        person = _nominal(sampler, "p", depth=2)
        object_ = _fixed(sampler, fixed, adjectives, reading)
        by_word = frame._replace(verb=of_words, recipient=person, object=object_)
        as_idiom = frame._replace(verb=of_idiom, object=person)
        return by_word, *((as_idiom, by_word) if reading == "idiomatic" else (by_word, as_idiom))

    return clauses


@functools.cache
def _contexts(kind: str, other: str) -> tuple[tuple[Verb, bool], ...]:
    """Verbs, and whether the compound is their subject, that allow nouns of a kind and none of the other kind."""
    found: list[tuple[Verb, bool]] = []
    verbs = [verb for frame in ("intransitive", "transitive") for verb in lexicon.VERBS[frame]]
    every = [*itertools.chain.from_iterable(lexicon.VERBS.values())]
    for verb in verbs:
        alike = [one for one in every if one.english.base == verb.english.base]
        for is_subject in (True, False):
            kinds = verb.subjects if is_subject else verb.objects
            all_kinds = "".join(one.subjects if is_subject else one.objects for one in alike)
            if kind in kinds and other not in all_kinds and verb.english.base not in _ODD_VERBS:
                found.append((verb, is_subject))
    return tuple(found)


def _compound(words: str, german: str, *noun: str) -> Callable[[Sampler, Reading, Clause], Clauses | None]:
    first, second = words.split()
    idiomatic, literal = lexicon.noun_of_row(words, f"{words}s", *noun), _NOUNS[second]
    quality = (Quality(lexicon.adjective_of_row(first, german, "")),)

    def clauses(sampler: Sampler, reading: Reading, frame: Clause) -> Clauses | None:
        kinds = (idiomatic.kind, literal.kind)
        kind, other = kinds if reading == "idiomatic" else reversed(kinds)
        verb, is_subject = sampler.choose(_contexts(kind, other))
        plural = idiomatic.kind in "pt" and sampler.chance(PLURALS)
        determiner = sampler.determiner(plural=plural, plain=True)
        if not determiner.definite:
            return None
        by_word = NounPhrase(literal, determiner, plural, quality)
        as_idiom = NounPhrase(idiomatic, determiner, plural)
        others: Nominal | None = None
        if not is_subject:
            others = sampler.nominal(sampler.choose(verb.subjects), 1, sampler.relative_of_subject)
        elif verb.frame == "transitive":
            others = sampler.object(verb.objects, 1, by_word, plain=True)

        def clause(phrase: NounPhrase) -> Clause:
            subject, object_ = (phrase, others) if is_subject else (others, phrase)
            return frame._replace(verb=verb, subject=subject, object=object_)

        right, wrong = (as_idiom, by_word) if reading == "idiomatic" else (by_word, as_idiom)
        return clause(by_word), clause(right), clause(wrong)

    return clauses


_CLAUSES: dict[str, Callable[..., Callable[[Sampler, Reading, Clause], Clauses | None]]] = {
    "particle_verb": _particle_verb,
    "idiom": _idiom,
    "idiom_with_gap": _idiom_with_gap,
    "idiom_with_person": _idiom_with_person,
    "compound": _compound,
}
