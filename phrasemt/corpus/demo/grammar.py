"""The abstract syntax of the demonstration corpus: what a sentence says, before either language says it.

A derivation is a tree of these tuples. `demo_english` and `demo_german` each turn it into words, with that language's
own order, agreement and inflection; because both start from the same derivation, their sentences are translations.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from phrasemt.corpus.demo.lexicon import (
    Adjective,
    Adverb,
    Connective,
    Determiner,
    Modal,
    Modifier,
    Noun,
    Preposition,
    Pronoun,
    Verb,
)
from phrasemt.corpus.demo.morphology import MANY, PLURAL, SINGULAR

Tense = Literal["present", "past", "perfect"]
Slot = Literal["subject", "object", "place", "time", "comment"]


class Quality(NamedTuple):
    """An adjective, perhaps intensified: "very old"."""

    adjective: Adjective
    intensifier: Adverb | None = None


class PrepositionalPhrase(NamedTuple):
    """A preposition and what it governs."""

    preposition: Preposition
    object: Nominal


class NounPhrase(NamedTuple):
    """A noun with all that belongs to it: "the very old garden door of the king behind the church that she saw"."""

    noun: Noun
    determiner: Determiner
    plural: bool = False
    qualities: tuple[Quality, ...] = ()
    modifier: Modifier | None = None
    owner: NounPhrase | Name | None = None
    attribute: PrepositionalPhrase | None = None
    relative: Clause | None = None


class Name(NamedTuple):
    """A person or a city, in the words of either language."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    female: bool = False


class Relative(NamedTuple):
    """The relative pronoun inside a relative clause; `column` is gender or plural of what it refers to."""

    human: bool
    column: int


class Coordination(NamedTuple):
    """Two noun phrases joined by "and"."""

    first: NounPhrase | Name
    second: NounPhrase | Name


Nominal: TypeAlias = "NounPhrase | Name | Pronoun | Relative | Coordination"


class Clause(NamedTuple):
    """A verb with its arguments and adjuncts.

    The frame of the verb decides which slots are filled. `object` is accusative, dative or prepositional as the verb
    asks; `agent` is the "by" of a passive; an infinitive has no subject. `front` names what opens a main clause in
    place of the subject. A relative clause holds a `Relative` as subject, object or object of the place.
    """

    verb: Verb
    subject: Nominal | None = None
    tense: Tense = "present"
    modal: Modal | None = None
    passive: bool = False
    negated: bool = False
    object: Nominal | None = None
    recipient: Nominal | None = None
    agent: Nominal | None = None
    predicate: Quality | None = None
    complement: Clause | None = None
    place: PrepositionalPhrase | None = None
    frequency: Adverb | None = None
    manner: Adverb | None = None
    time: Adverb | None = None
    comment: Adverb | None = None
    front: Slot = "subject"


class Sentence(NamedTuple):
    """A main clause, alone, with a subordinate clause before or after it, or joined to a second main clause."""

    main: Clause
    connective: Connective | None = None
    second: Clause | None = None
    second_is_main: bool = False
    second_is_fronted: bool = False


def agreement(subject: Nominal | None) -> int:
    """What the finite verb agrees with: FIRST, SINGULAR or MANY. The same in both languages."""
    if isinstance(subject, NounPhrase):
        return MANY if subject.plural else SINGULAR
    if isinstance(subject, Pronoun):
        return subject.agreement
    if isinstance(subject, Relative):
        return MANY if subject.column == PLURAL else SINGULAR
    return MANY if isinstance(subject, Coordination) else SINGULAR


def column(phrase: NounPhrase) -> int:
    """The row of the German tables a noun phrase belongs to: its gender, or plural."""
    return PLURAL if phrase.plural else phrase.noun.gender


def relative_slot(clause: Clause) -> Slot:
    """Which part of a relative clause is the relative pronoun."""
    if isinstance(clause.subject, Relative):
        return "subject"
    return "object" if isinstance(clause.object, Relative) else "place"
