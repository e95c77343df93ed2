"""Derivations as English sentences, with constituency trees and chunks.

Trees follow the Penn Treebank, without function tags and traces. Chunks follow CoNLL-2000: base phrases that do not
nest. The chunk of a prepositional phrase is its preposition; a verb group with its auxiliaries is one chunk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from democorpus.grammar import (
    ChunkWriter,
    Clause,
    Coordination,
    Name,
    Nominal,
    NounPhrase,
    Quality,
    Relative,
    Sentence,
    agreement,
    relative_slot,
    without,
)
from democorpus.lexicon import BE, COMPLEMENTIZERS, DO, HAVE, Adverb, Connective, Pronoun
from democorpus.morphology import NEUTER, PLURAL, EnglishVerb, english_article

FINITE_TAGS = ("VBP", "VBZ", "VBP")

Tagged = tuple[str, str]  # a word and its part of speech


class Subject(NamedTuple):
    """A noun phrase as the subject of a finite verb. head, verb: positions of its noun and of the verb.

    number_is_hidden: the verb would have the same form if the subject had the other number, and so would the verb of a
    relative clause of which it is the subject.
    """

    phrase: NounPhrase
    head: int
    verb: int
    number_is_hidden: bool

    @property
    def distance(self) -> int:
        """Number of tokens from the noun to the verb; neighbours have the distance 1."""
        return self.verb - self.head


class EnglishSentence(NamedTuple):
    """The tokens, their Penn tree on one line, their IOB2 chunk tags, and the noun phrases that are subjects."""

    tokens: tuple[str, ...]
    tree: str
    chunks: tuple[str, ...]
    subjects: tuple[Subject, ...]


def realise_english(sentence: Sentence) -> EnglishSentence:
    """Turn a derivation into English."""
    writer = _EnglishWriter()
    writer.sentence(sentence)
    tree = "".join(writer.tree)[1:]
    return EnglishSentence(tuple(writer.tokens), tree, tuple(writer.chunks), tuple(writer.subjects))


class _EnglishWriter(ChunkWriter):
    """Writes a sentence from left to right; each method writes one constituent."""

    def __init__(self) -> None:
        super().__init__()
        self.tree: list[str] = []
        self.heads: dict[int, int] = {}  # position of the noun of a noun phrase, by its identity
        self.subjects: list[Subject] = []

    def word(self, word: str, tag: str) -> None:
        """Write a word: a leaf of the tree, a token, and a member of the current chunk."""
        self.tree.append(f" ({tag} {self.token(word)})")

    def outside(self, word: str, tag: str) -> None:
        """Write a word or a punctuation mark outside of all chunks."""
        self.begin_chunk(None)
        self.word(word, tag)

    @contextlib.contextmanager
    def constituent(self, label: str) -> Iterator[None]:
        """A constituent of what the block writes."""
        self.tree.append(f" ({label}")
        yield
        self.tree.append(")")

    def phrase(self, label: str, *words: Tagged, chunk: str | None) -> None:
        """A constituent of words. chunk: the kind of their chunk; None continues the current one."""
        with self.constituent(label):
            if chunk:
                self.begin_chunk(chunk)
            for word, tag in words:
                self.word(word, tag)

    def nominal(self, nominal: Nominal, *, is_subject: bool = False) -> None:
        """A noun phrase of any form but a relative pronoun, which `relative` writes."""
        if isinstance(nominal, NounPhrase):
            self.noun_phrase(nominal)
        elif isinstance(nominal, Name):
            self.phrase("NP", *((word, "NNP") for word in nominal.english), chunk="NP")
        elif isinstance(nominal, Pronoun):
            self.phrase("NP", (nominal.english[0 if is_subject else 1], "PRP"), chunk="NP")
        elif isinstance(nominal, Coordination):
            with self.constituent("NP"):
                self.nominal(nominal.first)
                self.outside("and", "CC")
                self.nominal(nominal.second)
        else:
            raise TypeError(f"a relative pronoun has no place of its own in English: {nominal}")

    def noun_phrase(self, phrase: NounPhrase) -> None:
        """A noun phrase. If it has attributes, its base is a noun phrase of its own within it."""
        has_attributes = phrase.owner is not None or phrase.attribute is not None or phrase.relative is not None
        with self.constituent("NP") if has_attributes else contextlib.nullcontext():
            self.base_noun_phrase(phrase)
            if phrase.owner:
                self.prepositional("of", phrase.owner)
            if phrase.attribute:
                self.prepositional(phrase.attribute.preposition.english, phrase.attribute.object)
            if phrase.relative:
                self.relative(phrase.relative)

    def base_noun_phrase(self, phrase: NounPhrase) -> None:
        """A noun with its determiner, its adjectives and the first part of a compound."""
        qualities = [_tagged(quality) for quality in phrase.qualities]
        modifier = phrase.modifier.english if phrase.modifier else None
        noun, determiner = phrase.noun.english[phrase.plural], phrase.determiner.english[phrase.plural]
        if determiner == "a":
            determiner = english_article(qualities[0][0][0] if qualities else modifier or noun)
        with self.constituent("NP"):
            self.begin_chunk("NP")
            if determiner:
                self.word(determiner, phrase.determiner.tag)
            for words in qualities:
                if len(words) > 1:
                    self.phrase("ADJP", *words, chunk=None)
                else:
                    self.word(*words[0])
            if modifier:
                self.word(modifier, "NNP" if modifier[0].isupper() else "NN")
            self.word(noun, "NNS" if phrase.plural else "NN")
            self.heads[id(phrase)] = len(self.tokens) - 1

    def prepositional(self, preposition: str, object_: Nominal) -> None:
        """A prepositional phrase."""
        with self.constituent("PP"):
            self.begin_chunk("PP")
            self.word(preposition, "TO" if preposition == "to" else "IN")
            self.nominal(object_)

    def adverb(self, adverb: Adverb, *, in_verb_group: bool = False) -> None:
        """A fixed expression, as adverb or noun phrase. In a verb group it belongs to the chunk of the verb."""
        label = "NP" if adverb.is_noun else "ADVP"
        self.phrase(label, *adverb.english, chunk=None if in_verb_group else label)

    def sentence(self, sentence: Sentence) -> None:
        """The whole sentence with its full stop."""
        main, connective, second = sentence.main, sentence.connective, sentence.second
        with self.constituent("S"):
            if connective is None or second is None:
                self.clause_parts(main)
            elif sentence.second_is_main:
                self.clause(main)
                self.outside(",", ",")
                self.outside(connective.english, connective.tag)
                self.clause(second)
            elif sentence.second_is_fronted:
                self.subordinate(connective, second)
                self.outside(",", ",")
                self.clause_parts(main)
            else:
                self.clause_parts(main, subordinate=(connective, second))
            self.outside(".", ".")

    def clause(self, clause: Clause) -> None:
        """A clause as a constituent of its own."""
        with self.constituent("S"):
            self.clause_parts(clause)

    def clause_parts(self, clause: Clause, *, subordinate: tuple[Connective, Clause] | None = None) -> None:
        """Subject and verb phrase. subordinate: a clause at the end."""
        if clause.front == "comment" and clause.comment:
            self.adverb(clause.comment)
            self.outside(",", ",")
        elif clause.front == "time" and clause.time:
            self.adverb(clause.time)
        elif clause.front == "place" and clause.place:
            self.prepositional(clause.place.preposition.english, clause.place.object)
            self.outside(",", ",")
        if clause.subject is not None and not isinstance(clause.subject, Relative):
            self.nominal(clause.subject, is_subject=True)
        with contextlib.ExitStack() as verb_phrases:
            self.verb_group(clause, verb_phrases)
            self.complements(without(clause, clause.front))
            if subordinate:
                connective, second = subordinate
                if connective.english in ("because", "although"):
                    self.outside(",", ",")
                self.subordinate(connective, second)

    def verb_group(self, clause: Clause, verb_phrases: contextlib.ExitStack) -> None:
        """Auxiliaries and verb. Each opens a phrase that holds the rest of the clause."""
        group = _verb_group(clause)
        frequency = clause.frequency
        after_first = len(group) > 1 and group[1][1] != "TO"
        if frequency and not after_first and clause.verb.english.base != "be":
            self.adverb(frequency)
            frequency = None
        self.begin_chunk("VP")
        for position, (word, tag) in enumerate(group):
            if tag == "TO" and position:
                verb_phrases.enter_context(self.constituent("S"))
            verb_phrases.enter_context(self.constituent("VP"))
            self.word(word, tag)
            if position == 0:
                self.note_subject(clause)
                if clause.negated:
                    self.word("not", "RB")
                if frequency:
                    self.adverb(frequency, in_verb_group=after_first)

    def note_subject(self, clause: Clause) -> None:
        """Record the subject of the finite verb that was just written."""
        subject = clause.subject
        if isinstance(subject, NounPhrase):
            is_hidden = _hides_number(clause) and (subject.relative is None or _hides_number(subject.relative))
            self.subjects.append(Subject(subject, self.heads[id(subject)], len(self.tokens) - 1, is_hidden))

    def complements(self, clause: Clause) -> None:
        """The constituents after the verb."""
        verb, object_ = clause.verb, clause.object
        particle = (verb.english.particle, "RP")  # "up" in "wake up"
        if verb.english.particle and not isinstance(object_, Pronoun):
            self.phrase("PRT", particle, chunk="PRT")
        if clause.recipient is not None:
            self.nominal(clause.recipient)
        if object_ is not None and verb.english_preposition:
            self.prepositional(verb.english_preposition, object_)
        elif object_ is not None:
            self.nominal(object_)
        if verb.english.particle and isinstance(object_, Pronoun):
            self.phrase("PRT", particle, chunk="PRT")
        if clause.predicate:
            self.phrase("ADJP", *_tagged(clause.predicate), chunk="ADJP")
        if clause.agent is not None:
            self.prepositional("by", clause.agent)
        if clause.manner:
            self.adverb(clause.manner)
        if clause.place:
            self.prepositional(clause.place.preposition.english, clause.place.object)
        if clause.time:
            self.adverb(clause.time)
        if clause.complement and clause.complement.subject is None:
            self.clause(clause.complement)
        elif clause.complement:
            self.subordinate(COMPLEMENTIZERS[verb.frame], clause.complement)

    def subordinate(self, connective: Connective, clause: Clause) -> None:
        """A conjunction and its clause."""
        conjunction = (connective.english, connective.tag)
        with self.constituent("SBAR"):
            if connective.tag == "WRB":
                self.phrase("WHADVP", conjunction, chunk="ADVP")
            else:
                self.begin_chunk("SBAR")
                self.word(*conjunction)
            self.clause(clause)

    def relative(self, clause: Clause) -> None:
        """A relative clause: the pronoun, with its preposition, and the clause without it."""
        gap = relative_slot(clause)
        with self.constituent("SBAR"):
            if gap == "place" and clause.place:
                with self.constituent("WHPP"):
                    self.begin_chunk("PP")
                    self.word(clause.place.preposition.english, "IN")
                    self.phrase("WHNP", ("which", "WDT"), chunk="NP")
            else:
                pronoun = clause.subject if gap == "subject" else clause.object
                is_human = isinstance(pronoun, Relative) and pronoun.human
                self.phrase("WHNP", ("who", "WP") if is_human else ("that", "WDT"), chunk="NP")
            self.clause(without(clause, gap))


def _tagged(quality: Quality) -> list[Tagged]:
    """The words of an adjective with its intensifier."""
    intensifier = quality.intensifier.english if quality.intensifier else ()
    return [*intensifier, (quality.adjective.english, "JJ")]


def _hides_number(clause: Clause) -> bool:
    """Whether the finite verb has the same form in the other number. Not asked of clauses with other subjects."""
    subject = clause.subject
    other: Nominal
    if isinstance(subject, NounPhrase):
        other = subject._replace(plural=not subject.plural)
    elif isinstance(subject, Relative):
        other = subject._replace(row=NEUTER if subject.row == PLURAL else PLURAL)
    else:
        return True
    return _verb_group(clause._replace(subject=other))[0][0] == _verb_group(clause)[0][0]


def _verb_group(clause: Clause) -> list[Tagged]:
    """Auxiliaries and verb. Each word decides the form of the next one."""
    person = agreement(clause.subject)
    group: list[Tagged] = []
    form = "finite"
    modal, main = clause.modal, clause.verb.english

    def add(verb: EnglishVerb) -> None:
        if form == "base":
            group.append((verb.base, "VB"))
        elif form == "participle":
            group.append((verb.participle, "VBN"))
        elif clause.tense == "past":
            group.append((verb.past[person], "VBD"))
        else:
            group.append((verb.present[person], FINITE_TAGS[person]))

    if clause.subject is None:
        group.append(("to", "TO"))
        form = "base"
    elif modal:
        group.append((modal.english[person], modal.tag or FINITE_TAGS[person]))
        if modal.to:
            group.append(("to", "TO"))
        form = "base"
    elif clause.tense == "perfect":
        add(HAVE)
        form = "participle"
    elif clause.negated and not clause.passive and main.base != "be":
        add(DO)
        form = "base"
    if clause.passive:
        add(BE)
        form = "participle"
    add(main)
    return group
