"""The stage `extract_chunks`: starts and labels of the chunks of each target sentence.

Each position of a sentence belongs to one chunk. A word outside of all chunks (O) is a chunk of its own, and so is
`</s>`. A chunk starts at the first subword of its first word.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.columns import ChunkColumns
from phrasemt.artefacts.syntax import ChunkStatistics
from phrasemt.errors import DataError
from phrasemt.files.columns import RaggedArray
from phrasemt.files.parallel import map_in_order
from phrasemt.stages.syntax import ExtractChunks
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL
from phrasemt.syntax.annotations import Annotations, required
from phrasemt.syntax.conll import chunk_spans, read_conll
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.word_offsets import SplitLines, offsets_of_block, split_lines

log = logging.getLogger("phrasemt.extract_chunks")

_NUMBERS = {label: number for number, label in enumerate(CHUNK_LABELS)}

_LINES_PER_BATCH = 4096

WordTags = list[str]
Gold = tuple[list[str], WordTags]  # gold tokens and their tags


@dataclass
class _Counts:
    """Counts of a part of a split. labels: chunks by label, without `</s>`; fallbacks: untagged sentences by reason."""

    words: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)

    def add(self, other: _Counts) -> None:
        self.words += other.words
        self.labels += other.labels
        self.fallbacks += other.fallbacks


@dataclass(frozen=True)
class _Chunks:
    rows: NDArray[np.int64]
    starts: RaggedArray
    labels: RaggedArray
    counts: _Counts


def extract_chunks(
    *,
    settings: ExtractChunks,
    cores: int,
    rows: Path,
    tokens: Path,
    subwords: Path,
    gold: list[Path],
    tags: list[Path],
    chunks: Path,
    statistics: Path,
) -> None:
    """Write the chunks of a split as columns over its rows, and their statistics.

    Columns: `starts`, the positions in subwords at which chunks start, `</s>` last; `labels`, for each chunk an index
    into CHUNK_LABELS. They come from gold (a file with all raw sentences) or from tags (of a chunker), as
    `settings.origin` says. In a sentence without tags each word is a chunk with label O.

    Raises DataError, with file and line, if rows do not increase, if words and subwords or gold tokens belong to
    different sentences; MismatchError if a sentence is not among the tags.
    """
    # A generated data set has gold chunks, too, when a chunker is chosen.
    gold, tags = (gold, []) if settings.origin == "gold" else ([], tags)
    found = map_in_order(
        _find_chunks,
        split_lines(
            rows,
            tokens,
            subwords,
            lines=_LINES_PER_BATCH,
            what="gold chunks",
            files=gold,
            items=itertools.chain.from_iterable(map(read_conll, gold)),
        ),
        jobs=cores,
        prepare=_Tagged,
        arguments=(gold, tags),
    )
    counts = _Counts()

    def batches() -> Iterator[tuple[NDArray[np.int64], Mapping[str, RaggedArray]]]:
        for part in found:
            counts.add(part.counts)
            yield part.rows, {"starts": part.starts, "labels": part.labels}

    sentences = ChunkColumns.write(chunks, subwords, settings.origin, batches())
    count = counts.labels.total()
    result = ChunkStatistics(
        origin=settings.origin,
        sentences=sentences,
        words=counts.words,
        chunks=count,
        mean_chunk_length=counts.words / count if count else None,
        labels={label: counts.labels[label] for label in CHUNK_LABELS if counts.labels[label]},
        fallbacks=dict(counts.fallbacks.most_common()),
    )
    result.write(statistics)
    log.info("extract_chunks: %s: %s sentences, %s chunks", settings.origin, f"{sentences:,}", f"{count:,}")
    for reason, number in counts.fallbacks.most_common():
        log.info("extract_chunks: %s sentences without chunks: %s", f"{number:,}", reason)


def starts_and_labels(tags: Sequence[str], offsets: Sequence[int]) -> tuple[list[int], list[int]]:
    """Start and label of each chunk of a sentence; the last chunk is `</s>`.

    offsets: position of the first subword of each word, then the position of `</s>`.
    """
    chunks = [(start, type_) for start, _, type_ in chunk_spans(tags)]
    chunks = sorted(chunks + [(word, tag) for word, tag in enumerate(tags) if tag == "O"])
    starts = [offsets[word] for word, _ in chunks]
    return [*starts, offsets[-1]], [*(_NUMBERS[label] for _, label in chunks), EOS_LABEL]


def align_tags(gold_tokens: Sequence[str], gold_tags: Sequence[str], tokens: Sequence[str]) -> WordTags | None:
    """Gold tags for another tokenisation of the same sentence; None if the sentences differ.

    With equal characters, a token belongs to the chunk of its first character. If normalisation has changed characters,
    the numbers of tokens must be equal and at least half of the tokens the same; tags are then copied one by one.
    """
    if "".join(tokens) != "".join(gold_tokens):
        same = sum(map(str.__eq__, tokens, gold_tokens))
        return list(gold_tags) if len(tokens) == len(gold_tokens) <= 2 * same else None
    numbers = [0] * len(gold_tags)  # number of the chunk of each gold token; 0 outside of chunks
    for number, (start, end, _) in enumerate(chunk_spans(gold_tags), start=1):
        numbers[start:end] = [number] * (end - start)
    gold_ends = list(itertools.accumulate(map(len, gold_tokens)))
    tags, last = [], 0
    gold = position = 0
    for token in tokens:
        while gold_ends[gold] <= position:
            gold += 1
        position += len(token)
        number = numbers[gold]
        tags.append(f"{'I' if number == last else 'B'}-{gold_tags[gold][2:]}" if number else "O")
        last = number
    return tags


class _Tagged:
    """The tags of sentences, by the lines of a gold file or by the keys of a chunker's tags, one per process."""

    def __init__(self, gold: Sequence[Path], tags: Sequence[Path]) -> None:
        self._gold = ", ".join(map(str, gold))
        self._tags = Annotations.open(tags) if tags else None

    def find(self, lines: SplitLines[Gold], sentences: Sequence[list[str]]) -> list[WordTags | str]:
        """The tags of each sentence, or the reason why it has none."""
        if self._tags is None:
            return [
                _tags_of_gold(tokens, *gold, f"{self._gold}, sentence {row + 1}")
                for tokens, gold, row in zip(sentences, lines.given or (), lines.rows, strict=True)
            ]
        found: list[WordTags | str] = []
        for number, annotation in enumerate(self._tags.find([sentence_key(tokens) for tokens in sentences])):
            if not sentences[number]:  # an empty sentence is never annotated
                found.append([])
                continue
            tags = required(annotation, lines.place(number))
            found.append(str(tags.failure) if tags.text is None else tags.text.split(" "))
        return found


def _tags_of_gold(tokens: list[str], gold_tokens: list[str], gold_tags: WordTags, where: str) -> WordTags:
    if (tags := align_tags(gold_tokens, gold_tags, tokens)) is None:
        raise DataError(
            "the gold chunks belong to another sentence",
            where=where,
            expected=repr(" ".join(tokens)[:80]),
            found=repr(" ".join(gold_tokens)[:80]),
            next_step="give the chunks of every raw sentence in order, and a blank line after each",
        )
    return tags


def _find_chunks(tagged: _Tagged, lines: SplitLines[Gold]) -> _Chunks:
    texts, offsets = offsets_of_block(lines.tokens, lines.subwords)
    sentences = [parser_tokens(text) for text in texts]
    counts = _Counts()
    starts, labels = [], []
    for number, tags in enumerate(tagged.find(lines, sentences)):
        if isinstance(tags, str):
            counts.fallbacks[tags] += 1
            tags = ["O"] * len(sentences[number])
        of_sentence = starts_and_labels(tags, offsets[number])
        starts.append(of_sentence[0])
        labels.append(of_sentence[1])
        counts.words += len(tags)
        counts.labels.update(CHUNK_LABELS[label] for label in of_sentence[1][:-1])
    return _Chunks(np.array(lines.rows, np.int64), RaggedArray.of(starts), RaggedArray.of(labels), counts)
