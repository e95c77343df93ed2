"""Contrastive pairs by the distance between subject and verb in the English sentence.

`pairs.farthest_contrast` measures German, and its English verb often shows the number itself ("runs", "run"). Here the
English verb hides it ("ran", "will run"), so the number is known from the subject alone, which is so many words away.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import NamedTuple

from democorpus.english import realise_english
from democorpus.german import realise_german
from democorpus.pairs import LONGEST, SHORTEST, detokenise, split_of, with_wrong_verb
from democorpus.sampling import Sampler

# Smallest and largest number of English words from the noun of the subject to the finite verb.
BINS = ((1, 2), (3, 4), (5, 8), (9, 12), (13, LONGEST))
# Nearly all subjects have relative clauses: in the stream of the corpus one sentence of 250 is in the last bin.
RELATIVE_OF_SUBJECT = (0.0, 0.8, 1.0)


class DistantPair(NamedTuple):
    """A sentence pair and its variant with a verb in the wrong number. distance: in English words."""

    source: str
    target: str
    wrong: str
    distance: int


def distant_pairs(*, pairs: int, seed: int) -> Iterator[DistantPair]:
    """The first `pairs` pairs of each bin in a stream of their own. Train and dev have none of the sentences."""
    wanted = dict.fromkeys(BINS, pairs)
    seen: set[bytes] = set()
    sampler = Sampler(random.Random(seed), RELATIVE_OF_SUBJECT)
    while any(wanted.values()):
        sentence = sampler.sentence()
        english = realise_english(sentence)
        hidden = {id(one.phrase): one.distance for one in english.subjects if one.number_is_hidden}
        if not hidden or not SHORTEST <= len(english.tokens) <= LONGEST:
            continue
        source = detokenise(english.tokens)
        digest = hashlib.sha256(source.encode("utf-8")).digest()[:12]
        if digest in seen or split_of(digest) != "test":
            continue
        german = realise_german(sentence)
        found = [(hidden[id(one.nominal)], one) for one in german.agreements if id(one.nominal) in hidden]
        if not found:
            continue
        distance, agreement = max(found, key=lambda candidate: candidate[0])
        (own,) = (one for one in BINS if one[0] <= distance <= one[1])
        if wanted[own]:
            wanted[own] -= 1
            seen.add(digest)
            yield DistantPair(source, detokenise(german.tokens), with_wrong_verb(german, agreement), distance)
