"""The stage `generate_demo`: the files of a split of the demonstration corpus (tour: phrasemt/corpus/demo/__init__.py).

A seed gives one endless stream of derivations. A hash of the English text decides the split of a sentence, so splits
are disjoint and each one can be generated alone. A larger split begins with all sentences of a smaller one.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from phrasemt.artefacts.artefact import Out
from phrasemt.artefacts.corpus import ContrastivePair, Contrasts, RawChunks, RawText, RawTrees
from phrasemt.corpus.demo.english import realise_english
from phrasemt.corpus.demo.german import GermanSentence, realise_german
from phrasemt.corpus.demo.sampling import derivations
from phrasemt.files.lines import write_atomic

if TYPE_CHECKING:
    from phrasemt.stages.corpus import GenerateDemo

SPLITS = ("test", "dev", *["train"] * 8)  # ten equal shares of the stream
SHORTEST, LONGEST = 4, 40  # English tokens
KIND = "subj_verb_agreement"  # of the mistakes, as LingEval97 names it


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
    contrast: ContrastivePair | None


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
            contrast=farthest_contrast(source, german),
        )


def split_of(digest: bytes) -> str:
    """The split of a sentence, given the digest of its English text."""
    return SPLITS[int.from_bytes(digest[:8], "big") % len(SPLITS)]


def detokenise(tokens: tuple[str, ...]) -> str:
    """The text of tokens, without a space before a comma or a full stop."""
    return " ".join(tokens).replace(" ,", ",").replace(" .", ".")


def farthest_contrast(source: str, german: GermanSentence) -> ContrastivePair | None:
    """The German sentence with the verb in the wrong number that is farthest from the head of its subject.

    None without a suitable verb.
    """
    if not german.agreements:
        return None
    agreement = max(german.agreements, key=lambda candidate: candidate.distance)
    wrong = (*german.tokens[: agreement.verb], agreement.wrong, *german.tokens[agreement.verb + 1 :])
    return ContrastivePair(source, detokenise(german.tokens), detokenise(wrong), KIND, agreement.distance)


def generate_demo(
    *,
    settings: GenerateDemo,
    cores: int,
    source: Out[RawText],
    target: Out[RawText],
    trees: Out[RawTrees],
    source_chunks: Out[RawChunks],
    target_chunks: Out[RawChunks],
    contrasts: Out[Contrasts],
) -> None:
    """Write one split: texts, trees, chunks and the table of contrastive pairs.

    Memory does not grow with the split. The stage uses one core and writes thousands of pairs per second.
    """
    with contextlib.ExitStack() as files:
        paths = (source, target, trees, source_chunks, target_chunks, contrasts)
        streams = [files.enter_context(write_atomic(path)) for path in paths]
        streams[-1].write(f"{Contrasts.header}\n".encode())
        for row, pair in enumerate(demo_pairs(split=settings.split, pairs=settings.pairs, seed=settings.seed)):
            texts = [
                pair.source + "\n",
                pair.target + "\n",
                pair.tree + "\n",
                conll(pair.source_tokens, pair.source_chunks),
                conll(pair.target_tokens, pair.target_chunks),
                f"{Contrasts.line(row, pair.contrast)}\n" if pair.contrast else "",
            ]
            for stream, text in zip(streams, texts, strict=True):
                stream.write(text.encode("utf-8"))


def conll(tokens: tuple[str, ...], chunks: tuple[str, ...]) -> str:
    """A sentence in the column format of CoNLL-2000, with an empty line at its end."""
    return "".join(f"{token}\t{chunk}\n" for token, chunk in zip(tokens, chunks, strict=True)) + "\n"
