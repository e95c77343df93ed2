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
    LongSentence,
    Name,
    Nominal,
    NounPhrase,
    Quality,
    Relative,
    Sentence,
)
from democorpus.lexicon import BE, COMPLEMENTIZERS, DO, HAVE, NEUTER, PLURAL, Adverb, EnglishVerb, Pronoun, Word

FINITE_TAGS = ("VBP", "VBZ", "VBP")

Tagged = tuple[str, str]  # a word and its part of speech


class Subject(NamedTuple):
    """A noun phrase as the subject of a finite verb.

    distance: number of tokens from its noun to the verb; neighbours have the distance 1. number_is_hidden: the verb
    would have the same form if the subject had the other number, and so would the verb of its relative clause.
    """

    phrase: NounPhrase
    distance: int
    number_is_hidden: bool
    clause: Clause


class EnglishSentence(ChunkWriter):
    """A derivation in English. Each method writes one constituent, from left to right.

    tree: its Penn tree on one line. subjects: the noun phrases that are subjects. distances: of verbs with a particle,
    further words or two objects, by their base form, the number of tokens to that part; neighbours have the distance 1.
    """

    def __init__(self, sentence: Sentence | LongSentence) -> None:
        super().__init__()
        self.pieces: list[str] = []  # of the tree
        self.heads: dict[int, int] = {}  # position of the noun of a noun phrase, by its identity
        self.subjects: list[Subject] = []
        self.distances: dict[str, int] = {}
        self.sentence(sentence)
        self.tree = "".join(self.pieces)[1:]

    def word(self, word: str, tag: str) -> None:
        self.pieces.append(f" ({tag} {self.token(word)})")

    def outside(self, word: str, tag: str) -> None:
        self.begin_chunk(None)
        self.word(word, tag)

    @contextlib.contextmanager
    def constituent(self, label: str, chunk: str | None = None) -> Iterator[None]:
        """A constituent of what the block writes. chunk: the kind of the chunk that begins with it, if any."""
        self.pieces.append(f" ({label}")
        if chunk:
            self.begin_chunk(chunk)
        yield
        self.pieces.append(")")

    def phrase(self, label: str, *words: Tagged, chunk: str | None) -> None:
        """A constituent of words. chunk: the kind of their chunk; None continues the current one."""
        with self.constituent(label, chunk):
            for word, tag in words:
                self.word(word, tag)

    def nominal(self, nominal: Nominal, *, is_subject: bool = False) -> None:
        """A noun phrase of any form but a relative pronoun, which `relative` writes."""
        match nominal:
            case NounPhrase():
                self.noun_phrase(nominal)
            case Name():
                self.phrase("NP", *((word, "NNP") for word in nominal.english), chunk="NP")
            case Pronoun():
                self.phrase("NP", (nominal.english[0 if is_subject else 1], "PRP"), chunk="NP")
            case Coordination():
                with self.constituent("NP"):
                    self.nominal(nominal.first)
                    self.outside("and", "CC")
                    self.nominal(nominal.second)
            case _:
                raise TypeError(f"a relative pronoun has no place of its own in English: {nominal}")

    def noun_phrase(self, phrase: NounPhrase) -> None:
        """A noun phrase. If it has attributes, its base is a noun phrase of its own within it."""
        has_attributes = phrase.owner is not None or phrase.attribute is not None or phrase.relative is not None
        with self.constituent("NP") if has_attributes else contextlib.nullcontext():
            self.base_noun_phrase(phrase)
            self.argument("of", phrase.owner)
            if phrase.attribute:
                self.argument(phrase.attribute.preposition.english, phrase.attribute.object)
            if phrase.relative:
                self.relative(phrase.relative)

    def base_noun_phrase(self, phrase: NounPhrase) -> None:
        """A noun with its determiner, its adjectives and the first part of a compound."""
        qualities = [_tagged(quality) for quality in phrase.qualities]
        modifier = [(one.english, "NNP" if one.english[0].isupper() else "NN") for one in (phrase.modifier,) if one]
        noun = (phrase.noun.english[phrase.plural], "NNS" if phrase.plural else "NN")
        determiner = phrase.determiner.english[phrase.plural]
        if determiner == "a":
            determiner = _article([*(words[0] for words in qualities), *modifier, noun][0][0])
        with self.constituent("NP", "NP"):
            if determiner:
                self.word(determiner, phrase.determiner.tag)
            for words in qualities:
                if len(words) > 1:
                    self.phrase("ADJP", *words, chunk=None)
                else:
                    self.word(*words[0])
            for word in (*modifier, noun):
                self.word(*word)
            self.heads[id(phrase)] = len(self.tokens) - 1

    def argument(self, preposition: str, nominal: Nominal | None) -> None:
        if nominal is not None and not preposition:
            self.nominal(nominal)
        elif nominal is not None:
            with self.constituent("PP", "PP"):
                self.word(preposition, "TO" if preposition == "to" else "IN")
                self.nominal(nominal)

    def adverb(self, adverb: Adverb | None, *, in_verb_group: bool = False) -> None:
        """A fixed expression, as adverb or noun phrase. In a verb group it belongs to the chunk of the verb."""
        if adverb:
            label = "NP" if adverb.is_noun else "ADVP"
            self.phrase(label, *adverb.english, chunk=None if in_verb_group else label)

    def sentence(self, sentence: Sentence | LongSentence) -> None:
        with self.constituent("S"):
            if isinstance(sentence, Sentence):
                self.clauses(sentence)
            else:
                for part, connective in zip(sentence.parts, (None, *sentence.connectives), strict=True):
                    if connective:
                        if not part.main.is_elided:
                            self.outside(",", ",")
                        self.outside(connective.english, connective.tag)
                    with self.constituent("S"):
                        self.clauses(part)
            self.outside(".", ".")

    def clauses(self, sentence: Sentence) -> None:
        main, connective, second = sentence.main, sentence.connective, sentence.second
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

    def clause(self, clause: Clause) -> None:
        with self.constituent("S"):
            self.clause_parts(clause)

    def clause_parts(self, clause: Clause, *, subordinate: tuple[Word, Clause] | None = None) -> None:
        """Subject and verb phrase. subordinate: a clause at the end."""
        if clause.front == "place" and clause.place:
            self.argument(clause.place.preposition.english, clause.place.object)
        elif clause.front in ("comment", "time"):
            self.adverb(clause.comment if clause.front == "comment" else clause.time)
        if clause.front in ("comment", "place"):
            self.outside(",", ",")
        if clause.subject is not None and not isinstance(clause.subject, Relative) and not clause.is_elided:
            self.nominal(clause.subject, is_subject=True)
        with contextlib.ExitStack() as verb_phrases:
            self.verb_group(clause, verb_phrases)
            self.complements(clause.without(clause.front))
            if subordinate:
                if subordinate[0].english in ("because", "although"):
                    self.outside(",", ",")
                self.subordinate(*subordinate)

    def verb_group(self, clause: Clause, verb_phrases: contextlib.ExitStack) -> None:
        """Auxiliaries and verb. Each opens a phrase that holds the rest of the clause."""
        group = _verb_group(clause)
        frequency = clause.frequency
        after_first = len(group) > 1 and group[1][1] != "TO"
        if not after_first and clause.verb.english.base != "be":
            self.adverb(frequency)
            frequency = None
        self.begin_chunk("VP")
        for position, (word, tag) in enumerate(group):
            if tag == "TO" and position:
                verb_phrases.enter_context(self.constituent("S"))
            verb_phrases.enter_context(self.constituent("VP"))
            self.word(word, tag)
            if position == 0:
                self.record_subject(clause)
                if clause.negated:
                    self.word("not", "RB")
                self.adverb(frequency, in_verb_group=after_first)

    def record_subject(self, clause: Clause) -> None:
        subject = clause.subject
        if isinstance(subject, NounPhrase):
            is_hidden = _hides_number(clause) and (subject.relative is None or _hides_number(subject.relative))
            distance = len(self.tokens) - 1 - self.heads[id(subject)]
            self.subjects.append(Subject(subject, distance, is_hidden, clause))

    def complements(self, clause: Clause) -> None:
        """The constituents after the verb. "up" in "wake up" follows an object that is a pronoun."""
        verb, particle = clause.verb, (clause.verb.english.particle, "RP")
        is_last = clause.particle_last or isinstance(clause.object, Pronoun)
        last_of_verb = len(self.tokens) - 1
        if particle[0] and not is_last:
            self.phrase("PRT", particle, chunk="PRT")
        self.argument("", clause.recipient)
        distance = len(self.tokens) - last_of_verb
        self.argument(verb.english_preposition, clause.object)
        if (particle[0] and is_last) or verb.english_rest:
            distance = len(self.tokens) - last_of_verb
        self.distances[verb.english.base] = 1 if particle[0] and not is_last else distance
        if particle[0] and is_last:
            self.phrase("PRT", particle, chunk="PRT")
        for words in verb.english_rest:
            self.rest(words)
        if clause.predicate:
            self.phrase("ADJP", *_tagged(clause.predicate), chunk="ADJP")
        self.argument("by", clause.agent)
        self.adverb(clause.manner)
        if clause.place:
            self.argument(clause.place.preposition.english, clause.place.object)
        self.adverb(clause.time)
        if clause.complement and clause.complement.subject is None:
            self.clause(clause.complement)
        elif clause.complement:
            self.subordinate(COMPLEMENTIZERS[verb.frame], clause.complement)

    def rest(self, words: tuple[Tagged, ...]) -> None:
        """A phrase of the further words of a multiword unit: a particle, or a preposition with its noun phrase."""
        first, *others = words
        if first[1] == "RP":
            self.phrase("PRT", first, chunk="PRT")
            return
        with self.constituent("PP", "PP"):
            self.word(*first)
            self.phrase("NP", *others, chunk="NP")

    def subordinate(self, connective: Word, clause: Clause) -> None:
        with self.constituent("SBAR"):
            if connective.tag == "WRB":
                self.phrase("WHADVP", (connective.english, connective.tag), chunk="ADVP")
            else:
                self.begin_chunk("SBAR")
                self.word(connective.english, connective.tag)
            self.clause(clause)

    def relative(self, clause: Clause) -> None:
        """A relative clause: the pronoun, with its preposition, and the clause without it."""
        gap = clause.relative_slot
        with self.constituent("SBAR"):
            if gap == "place" and clause.place:
                with self.constituent("WHPP", "PP"):
                    self.word(clause.place.preposition.english, "IN")
                    self.phrase("WHNP", ("which", "WDT"), chunk="NP")
            else:
                pronoun = clause.subject if gap == "subject" else clause.object
                is_human = isinstance(pronoun, Relative) and pronoun.human
                self.phrase("WHNP", ("who", "WP") if is_human else ("that", "WDT"), chunk="NP")
            self.clause(clause.without(gap))


def _article(next_word: str) -> str:
    """`a` or `an`, depending on the first sound of the next word."""
    if next_word.startswith(("use", "uni")) or next_word[0].lower() not in "aeiou":
        return "an" if next_word == "honest" else "a"
    return "an"


def _tagged(quality: Quality) -> list[Tagged]:
    return [*(quality.intensifier.english if quality.intensifier else ()), (quality.adjective.english, "JJ")]


def _hides_number(clause: Clause) -> bool:
    """Whether the finite verb has the same form in the other number. Not asked of clauses with other subjects."""
    match clause.subject:
        case NounPhrase() as subject:
            other: Nominal = subject._replace(plural=not subject.plural)
        case Relative() as subject:
            other = subject._replace(row=NEUTER if subject.row == PLURAL else PLURAL)
        case _:
            return True
    return _verb_group(clause._replace(subject=other))[0][0] == _verb_group(clause)[0][0]


def _verb_group(clause: Clause) -> list[Tagged]:
    """Auxiliaries and verb. Each word decides the form of the next one."""
    person, modal, main = clause.agreement, clause.modal, clause.verb.english
    group: list[Tagged] = []
    verbs: list[tuple[EnglishVerb, str]] = []  # each with the form of the next one
    form = "finite"
    if clause.subject is None or modal:
        if modal:
            group.append((modal.english[person], modal.tag or FINITE_TAGS[person]))
        if not modal or modal.to:
            group.append(("to", "TO"))
        form = "base"
    elif clause.tense == "perfect":
        verbs.append((HAVE, "participle"))
    elif clause.negated and not clause.passive and main.base != "be":
        verbs.append((DO, "base"))
    for verb, next_form in (*verbs, *([(BE, "participle")] if clause.passive else []), (main, "")):
        if form == "base":
            group.append((verb.base, "VB"))
        elif form == "participle":
            group.append((verb.participle, "VBN"))
        elif clause.tense == "past":
            group.append((verb.past[person], "VBD"))
        else:
            group.append((verb.present[person], FINITE_TAGS[person]))
        form = next_form
    return group
