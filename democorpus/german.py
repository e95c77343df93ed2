"""Derivations as German sentences, with chunks and with the agreement of finite verbs for contrastive variants.

The word order follows the topological fields: prefield, finite verb, middle field, right bracket (prefix, participle,
infinitive), afterfield. In a subordinate clause the finite verb ends the right bracket. The middle field has the order
subject, pronouns, time, recipient, object, negation, manner, prepositional object or agent, place or goal, predicate,
further words of a multiword unit.
"""

from __future__ import annotations

from typing import NamedTuple

from democorpus import lexicon
from democorpus.grammar import (
    ChunkWriter,
    Clause,
    Coordination,
    LongSentence,
    Name,
    Nominal,
    NounPhrase,
    PrepositionalPhrase,
    Relative,
    Sentence,
    Slot,
    agreement,
)
from democorpus.lexicon import DATIVE, GENITIVE, NOMINATIVE, RELATIVE_PRONOUNS, Adverb, Finite, Pronoun, Word

Postponed = list[Clause] | None


class Agreement(NamedTuple):
    """A finite verb that is ungrammatical in the other number.

    verb, subject: positions of the verb and of the head of its subject; wrong: the verb in the wrong number; nominal:
    the subject.
    """

    verb: int
    subject: int
    wrong: str
    nominal: Nominal
    clause: Clause

    @property
    def distance(self) -> int:
        """Number of tokens from the head of the subject to the verb, or back; neighbours have the distance 1."""
        return abs(self.verb - self.subject)


class GermanSentence(ChunkWriter):
    """A derivation in German. Each method writes one constituent, from left to right.

    agreements: the finite verbs that are surely ungrammatical in the other number.
    Methods request a comma with `comma_due`. It is written before the next word, only once even if several clauses meet
    there, and not before the full stop. postponed, in many methods: a list that receives the relative clauses, which
    are then written in the afterfield; None writes them in their place.
    """

    def __init__(self, sentence: Sentence | LongSentence) -> None:
        super().__init__()
        self.agreements: list[Agreement] = []
        self.comma_due = False
        self.heads: dict[int, int] = {}  # position of the subject of a main clause, by its identity
        self.sentence(sentence)

    def chunk(self, kind: str | None, *words: str) -> None:
        self.begin_chunk(kind)
        self.words(*words)

    def words(self, *words: str) -> None:
        for word in words:
            if self.tokens and self.comma_due:
                self.tokens.append(",")
                self.chunks.append("O")
            self.comma_due = False
            self.token(word)

    def nominal(self, nominal: Nominal, case: int, *, postponed: Postponed = None) -> int:
        """A noun phrase of any form. Returns the position of its head."""
        match nominal:
            case NounPhrase():
                return self.noun_phrase(nominal, case, postponed=postponed)
            case Name():
                self.chunk("NP", *nominal.german)
            case Pronoun():
                self.chunk("NP", nominal.german[case])
            case Relative():
                self.chunk("NP", RELATIVE_PRONOUNS[nominal.row][case])
            case Coordination():
                self.nominal(nominal.first, case)
                self.chunk(None, "und")
                self.nominal(nominal.second, case)
        return len(self.tokens) - 1

    def noun_phrase(
        self, phrase: NounPhrase, case: int, *, contracted: bool = False, kein: bool = False, postponed: Postponed
    ) -> int:
        """A noun phrase with its attributes. contracted: the preposition already contains the article."""
        determiner = lexicon.KEIN if kein else phrase.determiner
        self.begin_chunk("NP")
        if determiner.german and not contracted:
            self.words(determiner.german[phrase.row][case])
        for quality in phrase.qualities:
            if quality.intensifier:
                self.words(quality.intensifier.german[0])
            self.words(quality.adjective.inflected[determiner.declension][phrase.row][case])
        noun = phrase.noun.german[phrase.plural][case]
        self.words(phrase.modifier.german + noun.lower() if phrase.modifier else noun)
        head = len(self.tokens) - 1
        if isinstance(phrase.owner, NounPhrase) and _shows_genitive(phrase.owner):
            self.nominal(phrase.owner, GENITIVE)
        elif phrase.owner:
            self.preposition("von", phrase.owner, DATIVE)
        if phrase.attribute:
            self.prepositional(phrase.attribute)
        if phrase.relative and postponed is not None:
            postponed.append(phrase.relative)
        elif phrase.relative:
            self.relative(phrase.relative)
        return head

    def prepositional(self, phrase: PrepositionalPhrase, *, postponed: Postponed = None) -> None:
        self.preposition(phrase.preposition.german, phrase.object, phrase.preposition.case, postponed=postponed)

    def preposition(self, preposition: str, object_: Nominal, case: int, *, postponed: Postponed = None) -> None:
        """A preposition and its object. German contracts some prepositions with the article."""
        self.begin_chunk("PP")
        if not isinstance(object_, NounPhrase):
            self.words(preposition)
            self.nominal(object_, case)
            return
        if case == GENITIVE and not _shows_genitive(object_):
            case = DATIVE
        contraction = None
        if object_.determiner is lexicon.THE and not object_.relative:
            contraction = lexicon.CONTRACTIONS.get(f"{preposition}+{lexicon.ARTICLES[object_.row][case]}")
        self.words(contraction or preposition)
        self.noun_phrase(object_, case, contracted=contraction is not None, postponed=postponed)

    def adverb(self, adverb: Adverb | None) -> None:
        if adverb:
            self.chunk("NP" if len(adverb.german) > 1 else "ADVP", *adverb.german)

    def sentence(self, sentence: Sentence | LongSentence) -> None:
        if isinstance(sentence, Sentence):
            self.clauses(sentence)
        else:
            for part, connective in zip(sentence.parts, (None, *sentence.connectives), strict=True):
                if connective:
                    self.comma_due |= not part.main.is_elided
                    self.chunk(None, connective.german)
                self.clauses(part)
        self.comma_due = False
        self.chunk(None, ".")

    def clauses(self, sentence: Sentence) -> None:
        connective, second = sentence.connective, sentence.second
        if connective and second and sentence.second_is_fronted:
            self.subordinate(connective, second)
        self.main_clause(sentence.main, prefield_is_filled=sentence.second_is_fronted)
        if connective and second and sentence.second_is_main:
            self.comma_due = True
            self.chunk(None, connective.german)
            self.main_clause(second)
        elif connective and second and not sentence.second_is_fronted:
            self.subordinate(connective, second)

    def main_clause(self, clause: Clause, *, prefield_is_filled: bool = False) -> None:
        """A clause with the finite verb in second place."""
        assert clause.subject is not None
        finite, prefix, infinite = _verb_forms(clause)
        head = self.heads[id(clause.subject)] if clause.is_elided else None
        if clause.front == "place" and clause.place:
            self.prepositional(clause.place)
        elif clause.front in ("time", "comment"):
            self.adverb(clause.time if clause.front == "time" else clause.comment)
        elif head is None and not prefield_is_filled:
            head = self.nominal(clause.subject, NOMINATIVE)
        self.chunk("VP", finite[clause.agreement])
        verb = len(self.tokens) - 1
        if head is None:
            head = self.nominal(clause.subject, NOMINATIVE)
        self.heads[id(clause.subject)] = head
        postponed: Postponed = [] if prefix or infinite else None
        self.middle_field(clause.without(clause.front), postponed)
        if prefix:
            self.chunk("PRT", prefix)
        if infinite and len(self.tokens) > verb + 1:  # else nothing stands between the parts of the verb: one chunk
            self.begin_chunk("VP")
        self.words(*infinite)
        self.afterfield(clause, postponed)
        self.record_agreement(clause, head, verb, finite)

    def final_clause(self, clause: Clause, *, gap: Slot = "subject") -> None:
        """A clause with the finite verb at the end. gap: slot of a relative pronoun that `relative` has written."""
        assert clause.subject is not None
        finite, prefix, infinite = _verb_forms(clause)
        head = self.nominal(clause.subject, NOMINATIVE)
        postponed: list[Clause] = []
        self.middle_field(clause.without(gap), postponed)
        self.chunk("VP", *infinite, prefix + finite[clause.agreement])
        verb = len(self.tokens) - 1
        self.afterfield(clause, postponed)
        self.record_agreement(clause, head, verb, finite, prefix)

    def infinitive_clause(self, clause: Clause) -> None:
        self.comma_due = True
        postponed: list[Clause] = []
        self.middle_field(clause, postponed)
        prefix, infinitive = clause.verb.german.prefix, clause.verb.german.infinitive
        self.chunk("VP", *([f"{prefix}zu{infinitive}"] if prefix else ["zu", infinitive]))
        self.afterfield(clause, postponed)
        self.comma_due = True

    def middle_field(self, clause: Clause, postponed: Postponed) -> None:
        """The constituents between finite verb or conjunction and right bracket, except the subject."""
        verb = clause.verb
        object_ = None if verb.german_preposition else clause.object
        for nominal, case in ((object_, verb.case), (clause.recipient, DATIVE)):
            if isinstance(nominal, Pronoun):
                self.nominal(nominal, case)
        self.adverb(clause.time)
        self.adverb(clause.frequency)
        if clause.recipient is not None and not isinstance(clause.recipient, Pronoun):
            self.nominal(clause.recipient, DATIVE)
        kein = False
        if isinstance(object_, NounPhrase):
            kein = clause.negated and object_.determiner in (lexicon.INDEFINITE, lexicon.BARE)
            self.noun_phrase(object_, verb.case, kein=kein, postponed=postponed)
        elif object_ is not None and not isinstance(object_, Pronoun):
            self.nominal(object_, verb.case)
        if clause.negated and not kein:
            self.chunk("ADVP", "nicht")
        self.adverb(clause.manner)
        if clause.object is not None and verb.german_preposition:
            self.preposition(verb.german_preposition, clause.object, verb.case, postponed=postponed)
        if clause.agent is not None:
            self.preposition("von", clause.agent, DATIVE, postponed=postponed)
        if clause.place:
            self.prepositional(clause.place, postponed=postponed)
        if clause.predicate:
            intensifier = clause.predicate.intensifier
            self.chunk("ADJP", *(intensifier.german if intensifier else ()), clause.predicate.adjective.german)
        for word, chunk in verb.german_rest:
            if chunk:
                self.begin_chunk(chunk)
            self.words(word)

    def afterfield(self, clause: Clause, postponed: Postponed) -> None:
        """The constituents after the right bracket: postponed relative clauses and the complement of the verb."""
        for relative in postponed or ():
            self.relative(relative)
        if clause.complement is not None and clause.complement.subject is None:
            self.infinitive_clause(clause.complement)
        elif clause.complement is not None:
            self.subordinate(lexicon.COMPLEMENTIZERS[clause.verb.frame], clause.complement)

    def subordinate(self, connective: Word, clause: Clause) -> None:
        self.comma_due = True
        self.chunk("SBAR", connective.german)
        self.final_clause(clause)
        self.comma_due = True

    def relative(self, clause: Clause) -> None:
        self.comma_due = True
        gap = clause.relative_slot
        if gap == "object" and clause.object is not None:
            self.nominal(clause.object, clause.verb.case)
        elif gap == "place" and clause.place:
            self.prepositional(clause.place)
        self.final_clause(clause, gap=gap)
        self.comma_due = True

    def record_agreement(self, clause: Clause, subject: int, verb: int, finite: Finite, prefix: str = "") -> None:
        """Record a finite verb for contrastive variants if the other number is surely ungrammatical."""
        if clause.subject is not None and _number_is_certain(clause, is_inverted=verb < subject):
            wrong = prefix + finite[lexicon.SINGULAR if clause.agreement == lexicon.MANY else lexicon.MANY]
            if wrong != self.tokens[verb]:
                self.agreements.append(Agreement(verb, subject, wrong, clause.subject, clause))


def _shows_genitive(phrase: NounPhrase) -> bool:
    """Whether the genitive is visible. It is not in numerals and in bare plurals without an adjective."""
    return phrase.determiner.tag != "CD" and (phrase.determiner is not lexicon.BARE or bool(phrase.qualities))


def _verb_forms(clause: Clause) -> tuple[Finite, str, tuple[str, ...]]:
    """The forms of the finite verb, its separable prefix, and participles and infinitives in the right bracket."""
    verb, werden = clause.verb.german, lexicon.WERDEN
    if clause.modal:
        infinite = (verb.participle, werden.infinitive) if clause.passive else (verb.prefix + verb.infinitive,)
        return clause.modal.german, "", infinite
    if clause.tense == "perfect":
        auxiliary = lexicon.SEIN if clause.passive or verb.perfect_with_sein else lexicon.HABEN
        return auxiliary.present, "", (verb.participle, *([werden.participle] if clause.passive else []))
    finite = werden if clause.passive else verb
    forms = finite.past if clause.tense == "past" else finite.present
    return (forms, "", (verb.participle,)) if clause.passive else (forms, verb.prefix, ())


def _looks_like(nominal: Nominal, case: int, other: int) -> bool:
    """Whether a noun phrase has equal forms in two cases."""
    match nominal:
        case NounPhrase(determiner=determiner, row=row):
            forms = [nominal.noun.german[nominal.plural], *([determiner.german[row]] if determiner.german else [])]
            forms += [quality.adjective.inflected[determiner.declension][row] for quality in nominal.qualities]
        case Coordination():
            return _looks_like(nominal.first, case, other) and _looks_like(nominal.second, case, other)
        case Name():
            return True
        case Relative():
            forms = [RELATIVE_PRONOUNS[nominal.row]]
        case Pronoun():
            forms = [nominal.german]
    return all(form[case] == form[other] for form in forms)


def _number_is_certain(clause: Clause, *, is_inverted: bool) -> bool:
    """Whether the German clause is ungrammatical in every reading with the finite verb in the other number.

    Cases in which it is not: the subject is sie or es (singular and plural); it is a relative pronoun die (which may
    refer to another noun); it is a coordination after its verb (the verb may agree with the nearer part); it is a bare
    plural that equals its singular ("Lehrer schläft"); or an object may be read as the subject: "Die Frau sehen die
    Hunde", "Katzen hilft Anna", "der Freund der Frau, der Katzen helfen".
    """
    subject, verb = clause.subject, clause.verb
    match subject:
        case Pronoun():
            certain = subject.german == lexicon.HE.german
        case Relative():
            certain = subject.row not in (lexicon.FEMININE, lexicon.PLURAL)
        case Coordination():
            certain = not is_inverted
        case NounPhrase(determiner=lexicon.BARE, qualities=()):
            singular, plural = subject.noun.german
            certain = singular[NOMINATIVE] != plural[NOMINATIVE]
        case _:
            certain = subject is not None
    objects = [(clause.recipient, DATIVE), (None if verb.german_preposition else clause.object, verb.case)]
    return certain and not any(
        object_ is not None and subject is not None and _could_be_subject(object_, case, instead_of=subject)
        for object_, case in objects
    )


def _could_be_subject(object_: Nominal, case: int, *, instead_of: Nominal) -> bool:
    """Whether the forms allow the object as subject of the verb in the other number, and the subject as object."""
    if not _looks_like(object_, case, NOMINATIVE):
        return False
    if isinstance(instead_of, Relative) and case == DATIVE:  # der: nominative masculine, dative feminine
        return True
    has_other_number = agreement(object_) != agreement(instead_of) or isinstance(object_, Pronoun | Relative)
    return has_other_number and _looks_like(instead_of, NOMINATIVE, case)
