"""Sentence pairs of a split, with their trees, chunks and contrastive variants.

A seed gives one endless stream of derivations. A hash of the English text decides the split of a sentence, so splits
are disjoint and each one can be generated alone. A larger split begins with all sentences of a smaller one.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from democorpus import long, units
from democorpus.english import EnglishSentence
from democorpus.german import Agreement, GermanSentence
from democorpus.grammar import LongSentence, Sentence
from democorpus.lexicon import Pronoun
from democorpus.sampling import RELATIVE_OF_SUBJECT, Sampler

SPLITS = ("test", "dev", *["train"] * 8)  # ten equal shares of the stream
SHORTEST, LONGEST = 4, 40  # English tokens

# Smallest and largest number of English words from the noun of the subject to the finite verb.
BINS = ((1, 2), (3, 4), (5, 8), (9, 12), (13, LONGEST))
_OF_EACH_LENGTH = 10  # long sentences in a block
_FAR = 11  # smallest distance of the contrasts of long sentences, in English words
# Nearly all subjects have relative clauses: in the stream of the corpus one sentence of 250 is in the last bin.
_RELATIVE_OF_DISTANT_SUBJECT = (0.0, 0.8, 1.0)


class Contrast(NamedTuple):
    """The target with a verb in the wrong number. distance: in words, from the head of its subject to the verb.

    kind, unit: of a multiword unit (`UnitSentence`), of which `wrong` has the other reading, and its distance.
    """

    wrong: str
    distance: int
    kind: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPair:
    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    tree: str
    source_chunks: tuple[str, ...]
    target_chunks: tuple[str, ...]
    contrast: Contrast | None


class DistantPair(NamedTuple):
    """A sentence pair and its variant with a verb in the wrong number. distance: in English words."""

    source: str
    target: str
    wrong: str
    distance: int


def demo_pairs(
    *, split: str, pairs: int, seed: int, multiword_units: bool = False, long_sentences: bool = False
) -> Iterator[DemoPair]:
    """The first `pairs` distinct sentences in the stream of a seed that belong to a split (train, dev or test).

    multiword_units: the sentences of `units.occurrences` stand among them at even distances, in random order. They
    alone have contrasts, about the reading of the unit. Sentences of the stream with words of idioms and of compounds
    are left out.
    long_sentences: of 30 to 80 tokens in place of the stream (`long`). The contrast of each is a verb more than ten
    English words after its subject, whose number English hides.
    Raises ValueError for an unknown split and if it has no room for the units.
    """
    if split not in SPLITS:
        raise ValueError(f"no such split: {split!r}, expected train, dev or test")
    seen: set[bytes] = set()
    stream = _pairs_of_stream(split, seed, seen)
    if long_sentences:
        stream = _long_pairs(split, seed, seen)
    if multiword_units:
        stream = (replace(pair, contrast=None) for pair in stream if not units.is_taken(pair.source_tokens))
    of_units = [*_pairs_of_units(split, seed, seen)] if multiword_units else []
    if len(of_units) > pairs:
        raise ValueError(f"{split} has {pairs:,} pairs, but its multiword units need {len(of_units):,}")
    for row in range(pairs):
        place = row * len(of_units) // pairs
        is_of_unit = (row + 1) * len(of_units) // pairs > place
        yield of_units[place] if is_of_unit else next(stream)


def _pairs_of_stream(split: str, seed: int, seen: set[bytes]) -> Iterator[DemoPair]:
    for digest, _, sentence, english in _sentences(split, seed, RELATIVE_OF_SUBJECT):
        if digest not in seen:
            seen.add(digest)
            german = GermanSentence(sentence)
            farthest = max(german.agreements, key=lambda one: one.distance, default=None)
            contrast = Contrast(_with_wrong_verb(german, farthest), farthest.distance) if farthest else None
            yield _pair(english, german, contrast)


def _long_pairs(split: str, seed: int, seen: set[bytes]) -> Iterator[DemoPair]:
    """An endless stream with as many sentences of each length in each block. Each split has a stream of its own."""
    sampler = Sampler(random.Random(f"long sentences {split} {seed}"), long.RELATIVE_OF_SUBJECT)
    wanted: list[tuple[int, int]] = []
    while True:
        wanted = wanted or [*long.LENGTHS] * _OF_EACH_LENGTH
        sentence = long.long_sentence(sampler, sampler.choose(long.LENGTHS[wanted[0]]))
        english = EnglishSentence(sentence)
        length = next((one for one in wanted if one[0] <= len(english.tokens) <= one[1]), None)
        if length is None:
            continue
        german = GermanSentence(sentence)
        found = _farthest_hidden(sentence, english, german)
        digest = _digest(detokenise(english.tokens))
        if found and found[0] >= _FAR and digest not in seen:
            wanted.remove(length)
            seen.add(digest)
            yield _pair(english, german, Contrast(_with_wrong_verb(german, found[1]), found[0]))


def _farthest_hidden(
    sentence: LongSentence, english: EnglishSentence, german: GermanSentence
) -> tuple[int, Agreement] | None:
    """The German verb the farthest from its subject whose number English hides, with the distance in English words.

    No English verb of the subject shows its number, and no pronoun stands for it.
    """
    shown = {id(one.phrase) for one in english.subjects if not one.number_is_hidden}
    for before, after in itertools.pairwise(part.main for part in sentence.parts):
        if isinstance(after.subject, Pronoun) and not after.is_elided:
            shown.add(id(before.subject))
    distances = {id(one.clause): one.distance for one in english.subjects if id(one.phrase) not in shown}
    found = [(distances[id(one.clause)], one) for one in german.agreements if id(one.clause) in distances]
    return max(found, key=lambda candidate: candidate[0], default=None)


def _pairs_of_units(split: str, seed: int, seen: set[bytes]) -> Iterator[DemoPair]:
    sampler = Sampler(random.Random(f"multiword units {split} {seed}"), RELATIVE_OF_SUBJECT)
    for unit, reading in sorted(units.occurrences(split), key=lambda _: sampler.random()):
        while True:
            sentence = units.unit_sentence(sampler, unit, reading)
            if sentence is None or not SHORTEST <= len(sentence.english.tokens) <= LONGEST:
                continue
            digest = _digest(detokenise(sentence.english.tokens))
            if digest not in seen and split_of(digest) == split:
                break
        seen.add(digest)
        wrong = detokenise(sentence.wrong.tokens)
        yield _pair(sentence.english, sentence.german, Contrast(wrong, sentence.distance, sentence.kind, unit.english))


def _pair(english: EnglishSentence, german: GermanSentence, contrast: Contrast | None) -> DemoPair:
    return DemoPair(
        source=detokenise(english.tokens),
        target=detokenise(german.tokens),
        source_tokens=tuple(english.tokens),
        target_tokens=tuple(german.tokens),
        tree=english.tree,
        source_chunks=tuple(english.chunks),
        target_chunks=tuple(german.chunks),
        contrast=contrast,
    )


def distant_pairs(*, pairs: int, seed: int) -> Iterator[DistantPair]:
    """The first `pairs` contrastive pairs of each bin, in a stream without the sentences of train and dev.

    Contrasts of `demo_pairs` measure German, and the English verb often shows the number itself ("runs", "run"). Here
    the English verb hides it ("ran", "will run"), so the number is known from the subject alone, at this distance.
    """
    wanted = dict.fromkeys(BINS, pairs)
    seen: set[bytes] = set()
    stream = _sentences("test", seed, _RELATIVE_OF_DISTANT_SUBJECT)
    while any(wanted.values()):
        digest, source, sentence, english = next(stream)
        hidden = {id(one.phrase): one.distance for one in english.subjects if one.number_is_hidden}
        if not hidden or digest in seen:
            continue
        german = GermanSentence(sentence)
        found = [(hidden[id(one.nominal)], one) for one in german.agreements if id(one.nominal) in hidden]
        if not found:
            continue
        distance, agreement = max(found, key=lambda candidate: candidate[0])
        (own,) = (one for one in BINS if one[0] <= distance <= one[1])
        if wanted[own]:
            wanted[own] -= 1
            seen.add(digest)
            yield DistantPair(source, detokenise(german.tokens), _with_wrong_verb(german, agreement), distance)


def _sentences(
    split: str, seed: int, relative_of_subject: tuple[float, ...]
) -> Iterator[tuple[bytes, str, Sentence, EnglishSentence]]:
    """The endless stream of a split: digest and text of the English sentence, its derivation, and its tokens."""
    sampler = Sampler(random.Random(seed), relative_of_subject)
    while True:
        sentence = sampler.sentence()
        english = EnglishSentence(sentence)
        if SHORTEST <= len(english.tokens) <= LONGEST:
            source = detokenise(english.tokens)
            digest = _digest(source)
            if split_of(digest) == split:
                yield digest, source, sentence, english


def _digest(source: str) -> bytes:
    return hashlib.sha256(source.encode("utf-8")).digest()[:12]


def split_of(digest: bytes) -> str:
    return SPLITS[int.from_bytes(digest[:8], "big") % len(SPLITS)]


def detokenise(tokens: Iterable[str]) -> str:
    """The text of tokens, without a space before a comma or a full stop."""
    return " ".join(tokens).replace(" ,", ",").replace(" .", ".")


def _with_wrong_verb(german: GermanSentence, agreement: Agreement) -> str:
    return detokenise((*german.tokens[: agreement.verb], agreement.wrong, *german.tokens[agreement.verb + 1 :]))


def conll(tokens: tuple[str, ...], chunks: tuple[str, ...]) -> str:
    """A sentence in the column format of CoNLL-2000, with an empty line at its end."""
    return "".join(f"{token}\t{chunk}\n" for token, chunk in zip(tokens, chunks, strict=True)) + "\n"
