"""Sentence pairs of a split, with their trees, chunks and contrastive variants.

A seed gives one endless stream of derivations. A hash of the English text decides the split of a sentence, so splits
are disjoint and each one can be generated alone. A larger split begins with all sentences of a smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from democorpus.english import realise_english
from democorpus.german import Agreement, GermanSentence, realise_german
from democorpus.sampling import derivations

SPLITS = ("test", "dev", *["train"] * 8)  # ten equal shares of the stream
SHORTEST, LONGEST = 4, 40  # English tokens


class Contrast(NamedTuple):
    """The target with a verb in the wrong number. distance: in words, from the head of its subject to the verb."""

    wrong: str
    distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPair:
    """A sentence pair with its tokens, tree, chunks and contrastive variant."""

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    tree: str
    source_chunks: tuple[str, ...]
    target_chunks: tuple[str, ...]
    contrast: Contrast | None


def demo_pairs(*, split: str, pairs: int, seed: int) -> Iterator[DemoPair]:
    """The first `pairs` distinct sentences in the stream of a seed that belong to a split (train, dev or test)."""
    if split not in SPLITS:
        raise ValueError(f"no such split: {split!r}, expected train, dev or test")
    seen: set[bytes] = set()
    stream = derivations(seed)
    while len(seen) < pairs:
        sentence = next(stream)
        english = realise_english(sentence)
        if not SHORTEST <= len(english.tokens) <= LONGEST:
            continue
        source = detokenise(english.tokens)
        digest = hashlib.sha256(source.encode("utf-8")).digest()[:12]
        if digest in seen or split_of(digest) != split:
            continue
        seen.add(digest)
        german = realise_german(sentence)
        yield DemoPair(
            source=source,
            target=detokenise(german.tokens),
            source_tokens=english.tokens,
            target_tokens=german.tokens,
            tree=english.tree,
            source_chunks=english.chunks,
            target_chunks=german.chunks,
            contrast=farthest_contrast(german),
        )


def split_of(digest: bytes) -> str:
    """The split of a sentence, given the digest of its English text."""
    return SPLITS[int.from_bytes(digest[:8], "big") % len(SPLITS)]


def detokenise(tokens: tuple[str, ...]) -> str:
    """The text of tokens, without a space before a comma or a full stop."""
    return " ".join(tokens).replace(" ,", ",").replace(" .", ".")


def farthest_contrast(german: GermanSentence) -> Contrast | None:
    """The contrast whose verb is farthest from the head of its subject. None without a suitable verb."""
    if not german.agreements:
        return None
    agreement = max(german.agreements, key=lambda candidate: candidate.distance)
    return Contrast(with_wrong_verb(german, agreement), agreement.distance)


def with_wrong_verb(german: GermanSentence, agreement: Agreement) -> str:
    """The text of a sentence with one of its verbs in the wrong number."""
    return detokenise((*german.tokens[: agreement.verb], agreement.wrong, *german.tokens[agreement.verb + 1 :]))


def conll(tokens: tuple[str, ...], chunks: tuple[str, ...]) -> str:
    """A sentence in the column format of CoNLL-2000, with an empty line at its end."""
    return "".join(f"{token}\t{chunk}\n" for token, chunk in zip(tokens, chunks, strict=True)) + "\n"
