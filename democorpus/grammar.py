"""The abstract syntax of the demonstration corpus: the content of a sentence, independent of the language.

A derivation is a tree of these tuples with entries of the `lexicon` as leaves; `sampling` draws derivations. `english`
and `german` turn the same derivation into words, each with its own word order, agreement and inflection, so the two
sentences are translations of each other.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from democorpus.lexicon import MANY, PLURAL, SINGULAR, Adjective, Adverb, Determiner, Modal, Noun, Pronoun, Verb, Word

Tense = Literal["present", "past", "perfect"]
Slot = Literal["subject", "object", "place", "time", "comment"]


class Quality(NamedTuple):
    """An adjective with an optional intensifier: "very old"."""

    adjective: Adjective
    intensifier: Adverb | None = None


class PrepositionalPhrase(NamedTuple):
    preposition: Word
    object: Nominal


class NounPhrase(NamedTuple):
    """A noun with its attributes: "the very old garden door of the king behind the church that she saw"."""

    noun: Noun
    determiner: Determiner
    plural: bool = False
    qualities: tuple[Quality, ...] = ()
    modifier: Word | None = None
    owner: NounPhrase | Name | None = None
    attribute: PrepositionalPhrase | None = None
    relative: Clause | None = None

    @property
    def row(self) -> int:
        """The row in German tables: the gender, or plural."""
        return PLURAL if self.plural else self.noun.gender


class Name(NamedTuple):
    """The name of a person or a city in both languages."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    female: bool = False


class Relative(NamedTuple):
    """The relative pronoun in a relative clause. row: gender of the noun that it refers to, or plural."""

    human: bool
    row: int


class Coordination(NamedTuple):
    """Two noun phrases joined by "and"."""

    first: NounPhrase | Name
    second: NounPhrase | Name


Nominal: TypeAlias = "NounPhrase | Name | Pronoun | Relative | Coordination"


class Clause(NamedTuple):
    """A verb with its arguments and adjuncts.

    The frame of the verb decides which slots are filled. The verb decides whether `object` is accusative, dative or
    prepositional. agent: the "by" phrase of a passive. front: the constituent that begins a main clause. An infinitive
    has no subject. A relative clause has a `Relative` as its subject, its object, or the object of its place.
    particle_last: the English particle follows the object ("turned the offer down"). is_elided: the subject is that of
    a main clause before this one and is not written again ("The king slept and will help the queen").
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
    particle_last: bool = False
    is_elided: bool = False

    @property
    def agreement(self) -> int:
        return agreement(self.subject)

    @property
    def relative_slot(self) -> Slot:
        if isinstance(self.subject, Relative):
            return "subject"
        return "object" if isinstance(self.object, Relative) else "place"

    def without(self, slot: Slot) -> Clause:
        """The clause with an empty slot. The subject stays, because the finite verb agrees with it."""
        empty: dict[str, Any] = {} if slot == "subject" else {slot: None}
        return self._replace(**empty)


class Sentence(NamedTuple):
    """A main clause alone, with a subordinate clause before or after it, or coordinated with a second main clause."""

    main: Clause
    connective: Word | None = None
    second: Clause | None = None
    second_is_main: bool = False
    second_is_fronted: bool = False


class LongSentence(NamedTuple):
    """Sentences joined by connectives, one before each but the first."""

    parts: tuple[Sentence, ...]
    connectives: tuple[Word, ...]


def agreement(subject: Nominal | None) -> int:
    """The agreement of a finite verb with its subject: FIRST, SINGULAR or MANY, the same in both languages."""
    if isinstance(subject, Pronoun):
        return subject.agreement
    if isinstance(subject, NounPhrase | Relative):
        return MANY if subject.row == PLURAL else SINGULAR
    return MANY if isinstance(subject, Coordination) else SINGULAR


class ChunkWriter:
    """Writes tokens and their IOB2 chunk tags from left to right: the base of the writers of both languages."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.chunks: list[str] = []
        self.begin_chunk(None)

    def begin_chunk(self, kind: str | None) -> None:
        """The next words form a chunk of this kind; None: they are outside of all chunks."""
        self.next_tag, self.inner_tag = (f"B-{kind}", f"I-{kind}") if kind else ("O", "O")

    def token(self, word: str) -> str:
        """Write a token of the current chunk; returns it as it is written, the first one in upper case."""
        if not self.tokens:
            word = word[0].upper() + word[1:]
        self.tokens.append(word)
        self.chunks.append(self.next_tag)
        self.next_tag = self.inner_tag
        return word
