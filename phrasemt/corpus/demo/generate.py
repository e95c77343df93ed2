"""The embedded demonstration corpus: English-German sentence pairs from a synchronous grammar, in any number.

A corpus that needs no download and no licence, large enough for a neural system to learn from, and an instrument:
agreement over a distance, verbs at the end of the clause, separable verbs and a rich inflection are what models of
phrases claim to handle. Every pair has a gold constituency tree, gold chunks on both sides and, where possible, a
contrastive variant with the German verb in the wrong number.

    demo_words       tables of words               demo_grammar    what a sentence says
    demo_morphology  inflection                    demo_english    how English says it
    demo_lexicon     words with all their forms    demo_german     how German says it
                                                   demo_sampling   what is said, at random

A seed gives one endless stream. A hash of the English text decides to which split a sentence belongs, so splits are
disjoint and can be generated apart; a larger split continues a smaller one.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from phrasemt.corpus.demo.english import realise_english
from phrasemt.corpus.demo.german import GermanSentence, realise_german
from phrasemt.corpus.demo.sampling import derivations
from phrasemt.files.lines import write_atomic

if TYPE_CHECKING:
    from phrasemt.stages.corpus import GenerateDemo

SPLITS = ("test", "dev", *["train"] * 8)  # ten equal shares of the stream
SHORTEST, LONGEST = 4, 40  # English tokens
CONTRAST_HEADER = "row\tsource\tright\twrong\tdistance\tnumber"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The German sentence with one finite verb in the wrong number.

    `distance` counts the tokens from the head of the subject to the verb (adjacent: 1), whichever comes first; of
    several verbs the one farthest from its subject is taken. `number` is the right one.
    """

    wrong_target: str
    wrong_target_tokens: tuple[str, ...]
    distance: int
    number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPair:
    """A sentence pair with everything that is known about it."""

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    tree: str
    source_chunks: tuple[str, ...]
    target_chunks: tuple[str, ...]
    contrast: Contrast | None


def demo_pairs(*, split: str, pairs: int, seed: int) -> Iterator[DemoPair]:
    """The first `pairs` distinct sentences of the seed's stream that belong to a split ("train", "dev" or "test")."""
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
    """The split a sentence belongs to, by the digest of its English text."""
    return SPLITS[int.from_bytes(digest[:8], "big") % len(SPLITS)]


def detokenise(tokens: tuple[str, ...]) -> str:
    """Text as it is written: no space before a comma or a full stop."""
    return " ".join(tokens).replace(" ,", ",").replace(" .", ".")


def farthest_contrast(german: GermanSentence) -> Contrast | None:
    """The contrastive variant at the verb that is farthest from its subject."""
    if not german.agreements:
        return None
    agreement = max(german.agreements, key=lambda candidate: abs(candidate.verb - candidate.subject))
    wrong = (*german.tokens[: agreement.verb], agreement.wrong, *german.tokens[agreement.verb + 1 :])
    return Contrast(
        wrong_target=detokenise(wrong),
        wrong_target_tokens=wrong,
        distance=abs(agreement.verb - agreement.subject),
        number="plural" if agreement.is_plural else "singular",
    )


def generate_demo(
    *,
    settings: GenerateDemo,
    cores: int,
    source: Path,
    target: Path,
    trees: Path,
    source_chunks: Path,
    target_chunks: Path,
    contrasts: Path,
) -> None:
    """The stage: write one split.

    All files are written side by side, so that memory does not grow with them. One core is enough for thousands of
    pairs a second; `cores` changes nothing.
    """
    with contextlib.ExitStack() as files:
        paths = (source, target, trees, source_chunks, target_chunks, contrasts)
        streams = [files.enter_context(write_atomic(path)) for path in paths]
        streams[-1].write(f"{CONTRAST_HEADER}\n".encode())
        for row, pair in enumerate(demo_pairs(split=settings.split, pairs=settings.pairs, seed=settings.seed)):
            texts = [
                pair.source + "\n",
                pair.target + "\n",
                pair.tree + "\n",
                conll(pair.source_tokens, pair.source_chunks),
                conll(pair.target_tokens, pair.target_chunks),
                contrast_row(row, pair),
            ]
            for stream, text in zip(streams, texts, strict=True):
                stream.write(text.encode("utf-8"))


def conll(tokens: tuple[str, ...], chunks: tuple[str, ...]) -> str:
    """A sentence in the column format of CoNLL-2000, with the empty line that ends it."""
    return "".join(f"{token}\t{chunk}\n" for token, chunk in zip(tokens, chunks, strict=True)) + "\n"


def contrast_row(row: int, pair: DemoPair) -> str:
    """The line of a pair in the table of contrasts; empty if it has none."""
    contrast = pair.contrast
    if contrast is None:
        return ""
    fields = (row, pair.source, pair.target, contrast.wrong_target, contrast.distance, contrast.number)
    return "\t".join(map(str, fields)) + "\n"
