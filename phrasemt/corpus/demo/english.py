"""Derivations as English sentences, with constituency trees and chunks.

Trees follow the Penn Treebank, without function tags and traces. Chunks follow CoNLL-2000: base phrases that do not
nest. The chunk of a prepositional phrase is its preposition; a verb group with its auxiliaries is one chunk.
"""

from __future__ import annotations

from typing import NamedTuple

from phrasemt.corpus.demo.grammar import (
    Clause,
    Coordination,
    Name,
    Nominal,
    NounPhrase,
    Quality,
    Relative,
    Sentence,
    Slot,
    agreement,
    relative_slot,
)
from phrasemt.corpus.demo.lexicon import BE, COMPLEMENTIZERS, DO, HAVE, Adverb, Connective, Pronoun
from phrasemt.corpus.demo.morphology import EnglishVerb, english_article

FINITE_TAGS = ("VBP", "VBZ", "VBP")


class EnglishSentence(NamedTuple):
    """The tokens, their Penn tree on one line, and their IOB2 chunk tags."""

    tokens: tuple[str, ...]
    tree: str
    chunks: tuple[str, ...]


def realise_english(sentence: Sentence) -> EnglishSentence:
    """Turn a derivation into English."""
    writer = _EnglishWriter()
    writer.sentence(sentence)
    return EnglishSentence(tuple(writer.tokens), "".join(writer.tree)[1:], tuple(writer.chunks))


class _EnglishWriter:
    """Writes a sentence from left to right; each method writes one constituent."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.chunks: list[str] = []
        self.tree: list[str] = []
        self.next_chunk = "O"
        self.same_chunk = "O"

    # --- words and brackets ---

    def begin_chunk(self, kind: str) -> None:
        """The next words form a chunk of this kind."""
        self.next_chunk, self.same_chunk = "B-" + kind, "I-" + kind

    def word(self, tag: str, word: str) -> None:
        """Write a word: a leaf of the tree, a token, and a member of the current chunk."""
        if not self.tokens:
            word = word[0].upper() + word[1:]
        self.tokens.append(word)
        self.tree.append(f" ({tag} {word})")
        self.chunks.append(self.next_chunk)
        self.next_chunk = self.same_chunk

    def outside(self, tag: str, word: str) -> None:
        """Write a word or a punctuation mark outside of all chunks."""
        self.next_chunk = self.same_chunk = "O"
        self.word(tag, word)

    def open(self, label: str) -> None:
        """Begin a constituent."""
        self.tree.append(f" ({label}")

    def close(self, count: int = 1) -> None:
        """End the innermost constituents."""
        self.tree.append(")" * count)

    # --- noun phrases ---

    def nominal(self, nominal: Nominal, *, is_subject: bool = False) -> None:
        """A noun phrase of any form but a relative pronoun, which `relative` writes."""
        if isinstance(nominal, NounPhrase):
            self.noun_phrase(nominal)
        elif isinstance(nominal, Name):
            self.open("NP")
            self.begin_chunk("NP")
            for word in nominal.english:
                self.word("NNP", word)
            self.close()
        elif isinstance(nominal, Pronoun):
            self.open("NP")
            self.begin_chunk("NP")
            self.word("PRP", nominal.english[0 if is_subject else 1])
            self.close()
        elif isinstance(nominal, Coordination):
            self.open("NP")
            self.nominal(nominal.first)
            self.outside("CC", "and")
            self.nominal(nominal.second)
            self.close()
        else:
            raise TypeError(f"a relative pronoun has no place of its own in English: {nominal}")

    def noun_phrase(self, phrase: NounPhrase) -> None:
        """A noun phrase. If it has attributes, its base is a noun phrase of its own within it."""
        has_attributes = phrase.owner is not None or phrase.attribute is not None or phrase.relative is not None
        if has_attributes:
            self.open("NP")
        self.open("NP")
        self.begin_chunk("NP")
        noun = phrase.noun.english[phrase.plural]
        determiner = phrase.determiner.english[phrase.plural]
        if determiner:
            if determiner == "a":
                determiner = english_article(_first_word_after_determiner(phrase, noun))
            self.word(phrase.determiner.tag, determiner)
        for quality in phrase.qualities:
            if quality.intensifier:
                self.open("ADJP")
                self.word("RB", quality.intensifier.english[0][0])
                self.word("JJ", quality.adjective.english)
                self.close()
            else:
                self.word("JJ", quality.adjective.english)
        if phrase.modifier:
            self.word("NNP" if phrase.modifier.english[0].isupper() else "NN", phrase.modifier.english)
        self.word("NNS" if phrase.plural else "NN", noun)
        self.close()
        if phrase.owner:
            self.prepositional("of", phrase.owner)
        if phrase.attribute:
            self.prepositional(phrase.attribute.preposition.english, phrase.attribute.object)
        if phrase.relative:
            self.relative(phrase.relative)
        if has_attributes:
            self.close()

    def prepositional(self, preposition: str, object_: Nominal) -> None:
        """A prepositional phrase."""
        self.open("PP")
        self.begin_chunk("PP")
        self.word("TO" if preposition == "to" else "IN", preposition)
        self.nominal(object_)
        self.close()

    def adverb(self, adverb: Adverb, *, in_verb_group: bool = False) -> None:
        """A fixed expression, as adverb or noun phrase. In a verb group it belongs to the chunk of the verb."""
        label = "NP" if adverb.is_noun else "ADVP"
        self.open(label)
        if not in_verb_group:
            self.begin_chunk(label)
        for word, tag in adverb.english:
            self.word(tag, word)
        self.close()

    # --- clauses ---

    def sentence(self, sentence: Sentence) -> None:
        """The whole sentence with its full stop."""
        main, connective, second = sentence.main, sentence.connective, sentence.second
        self.open("S")
        if connective is None or second is None:
            self.clause_parts(main)
        elif sentence.second_is_main:
            self.clause(main)
            self.outside(",", ",")
            self.outside(connective.tag, connective.english)
            self.clause(second)
        elif sentence.second_is_fronted:
            self.subordinate(connective, second)
            self.outside(",", ",")
            self.clause_parts(main)
        else:
            self.clause_parts(main, subordinate=(connective, second))
        self.outside(".", ".")
        self.close()

    def clause(self, clause: Clause, *, gap: Slot | None = None) -> None:
        """A clause as a constituent of its own."""
        self.open("S")
        self.clause_parts(clause, gap=gap)
        self.close()

    def clause_parts(
        self, clause: Clause, *, gap: Slot | None = None, subordinate: tuple[Connective, Clause] | None = None
    ) -> None:
        """Subject and verb phrase. gap: slot of the relative pronoun, left empty; subordinate: a clause at the end."""
        front = clause.front
        if front == "comment" and clause.comment:
            self.adverb(clause.comment)
            self.outside(",", ",")
        elif front == "time" and clause.time:
            self.adverb(clause.time)
        elif front == "place" and clause.place:
            self.prepositional(clause.place.preposition.english, clause.place.object)
            self.outside(",", ",")
        if clause.subject is not None and gap != "subject":
            self.nominal(clause.subject, is_subject=True)
        depth = self.verb_group(clause)
        self.complements(clause, gap or front)
        if subordinate:
            connective, second = subordinate
            if connective.english in ("because", "although"):
                self.outside(",", ",")
            self.subordinate(connective, second)
        self.close(depth)

    def verb_group(self, clause: Clause) -> int:
        """Auxiliaries and verb. Each opens a phrase that holds the rest; returns the number of open phrases."""
        group = _verb_group(clause)
        frequency = clause.frequency
        is_copula = clause.verb.english.base == "be"
        after_first = len(group) > 1 and group[1][0] != "TO"
        if frequency and not after_first and not is_copula:
            self.adverb(frequency)
            frequency = None
        self.begin_chunk("VP")
        depth = 0
        for position, (tag, word) in enumerate(group):
            if tag == "TO" and position:
                self.open("S")
                depth += 1
            self.open("VP")
            depth += 1
            self.word(tag, word)
            if position == 0:
                if clause.negated:
                    self.word("RB", "not")
                if frequency:
                    self.adverb(frequency, in_verb_group=after_first)
        return depth

    def complements(self, clause: Clause, moved: Slot) -> None:
        """The constituents after the verb, except the one that begins the clause."""
        verb, object_ = clause.verb, clause.object
        has_object = object_ is not None and moved != "object"
        if verb.english.particle and not isinstance(object_, Pronoun):
            self.particle(verb.english)
        if clause.recipient is not None:
            self.nominal(clause.recipient)
        if object_ is not None and has_object:
            if verb.english_preposition:
                self.prepositional(verb.english_preposition, object_)
            else:
                self.nominal(object_)
        if verb.english.particle and isinstance(object_, Pronoun):
            self.particle(verb.english)
        if clause.predicate:
            self.predicate(clause.predicate)
        if clause.agent is not None:
            self.prepositional("by", clause.agent)
        if clause.manner:
            self.adverb(clause.manner)
        if clause.place and moved != "place":
            self.prepositional(clause.place.preposition.english, clause.place.object)
        if clause.time and moved != "time":
            self.adverb(clause.time)
        if clause.complement:
            self.complement(clause.complement, verb.frame)

    def particle(self, verb: EnglishVerb) -> None:
        """The particle of a verb: "up" in "wake up"."""
        self.open("PRT")
        self.begin_chunk("PRT")
        self.word("RP", verb.particle)
        self.close()

    def predicate(self, quality: Quality) -> None:
        """An adjective after "be" or "become"."""
        self.open("ADJP")
        self.begin_chunk("ADJP")
        if quality.intensifier:
            self.word("RB", quality.intensifier.english[0][0])
        self.word("JJ", quality.adjective.english)
        self.close()

    def complement(self, clause: Clause, frame: str) -> None:
        """The clause that a verb needs: "that ...", "whether ..." or "to ..."."""
        if clause.subject is None:
            self.clause(clause)
        else:
            self.subordinate(COMPLEMENTIZERS[frame], clause)

    def subordinate(self, connective: Connective, clause: Clause) -> None:
        """A conjunction and its clause."""
        self.open("SBAR")
        is_adverb = connective.tag == "WRB"
        if is_adverb:
            self.open("WHADVP")
        self.begin_chunk("ADVP" if is_adverb else "SBAR")
        self.word(connective.tag, connective.english)
        if is_adverb:
            self.close()
        self.clause(clause)
        self.close()

    def relative(self, clause: Clause) -> None:
        """A relative clause: the pronoun, with its preposition, and the clause without it."""
        self.open("SBAR")
        gap = relative_slot(clause)
        if gap == "place" and clause.place:
            self.open("WHPP")
            self.begin_chunk("PP")
            self.word("IN", clause.place.preposition.english)
            self.open("WHNP")
            self.begin_chunk("NP")
            self.word("WDT", "which")
            self.close(2)
        else:
            pronoun = clause.subject if gap == "subject" else clause.object
            self.open("WHNP")
            self.begin_chunk("NP")
            if isinstance(pronoun, Relative) and pronoun.human:
                self.word("WP", "who")
            else:
                self.word("WDT", "that")
            self.close()
        self.clause(clause, gap=gap)
        self.close()


def _first_word_after_determiner(phrase: NounPhrase, noun: str) -> str:
    if phrase.qualities:
        quality = phrase.qualities[0]
        return quality.intensifier.english[0][0] if quality.intensifier else quality.adjective.english
    return phrase.modifier.english if phrase.modifier else noun


def _verb_group(clause: Clause) -> list[tuple[str, str]]:
    """Tags and forms of auxiliaries and verb. Each word decides the form of the next one."""
    person = agreement(clause.subject)
    group: list[tuple[str, str]] = []
    form = "finite"
    modal, main = clause.modal, clause.verb.english

    def add(verb: EnglishVerb) -> None:
        if form == "base":
            group.append(("VB", verb.base))
        elif form == "participle":
            group.append(("VBN", verb.participle))
        elif clause.tense == "past":
            group.append(("VBD", verb.past[person]))
        else:
            group.append((FINITE_TAGS[person], verb.present[person]))

    if clause.subject is None:
        group.append(("TO", "to"))
        form = "base"
    elif modal:
        group.append((modal.tag or FINITE_TAGS[person], modal.english[person]))
        if modal.to:
            group.append(("TO", "to"))
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
