"""Long sentences: two to four sentences joined by connectives, with agreement and reference across them.

The subject of a later sentence is new, a pronoun for the one before (its German gender follows from the noun), or it is
that one, not written again: "The king who saw the dogs slept in the old garden and will help the queen". German "wird"
agrees there with a noun far before it, and English does not show the number.
"""

from __future__ import annotations

from democorpus import lexicon
from democorpus.grammar import Clause, Coordination, LongSentence, Nominal, NounPhrase, PrepositionalPhrase, Sentence
from democorpus.sampling import CONNECTIVES, PAST, Sampler, kind_of

# Smallest and largest number of English tokens; the groups take turns. For each, the numbers of sentences.
LENGTHS = {(30, 39): (2, 3), (40, 49): (2, 3), (50, 59): (3, 4), (60, 69): (3, 4), (70, 80): (4, 4)}
RELATIVE_OF_SUBJECT = (0.0, 0.3, 0.6)
SUBORDINATE, SUBORDINATE_FIRST, ELIDED, PRONOUN = 0.5, 0.3, 0.6, 0.5
(AND,) = (word for word in lexicon.CONNECTIVES["coordinator"] if word.english == "and")


def long_sentence(sampler: Sampler, sentences: int) -> LongSentence:
    past = sampler.chance(PAST)
    parts, connectives = [_first(sampler, past=past)], []
    while len(parts) < sentences:
        before = parts[-1]
        assert before.main.subject is not None
        if _ends_in_main_clause(before) and sampler.chance(ELIDED):
            subject = before.main.subject
            connectives.append(AND)
            main = sampler.clause(past=past, depth=1, subject=(subject, kind_of(subject)))
            main = main._replace(is_elided=main.subject is subject)
        else:
            connectives.append(sampler.draw(CONNECTIVES["coordinator"]))
            pronoun = sampler.repeated_subject(before.main.subject, PRONOUN)
            main = sampler.clause(past=past, depth=1 if pronoun else 2, subject=pronoun, is_main=True)
        parts.append(_with_subordinate(sampler, main, past=past) if sampler.chance(SUBORDINATE) else Sentence(main))
    return LongSentence(tuple(parts), tuple(connectives))


def _first(sampler: Sampler, *, past: bool) -> Sentence:
    is_fronted = sampler.chance(SUBORDINATE_FIRST)
    main = sampler.clause(past=past, depth=2, is_main=not is_fronted)
    return _with_subordinate(sampler, main, past=past, is_fronted=True) if is_fronted else Sentence(main)


def _with_subordinate(sampler: Sampler, main: Clause, *, past: bool, is_fronted: bool = False) -> Sentence:
    connective = sampler.draw(CONNECTIVES["reason" if sampler.chance(0.5) else "past" if past else "present"])
    second = sampler.clause(past=past, depth=1)
    return Sentence(main, connective, second, second_is_fronted=is_fronted)


def _ends_in_main_clause(sentence: Sentence) -> bool:
    """Whether "and", after this sentence, can only join its main clause: no clause stands after the verb of it."""
    if sentence.second and not sentence.second_is_fronted:
        return False
    main = sentence.main
    after = [main.object, main.recipient, main.agent, *([main.place.object] if main.place else [])]
    return main.complement is None and not any(map(_has_clause, after))


def _has_clause(nominal: Nominal | None) -> bool:
    if isinstance(nominal, Coordination):
        return _has_clause(nominal.first) or _has_clause(nominal.second)
    if isinstance(nominal, NounPhrase):
        attribute = nominal.attribute.object if isinstance(nominal.attribute, PrepositionalPhrase) else None
        return nominal.relative is not None or _has_clause(nominal.owner) or _has_clause(attribute)
    return False
