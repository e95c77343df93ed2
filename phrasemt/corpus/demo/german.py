"""German sentences of the demonstration corpus, with their chunks and the agreement of their finite verbs.

The order is that of the topological fields: prefield, finite verb, middle field, right bracket (prefix, participle,
infinitive), afterfield. In subordinate clauses the finite verb closes the right bracket. The middle field orders
subject, pronouns, time, recipient, object, negation, manner, prepositional object or agent, place or goal, predicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phrasemt.corpus.demo.grammar import (
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
    agreement,
    column,
    relative_slot,
)
from phrasemt.corpus.demo.lexicon import (
    BARE,
    COMPLEMENTIZERS,
    CONTRACTIONS,
    HABEN,
    HE,
    INDEFINITE,
    KEIN,
    SEIN,
    THE,
    WERDEN,
    Adverb,
    Connective,
    Pronoun,
)
from phrasemt.corpus.demo.morphology import (
    DATIVE,
    FEMININE,
    FIRST,
    GENITIVE,
    MANY,
    NOMINATIVE,
    PLURAL,
    RELATIVE_PRONOUNS,
    SINGULAR,
    Finite,
)


class Agreement(NamedTuple):
    """A finite verb whose number can be got wrong: its place, that of its subject's head, and the wrong form."""

    verb: int
    subject: int
    wrong: str
    is_plural: bool


class GermanSentence(NamedTuple):
    """Tokens, IOB2 chunk tag of each, and the agreements that a wrong number would break beyond doubt."""

    tokens: tuple[str, ...]
    chunks: tuple[str, ...]
    agreements: tuple[Agreement, ...]


def realise_german(sentence: Sentence) -> GermanSentence:
    """Say a derivation in German."""
    writer = _GermanWriter()
    writer.sentence(sentence)
    return GermanSentence(tuple(writer.tokens), tuple(writer.chunks), tuple(writer.agreements))


class _GermanWriter:
    """Writes a sentence from left to right; each method writes one constituent.

    A comma is not written but asked for: it appears before the next word, once, however many clauses meet there, and
    not before the full stop.
    """

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.chunks: list[str] = []
        self.agreements: list[Agreement] = []
        self.comma_due = False
        self.next_chunk = "O"
        self.same_chunk = "O"

    # --- words ---

    def begin_chunk(self, kind: str) -> None:
        """The words that follow are a chunk of this kind."""
        self.next_chunk, self.same_chunk = "B-" + kind, "I-" + kind

    def word(self, word: str) -> None:
        """A token, member of the current chunk."""
        if not self.tokens:
            word = word[0].upper() + word[1:]
        elif self.comma_due:
            self.tokens.append(",")
            self.chunks.append("O")
        self.comma_due = False
        self.tokens.append(word)
        self.chunks.append(self.next_chunk)
        self.next_chunk = self.same_chunk

    def chunk(self, kind: str, *words: str) -> None:
        """A whole chunk."""
        self.begin_chunk(kind)
        for word in words:
            self.word(word)

    # --- noun phrases; each returns the position of its head ---

    def nominal(self, nominal: Nominal, case: int) -> int:
        """Any kind of noun phrase."""
        if isinstance(nominal, NounPhrase):
            return self.noun_phrase(nominal, case)
        if isinstance(nominal, Name):
            self.chunk("NP", *nominal.german)
        elif isinstance(nominal, Pronoun):
            self.chunk("NP", nominal.german[case])
        elif isinstance(nominal, Relative):
            self.chunk("NP", RELATIVE_PRONOUNS[nominal.column][case])
        else:
            self.nominal(nominal.first, case)
            self.next_chunk = "O"
            self.word("und")
            self.nominal(nominal.second, case)
        return len(self.tokens) - 1

    def noun_phrase(
        self,
        phrase: NounPhrase,
        case: int,
        *,
        contracted: bool = False,
        negated: bool = False,
        postponed: list[Clause] | None = None,
    ) -> int:
        """A noun phrase with its attributes.

        `contracted`: the article is already part of the preposition. `negated`: kein instead of the article.
        `postponed`: collects the relative clause for the afterfield instead of writing it here.
        """
        row = column(phrase)
        determiner = KEIN if negated else phrase.determiner
        self.begin_chunk("NP")
        if determiner.german and not contracted:
            self.word(determiner.german[row][case])
        for quality in phrase.qualities:
            if quality.intensifier:
                self.word(quality.intensifier.german[0])
            self.word(quality.adjective.inflected[determiner.declension][row][case])
        noun = phrase.noun.german[phrase.plural][case]
        self.word(phrase.modifier.german + noun.lower() if phrase.modifier else noun)
        head = len(self.tokens) - 1
        if phrase.owner:
            self.owner(phrase.owner)
        if phrase.attribute:
            self.prepositional(phrase.attribute)
        if phrase.relative and postponed is not None:
            postponed.append(phrase.relative)
        elif phrase.relative:
            self.relative(phrase.relative)
        return head

    def owner(self, owner: NounPhrase | Name) -> None:
        """A genitive; names and noun phrases that do not show their case take von."""
        if isinstance(owner, NounPhrase) and _shows_genitive(owner):
            self.noun_phrase(owner, GENITIVE)
        else:
            self.preposition("von", owner, DATIVE)

    def prepositional(self, phrase: PrepositionalPhrase, *, postponed: list[Clause] | None = None) -> None:
        """A prepositional phrase."""
        self.preposition(phrase.preposition.german, phrase.object, phrase.preposition.case, postponed=postponed)

    def preposition(
        self, preposition: str, object_: Nominal, case: int, *, postponed: list[Clause] | None = None
    ) -> None:
        """A preposition, contracted with the article where German does that, and what it governs."""
        self.begin_chunk("PP")
        if not isinstance(object_, NounPhrase):
            self.word(preposition)
            self.nominal(object_, case)
            return
        if case == GENITIVE and not _shows_genitive(object_):
            case = DATIVE
        contraction = None
        if object_.determiner is THE and not object_.relative and object_.determiner.german:
            contraction = CONTRACTIONS.get(f"{preposition}+{object_.determiner.german[column(object_)][case]}")
        self.word(contraction or preposition)
        self.noun_phrase(object_, case, contracted=contraction is not None, postponed=postponed)

    def adverb(self, adverb: Adverb) -> None:
        """A fixed expression, as adverb or noun phrase."""
        self.chunk("NP" if len(adverb.german) > 1 else "ADVP", *adverb.german)

    # --- clauses ---

    def sentence(self, sentence: Sentence) -> None:
        """The whole, with its full stop."""
        main, connective, second = sentence.main, sentence.connective, sentence.second
        if connective is None or second is None:
            self.main_clause(main)
        elif sentence.second_is_main:
            self.main_clause(main)
            self.comma_due = True
            self.next_chunk = "O"
            self.word(connective.german)
            self.main_clause(second)
        elif sentence.second_is_fronted:
            self.subordinate(connective, second)
            self.main_clause(main, prefield_is_filled=True)
        else:
            self.main_clause(main)
            self.subordinate(connective, second)
        self.comma_due = False
        self.next_chunk = "O"
        self.word(".")

    def main_clause(self, clause: Clause, *, prefield_is_filled: bool = False) -> None:
        """A clause with the finite verb in second place."""
        assert clause.subject is not None
        finite, prefix, infinite = _verb_forms(clause)
        front: Slot | None = None if prefield_is_filled else clause.front
        head = -1
        if front == "subject":
            head = self.nominal(clause.subject, NOMINATIVE)
        elif front == "time" and clause.time:
            self.adverb(clause.time)
        elif front == "place" and clause.place:
            self.prepositional(clause.place)
        elif front == "comment" and clause.comment:
            self.adverb(clause.comment)
        self.chunk("VP", finite[agreement(clause.subject)])
        verb = len(self.tokens) - 1
        if head < 0:
            head = self.nominal(clause.subject, NOMINATIVE)
        postponed: list[Clause] | None = [] if prefix or infinite else None
        self.middle_field(clause, front, postponed)
        if prefix:
            self.chunk("PRT", prefix)
        if infinite:
            self.begin_chunk("VP")
            if len(self.tokens) == verb + 1:  # nothing between the parts of the verb: one chunk
                self.next_chunk = self.same_chunk
            for word in infinite:
                self.word(word)
        self.afterfield(clause, postponed or ())
        self.note_agreement(clause, head, verb, finite)

    def final_clause(self, clause: Clause, *, gap: Slot | None = None) -> None:
        """A clause with the finite verb at the end; a relative pronoun that is not the subject stands before it."""
        assert clause.subject is not None
        finite, prefix, infinite = _verb_forms(clause)
        head = self.nominal(clause.subject, NOMINATIVE)
        postponed: list[Clause] = []
        self.middle_field(clause, gap, postponed)
        self.chunk("VP", *infinite, prefix + finite[agreement(clause.subject)])
        verb = len(self.tokens) - 1
        self.afterfield(clause, postponed)
        self.note_agreement(clause, head, verb, finite, prefix)

    def infinitive_clause(self, clause: Clause) -> None:
        """An infinitive with zu, between commas."""
        self.comma_due = True
        postponed: list[Clause] = []
        self.middle_field(clause, None, postponed)
        verb = clause.verb.german
        if verb.prefix:
            self.chunk("VP", verb.prefix + "zu" + verb.infinitive)
        else:
            self.chunk("VP", "zu", verb.infinitive)
        self.afterfield(clause, postponed)
        self.comma_due = True

    def middle_field(self, clause: Clause, moved: Slot | None, postponed: list[Clause] | None) -> None:
        """What stands between finite verb or conjunction and the right bracket, after the subject."""
        verb, recipient = clause.verb, clause.recipient
        object_ = None if moved == "object" else clause.object
        plain_object = None if verb.german_preposition else object_
        negated = clause.negated
        if isinstance(plain_object, Pronoun):
            self.nominal(plain_object, verb.case)
            plain_object = None
        if isinstance(recipient, Pronoun):
            self.nominal(recipient, DATIVE)
            recipient = None
        if clause.time and moved != "time":
            self.adverb(clause.time)
        if clause.frequency:
            self.adverb(clause.frequency)
        if recipient is not None:
            self.nominal(recipient, DATIVE)
        if isinstance(plain_object, NounPhrase):
            kein = negated and plain_object.determiner in (INDEFINITE, BARE)
            negated = negated and not kein
            self.noun_phrase(plain_object, verb.case, negated=kein, postponed=postponed)
        elif plain_object is not None:
            self.nominal(plain_object, verb.case)
        if negated:
            self.chunk("ADVP", "nicht")
        if clause.manner:
            self.adverb(clause.manner)
        if object_ is not None and verb.german_preposition:
            self.preposition(verb.german_preposition, object_, verb.case, postponed=postponed)
        if clause.agent is not None:
            self.preposition("von", clause.agent, DATIVE, postponed=postponed)
        if clause.place and moved != "place":
            self.prepositional(clause.place, postponed=postponed)
        if clause.predicate:
            self.predicate(clause.predicate)

    def predicate(self, quality: Quality) -> None:
        """An uninflected adjective."""
        self.begin_chunk("ADJP")
        if quality.intensifier:
            self.word(quality.intensifier.german[0])
        self.word(quality.adjective.german)

    def afterfield(self, clause: Clause, postponed: Sequence[Clause]) -> None:
        """What follows the right bracket: relative clauses that were postponed, the complement of the verb."""
        for relative in postponed:
            self.relative(relative)
        if clause.complement is not None:
            if clause.complement.subject is None:
                self.infinitive_clause(clause.complement)
            else:
                self.subordinate(COMPLEMENTIZERS[clause.verb.frame], clause.complement)

    def subordinate(self, connective: Connective, clause: Clause) -> None:
        """A clause after its conjunction, between commas."""
        self.comma_due = True
        self.chunk("SBAR", connective.german)
        self.final_clause(clause)
        self.comma_due = True

    def relative(self, clause: Clause) -> None:
        """A relative clause, between commas."""
        self.comma_due = True
        gap = relative_slot(clause)
        if gap == "object" and clause.object is not None:
            self.nominal(clause.object, clause.verb.case)
        elif gap == "place" and clause.place:
            self.prepositional(clause.place)
        self.final_clause(clause, gap=gap)
        self.comma_due = True

    def note_agreement(self, clause: Clause, subject: int, verb: int, finite: Finite, prefix: str = "") -> None:
        """Remember a finite verb for the contrastive variant, if the other number would really be wrong."""
        right = agreement(clause.subject)
        if clause.subject is not None and _number_is_certain(clause, is_inverted=verb < subject):
            wrong = prefix + finite[SINGULAR if right == MANY else MANY]
            if wrong != self.tokens[verb]:
                self.agreements.append(Agreement(verb, subject, wrong, right == MANY))


def _shows_genitive(phrase: NounPhrase) -> bool:
    """Numerals do not show their case, nor do bare plurals without an adjective."""
    return phrase.determiner.tag != "CD" and (phrase.determiner is not BARE or bool(phrase.qualities))


def _verb_forms(clause: Clause) -> tuple[Finite, str, tuple[str, ...]]:
    """Forms of the finite verb, its separable prefix, and the participles and infinitives of the right bracket."""
    verb = clause.verb.german
    if clause.modal:
        infinite = (verb.participle, WERDEN.infinitive) if clause.passive else (verb.prefix + verb.infinitive,)
        return clause.modal.german, "", infinite
    if clause.tense == "perfect":
        auxiliary = SEIN if clause.passive or verb.perfect_with_sein else HABEN
        return auxiliary.present, "", (verb.participle, WERDEN.participle) if clause.passive else (verb.participle,)
    if clause.passive:
        return (WERDEN.past if clause.tense == "past" else WERDEN.present), "", (verb.participle,)
    return (verb.past if clause.tense == "past" else verb.present), verb.prefix, ()


def _looks_like(nominal: Nominal, case: int, other: int) -> bool:
    """Whether a noun phrase has the same form in two cases."""
    if isinstance(nominal, NounPhrase):
        row, determiner = column(nominal), nominal.determiner
        forms = [nominal.noun.german[nominal.plural]]
        if determiner.german:
            forms.append(determiner.german[row])
        forms += [quality.adjective.inflected[determiner.declension][row] for quality in nominal.qualities]
        return all(form[case] == form[other] for form in forms)
    if isinstance(nominal, Relative):
        return RELATIVE_PRONOUNS[nominal.column][case] == RELATIVE_PRONOUNS[nominal.column][other]
    if isinstance(nominal, Coordination):
        return _looks_like(nominal.first, case, other) and _looks_like(nominal.second, case, other)
    return isinstance(nominal, Name) or nominal.german[case] == nominal.german[other]


def _number_is_certain(clause: Clause, *, is_inverted: bool) -> bool:
    """Whether a finite verb in the other number makes the German clause ungrammatical, whatever else it could mean.

    It might not when the subject is sie or es (singular and plural), a relative pronoun die (which may belong to
    another noun), a coordination after its verb (the verb may agree with the nearer part), a bare plural that looks
    like its singular ("Lehrer schläft"), or when an object could be read as the subject: "Die Frau sehen die Hunde",
    "Katzen hilft Anna", "der Freund der Frau, der Katzen helfen".
    """
    subject, verb = clause.subject, clause.verb
    if subject is None or agreement(subject) == FIRST:
        return False
    if isinstance(subject, Pronoun) and subject.german != HE.german:
        return False
    if isinstance(subject, Relative) and subject.column in (FEMININE, PLURAL):
        return False
    if isinstance(subject, Coordination) and is_inverted:
        return False
    if isinstance(subject, NounPhrase) and subject.determiner is BARE and not subject.qualities:
        singular, plural = subject.noun.german
        if singular[NOMINATIVE] == plural[NOMINATIVE]:
            return False
    objects = [(clause.recipient, DATIVE), (None if verb.german_preposition else clause.object, verb.case)]
    return not any(
        object_ is not None and _could_be_subject(object_, case, instead_of=subject) for object_, case in objects
    )


def _could_be_subject(object_: Nominal, case: int, *, instead_of: Nominal) -> bool:
    """Whether an object, by its form, could be the subject of the verb in the other number, and the subject it."""
    if not _looks_like(object_, case, NOMINATIVE):
        return False
    if isinstance(instead_of, Relative) and case == DATIVE:  # der: nominative masculine, dative feminine
        return True
    has_other_number = agreement(object_) != agreement(instead_of) or isinstance(object_, Pronoun | Relative)
    return has_other_number and _looks_like(instead_of, NOMINATIVE, case)
