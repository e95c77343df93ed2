"""Random derivations of the demonstration grammar, equal on every machine for the same seed.

The module uses only `Random.random()`, because other methods may change between versions of Python, and arithmetic that
IEEE 754 defines. Words are drawn by their rank with Zipf's law; the constants below are all other probabilities.
"""

from __future__ import annotations

import functools
import itertools
import random
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from democorpus import lexicon
from democorpus.grammar import (
    Clause,
    Coordination,
    Name,
    Nominal,
    NounPhrase,
    PrepositionalPhrase,
    Quality,
    Relative,
    Sentence,
    Slot,
    Tense,
)
from democorpus.lexicon import Adjective, Adverb, Determiner, Modal, Noun, Pronoun, Verb, Word

Item = TypeVar("Item")


class Distribution(Generic[Item]):
    """Items with their weights. Without weights, a flattened Zipf's law: that of rank r, from 0, is 1 / (r + 4)."""

    def __init__(self, items: Iterable[Item], weights: Iterable[float] | None = None) -> None:
        self.items = tuple(items)
        sums = list(itertools.accumulate(weights or (1 / (rank + 4) for rank in range(len(self.items)))))
        self.cumulative = [*(partial / sums[-1] for partial in sums[:-1]), 1.0]


def _weighted(weights: Mapping[Item, float]) -> Distribution[Item]:
    return Distribution(weights, weights.values())


# The parts of a sentence: distributions have weights, numbers are probabilities.
SHAPES = _weighted({"simple": 78, "subordinate after": 9, "subordinate before": 6, "coordinated": 7})
_FRAME_WEIGHTS = {
    "transitive": 34, "intransitive": 11, "predicate": 9, "location": 8, "motion": 7, "dative": 7, "prepositional": 7,
    "stative": 7, "ditransitive": 5,
}  # fmt: skip
PLAIN_FRAMES = _weighted(_FRAME_WEIGHTS)
ALL_FRAMES = _weighted(_FRAME_WEIGHTS | {"clause": 9, "question": 2, "infinitive": 6})
INFINITIVE_FRAMES = _weighted({"transitive": 60, "dative": 12, "prepositional": 12, "motion": 16})
PAST, PERFECT, MODAL_IN_PAST, MODAL_IN_PRESENT = 0.42, 0.22, 0.15, 0.24
PASSIVE, AGENT, NEGATION = 0.16, 0.5, 0.10
COMMENT, TIME, TIME_IN_FRONT, PLACE_IN_FRONT, FREQUENCY, MANNER = 0.10, 0.20, 0.5, 0.25, 0.10, 0.10

PLURALS, COMPOUND, COORDINATION, PERSONAL_PRONOUN, NAME, FAMILY_NAME = 0.38, 0.14, 0.07, 0.10, 0.12, 0.5
ONE_QUALITY, TWO_QUALITIES, INTENSIFIED = 0.29, 0.05, 0.12
# Probabilities by the number of remaining levels of embedding: 2 in a main clause, 0 in the innermost phrases.
OWNER = ATTRIBUTE = (0.0, 0.08, 0.12)
RELATIVE_OF_SUBJECT, RELATIVE_OF_OBJECT = (0.0, 0.06, 0.24), (0.0, 0.03, 0.08)
NO_RELATIVE = (0.0, 0.0, 0.0)  # in an attribute, where the reference of a relative clause would be ambiguous
ADJUNCT = (0.05, 0.14, 0.16)

_THE, _THIS, _POSSESSIVE = (lexicon.THE,), (lexicon.THIS,), lexicon.DETERMINERS["possessive"]
SINGULAR_DETERMINERS = _weighted({_THE: 50, (lexicon.INDEFINITE,): 22, _POSSESSIVE: 16, _THIS: 7, (lexicon.EVERY,): 5})
PLURAL_DETERMINERS = _weighted(
    {
        _THE: 44,
        (lexicon.BARE,): 14,
        _POSSESSIVE: 14,
        lexicon.DETERMINERS["quantifier"]: 13,
        lexicon.DETERMINERS["numeral"]: 9,
        _THIS: 6,
    }
)
PRONOUNS = _weighted({lexicon.HE: 25, lexicon.SHE: 25, lexicon.THEY: 20, lexicon.SPEAKER: 15, lexicon.WE: 15})
THIRD_PERSONS = _weighted({lexicon.HE: 1, lexicon.SHE: 1, lexicon.THEY: 1})
CONNECTIVES = {group: Distribution(entries) for group, entries in lexicon.CONNECTIVES.items()}
FREQUENCIES = Distribution(lexicon.ADVERBS["frequency"])
WOMEN, MEN, FAMILIES = map(Distribution, (lexicon.WOMEN, lexicon.MEN, lexicon.FAMILIES))
CITIES, MODIFIERS = map(Distribution, (lexicon.CITIES, lexicon.MODIFIERS))
NOUNS = {kind: Distribution(nouns) for kind, nouns in lexicon.NOUNS.items()}


@functools.cache
def _adjectives(kind: str) -> Distribution[Adjective]:
    return Distribution(adjective for adjective in lexicon.ADJECTIVES if kind in adjective.kinds)


@functools.cache
def _verbs(frame: str, subject_kind: str, *, passive: bool = False) -> Distribution[Verb] | None:
    """The verbs of a frame with subjects of this kind; the empty kind stands for any kind.

    A passive needs a verb with persons as agents: "eaten" is gegessen by people, but gefressen by animals.
    """
    verbs = lexicon.VERBS[frame]
    if passive:
        verbs = tuple(verb for verb in verbs if "p" in verb.subjects and not verb.english_preposition)
    fitting = [verb for verb in verbs if subject_kind in (verb.objects if passive else verb.subjects)]
    return Distribution(fitting) if fitting else None


@functools.cache
def _verbs_with_object(kind: str) -> Distribution[Verb] | None:
    """The verbs with objects of this kind and without a preposition in both languages, for relative pronouns."""
    verbs = (verb for frame in ("transitive", "stative", "dative") for verb in lexicon.VERBS[frame])
    fitting = [one for one in verbs if kind in one.objects and not one.english_preposition + one.german_preposition]
    return Distribution(fitting) if fitting else None


class Sampler:
    """Draws derivations from the top down. depth, in all methods: number of remaining levels of embedding.

    relative_of_subject: probabilities, by depth, that a subject has a relative clause.
    """

    def __init__(self, generator: random.Random, relative_of_subject: Sequence[float]) -> None:
        self.random = generator.random
        self.relative_of_subject = relative_of_subject

    def draw(self, distribution: Distribution[Item]) -> Item:
        return distribution.items[bisect(distribution.cumulative, self.random())]

    def choose(self, items: Sequence[Item]) -> Item:
        return items[int(self.random() * len(items))]

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def sentence(self) -> Sentence:
        """A sentence. Its clauses have the same time and often the same subject."""
        shape = self.draw(SHAPES)
        past = self.chance(PAST)
        if shape == "simple":
            return Sentence(self.clause(past=past, depth=2, frames=ALL_FRAMES, is_main=True))
        if shape == "coordinated":
            first = self.clause(past=past, depth=1, is_main=True)
            second = self.clause(past=past, depth=1, is_main=True, subject=self.repeated_subject(first.subject, 0.35))
            return Sentence(first, self.draw(CONNECTIVES["coordinator"]), second, second_is_main=True)
        connective = self.draw(CONNECTIVES["reason" if self.chance(0.5) else "past" if past else "present"])
        fronted = shape == "subordinate before"
        first = self.clause(past=past, depth=1, is_main=not fronted)
        second = self.clause(past=past, depth=1, subject=self.repeated_subject(first.subject, 0.5))
        if fronted:
            first, second = second, first
        return Sentence(first, connective, second, second_is_fronted=fronted)

    def repeated_subject(self, subject: Nominal | None, probability: float) -> tuple[Pronoun, str] | None:
        """With this probability, a pronoun for the subject of another clause and the kind of the subject; else None."""
        if subject is None or not self.chance(probability):
            return None
        return anaphor(subject), kind_of(subject)

    def clause(
        self,
        *,
        past: bool,
        depth: int,
        frames: Distribution[str] = PLAIN_FRAMES,
        subject: tuple[Nominal, str] | None = None,
        is_main: bool = False,
    ) -> Clause:
        """A finite clause. subject: the subject and its kind; None draws a new subject."""
        frame = self.draw(frames)
        passive = frame == "transitive" and self.chance(PASSIVE)
        verbs = _verbs(frame, subject[1] if subject else "", passive=passive)
        if verbs is None:
            passive, verbs = False, _verbs("predicate", "")
        assert verbs is not None
        verb = self.draw(verbs)
        if subject:
            nominal, kind = subject
        else:
            kind = self.choose(verb.objects if passive else verb.subjects)
            nominal = self.nominal(kind, depth, self.relative_of_subject)
        tense, modal = self.tense(past, kind)
        negated = verb.frame != "ditransitive" and _can_be_negated(nominal, modal) and self.chance(NEGATION)
        clause = Clause(verb, nominal, tense, modal, passive, negated)
        clause = clause._replace(**self.arguments(clause, nominal, kind, depth, past=past))
        return self.with_adjuncts(clause, kind, depth, is_main=is_main)

    def arguments(self, clause: Clause, subject: Nominal, kind: str, depth: int, *, past: bool) -> dict[str, Any]:
        """The arguments that the frame of the verb needs, by slot. kind: of the subject."""
        verb, inner = clause.verb, max(depth - 1, 0)
        match "passive" if clause.passive else verb.frame:
            case "passive":
                has_agent = self.chance(AGENT)
                return {"agent": self.object("pa" if "a" in verb.subjects else "p", 0, subject)} if has_agent else {}
            case "intransitive":
                return {}
            case "predicate":
                intensifier = self.choose(lexicon.PREDICATE_INTENSIFIERS) if self.chance(0.3) else None
                return {"predicate": Quality(self.draw(_adjectives(kind)), intensifier)}
            case "location":
                return {"place": self.location(inner)}
            case "motion":
                return {"place": self.goal(inner)}
            case "clause" | "question":
                about = self.repeated_subject(subject, 0.3)
                return {"complement": self.clause(past=past, depth=inner, subject=about)}
            case "infinitive":
                return {"complement": self.infinitive(kind, inner, subject)}
            case "ditransitive":
                recipient = self.object("p", 0, subject)
                return {"recipient": recipient, "object": self.noun_phrase_of(verb.objects, depth)}
        return {"object": self.object(verb.objects, depth, subject, plain=clause.negated)}

    def with_adjuncts(self, clause: Clause, kind: str, depth: int, *, is_main: bool) -> Clause:
        """The clause with adverbs and prepositional phrases, one of which may come first. kind: of the subject.

        No adjunct follows a relative clause or a complement, where its attachment would be ambiguous.
        """
        object_, place = clause.object, clause.place
        last = place.object if place else object_
        is_heavy = isinstance(last, NounPhrase) and last.relative is not None
        has_room = not is_heavy and clause.complement is None and clause.predicate is None
        frequency = manner = time = comment = None
        is_scoped = clause.negated and object_ is not None  # "not" could stand before or after "in the house"
        if has_room and place is None and clause.agent is None and not is_scoped and self.chance(ADJUNCT[depth]):
            place = self.adjunct()
        if has_room and place is None and kind in "pa" and not clause.passive and self.chance(MANNER):
            manner = self.choose(lexicon.ADVERBS["manner"])
        if not clause.negated and self.chance(FREQUENCY):
            frequency = self.draw(FREQUENCIES)
        elif is_main and self.chance(COMMENT):
            comment = self.choose(lexicon.ADVERBS["comment"])
        elif (is_main or has_room) and self.chance(TIME):
            time = self.time_adverb(clause.tense, clause.modal)
        front: Slot = "subject"
        if comment:
            front = "comment"
        elif time and is_main and (not has_room or self.chance(TIME_IN_FRONT)):
            front = "time"
        elif is_main and place and not clause.place and not time and self.chance(PLACE_IN_FRONT):
            front = "place"
        return clause._replace(place=place, frequency=frequency, manner=manner, time=time, comment=comment, front=front)

    def tense(self, past: bool, kind: str) -> tuple[Tense, Modal | None]:
        """A tense, or a modal verb. Only subjects that can have a will "want to" do something."""
        if self.chance(MODAL_IN_PAST if past else MODAL_IN_PRESENT):
            modal = self.choose(lexicon.MODALS["past" if past else "present"])
            if kind in "pa" or not modal.to:
                return "present", modal
        return ("past" if past else "perfect" if self.chance(PERFECT) else "present"), None

    def time_adverb(self, tense: Tense, modal: Modal | None) -> Adverb | None:
        if tense == "perfect":
            return None
        if tense == "past" or modal in lexicon.MODALS["past"]:
            return self.choose(lexicon.ADVERBS["past"])
        return self.choose(lexicon.ADVERBS["future" if modal is lexicon.WILL else "present"])

    def infinitive(self, kind: str, depth: int, subject: Nominal) -> Clause:
        """An infinitive clause. kind: of its implicit subject."""
        verbs = _verbs(self.draw(INFINITIVE_FRAMES), kind)
        assert verbs is not None
        verb = self.draw(verbs)
        if verb.frame == "motion":
            return Clause(verb, place=self.goal(depth))
        return Clause(verb, object=self.object(verb.objects, depth, subject))

    def relative(self, noun: Noun, plural: bool, depth: int) -> Clause:
        """A relative clause in which the noun is the subject, the object or the place."""
        past = self.chance(PAST)
        pronoun = Relative(noun.kind == "p", lexicon.PLURAL if plural else noun.gender)
        if noun.place and self.chance(0.5):
            verb, place = (
                self.choose(lexicon.VERBS["location"]),
                PrepositionalPhrase(lexicon.AT_PLACE[noun.place], pronoun),
            )
            subject = self.nominal("p", depth, RELATIVE_OF_OBJECT)
            return Clause(verb, subject, *self.tense(past, "p"), place=place)
        if (verbs := _verbs_with_object(noun.kind)) and self.chance(0.4):
            verb = self.draw(verbs)
            kind = self.choose(verb.subjects)
            tense, modal = self.tense(past, kind)
            return Clause(verb, self.nominal(kind, depth, RELATIVE_OF_OBJECT), tense, modal, object=pronoun)
        return self.clause(past=past, depth=depth, subject=(pronoun, noun.kind))

    def nominal(self, kind: str, depth: int, relative: Sequence[float], *, plain: bool = False) -> Nominal:
        """A noun phrase of any form. plain: only forms that can stand in the scope of a negation."""
        if kind == "p":
            form = self.random()
            if form < PERSONAL_PRONOUN:
                return self.draw(PRONOUNS)
            if form < PERSONAL_PRONOUN + NAME:
                return self.name()
        if not plain and self.chance(COORDINATION):
            first, second = self.draw(NOUNS[kind]), self.draw(NOUNS[kind])
            if first is not second:
                return Coordination(self.noun_phrase(first, 0), self.noun_phrase(second, 0))
        return self.noun_phrase(self.draw(NOUNS[kind]), depth, relative, plain=plain)

    def object(self, kinds: str, depth: int, subject: Nominal, *, plain: bool = False) -> Nominal:
        """An object of one of these kinds that differs from the subject (not "I see me")."""
        nominal = self.nominal(self.choose(kinds), depth, RELATIVE_OF_OBJECT, plain=plain)
        if isinstance(nominal, Pronoun) and isinstance(subject, Pronoun | Relative):
            return self.draw(THIRD_PERSONS)
        return nominal

    def name(self) -> Name:
        female = self.chance(0.5)
        given = self.draw(WOMEN if female else MEN)
        words = (given, self.draw(FAMILIES)) if self.chance(FAMILY_NAME) else (given,)
        return Name(words, words, female)

    def noun_phrase(
        self, noun: Noun, depth: int, relative: Sequence[float] = RELATIVE_OF_OBJECT, *, plain: bool = False
    ) -> NounPhrase:
        """A noun with determiner, adjectives and attributes."""
        plural = self.chance(PLURALS)
        owner = self.owner(noun.kind, depth - 1) if self.chance(OWNER[depth]) else None
        determiner = lexicon.THE if owner else self.determiner(plural=plural, plain=plain)
        modifier = None
        if noun.kind in lexicon.COMPOUND_KINDS and self.chance(COMPOUND):
            drawn = self.draw(MODIFIERS)
            modifier = drawn if drawn.english != noun.english[0] else None
        attribute = self.attribute(noun) if self.chance(ATTRIBUTE[depth]) else None
        clause = self.relative(noun, plural, depth - 1) if self.chance(relative[depth]) else None
        return NounPhrase(noun, determiner, plural, self.qualities(noun.kind), modifier, owner, attribute, clause)

    def determiner(self, *, plural: bool, plain: bool) -> Determiner:
        """An article, a possessive or, unless `plain`, a quantifier."""
        while True:
            group = self.draw(PLURAL_DETERMINERS if plural else SINGULAR_DETERMINERS)
            determiner = self.choose(group)
            if not plain or determiner.definite or determiner in (lexicon.INDEFINITE, lexicon.BARE):
                return determiner

    def qualities(self, kind: str) -> tuple[Quality, ...]:
        count = self.random()
        if count >= ONE_QUALITY + TWO_QUALITIES:
            return ()
        adjective = self.draw(_adjectives(kind))
        first = Quality(adjective, self.choose(lexicon.ADVERBS["intensifier"]) if self.chance(INTENSIFIED) else None)
        if count < ONE_QUALITY or (second := self.draw(_adjectives(kind))) is adjective:
            return (first,)
        return (first, Quality(second))

    def owner(self, kind: str, depth: int) -> NounPhrase | Name:
        owner_kind = self.choose("pl" if kind in "tel" else "p")
        if owner_kind == "p" and self.chance(NAME):
            return self.name()
        return self.noun_phrase(self.draw(NOUNS[owner_kind]), depth, NO_RELATIVE)

    def attribute(self, noun: Noun) -> PrepositionalPhrase:
        if noun.kind in "pa" and self.chance(0.5):
            return PrepositionalPhrase(lexicon.WITH, self.noun_phrase_of("t"))
        if noun.kind in "dx":
            return PrepositionalPhrase(lexicon.ABOUT, self.noun_phrase_of("pexl"))
        if noun.kind == "p" and self.chance(0.4):
            return self.at_city(lexicon.FROM)
        return self.location(0)

    def noun_phrase_of(self, kinds: str, depth: int = 0) -> NounPhrase:
        return self.noun_phrase(self.draw(NOUNS[self.choose(kinds)]), depth)

    def at_city(self, preposition: Word) -> PrepositionalPhrase:
        city = self.draw(CITIES)
        return PrepositionalPhrase(preposition, Name((city.english,), (city.german,)))

    def location(self, depth: int) -> PrepositionalPhrase:
        form = self.random()
        if form < 0.15:
            return self.at_city(lexicon.IN_CITY)
        place = self.noun_phrase_of("l", depth)
        if form < 0.35:
            return PrepositionalPhrase(self.choose(lexicon.PREPOSITIONS["near"]), place)
        return PrepositionalPhrase(lexicon.AT_PLACE[place.noun.place], place)

    def goal(self, depth: int) -> PrepositionalPhrase:
        if self.chance(0.15):
            return self.at_city(lexicon.TO_CITY)
        place = self.noun_phrase_of("l", depth)
        return PrepositionalPhrase(lexicon.TO_PLACE[place.noun.place], place)

    def adjunct(self) -> PrepositionalPhrase:
        form = self.random()
        if form >= 0.4:
            return self.location(0)
        group, kind = ("event", "e") if form < 0.2 else ("company", "p")
        return PrepositionalPhrase(self.choose(lexicon.PREPOSITIONS[group]), self.noun_phrase_of(kind))


def anaphor(subject: Nominal) -> Pronoun:
    """The pronoun that refers to a subject: by sex in English, by grammatical gender in German."""
    if isinstance(subject, Pronoun):
        return subject
    if isinstance(subject, Name):
        return lexicon.SHE if subject.female else lexicon.HE
    if not isinstance(subject, NounPhrase) or subject.plural:
        return lexicon.THEY
    noun, english = subject.noun, ("it", "it")
    if noun.kind == "p" and (noun.gender != lexicon.NEUTER or noun.english[0] == "girl"):
        english = (lexicon.HE if noun.gender == lexicon.MASCULINE else lexicon.SHE).english
    return Pronoun(english, lexicon.GERMAN_THIRD_PERSONS[subject.row], lexicon.SINGULAR)


def kind_of(subject: Nominal) -> str:
    if isinstance(subject, NounPhrase):
        return subject.noun.kind
    return kind_of(subject.first) if isinstance(subject, Coordination) else "p"


def _can_be_negated(subject: Nominal, modal: Modal | None) -> bool:
    """Whether negation has the same scope in both languages, given the quantifiers and the modal verb."""
    if modal and modal.english[0] not in ("will", "should", "could"):
        return False
    if isinstance(subject, NounPhrase):
        return subject.determiner.definite
    return not isinstance(subject, Coordination)
