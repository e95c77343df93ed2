"""The stage `extract_chunks`: starts and labels of the chunks of each target sentence.

Each position of a sentence belongs to one chunk. A word outside of all chunks (O) is a chunk of its own, and so is
`</s>`. A chunk starts at the first subword of its first word.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from phrasemt.syntax.annotations import Annotations, parser_tokens, required, sentence_key
from phrasemt.syntax.conll import chunk_spans, read_conll
from phrasemt.syntax.word_offsets import SplitLines, offsets_of_block, split_lines

log = logging.getLogger("phrasemt.extract_chunks")

_NUMBERS = {label: number for number, label in enumerate(CHUNK_LABELS)}

Gold = tuple[list[str], list[str]]  # gold tokens and their tags


@dataclass(frozen=True)
class _Chunks:
    """The chunks of a part of a split. untagged: numbers of sentences without tags, by reason."""

    rows: NDArray[np.int64]
    starts: RaggedArray
    labels: RaggedArray
    words: int
    untagged: Counter[str]


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

    Raises DataError, with file and line, if words and subwords or gold tokens belong to
    different sentences; MismatchError if a sentence is not among the tags.
    """
    # A generated data set has gold chunks, too, when a chunker is chosen.
    gold, tags = (gold, []) if settings.origin == "gold" else ([], tags)
    gold_sentences = itertools.chain.from_iterable(map(read_conll, gold))
    blocks = split_lines(rows, tokens, subwords, what="gold chunks", files=gold, items=gold_sentences)
    find = functools.partial(_find_chunks, ", ".join(map(str, gold)))
    parts = map_in_order(find, blocks, jobs=cores, prepare=Annotations, arguments=(tags,))
    words, counts, untagged = 0, np.zeros(len(CHUNK_LABELS), np.int64), Counter[str]()

    def batches() -> Iterator[tuple[NDArray[np.int64], Mapping[str, RaggedArray]]]:
        nonlocal words, counts
        for part in parts:
            words += part.words
            counts += np.bincount(part.labels.values, minlength=len(CHUNK_LABELS))
            untagged.update(part.untagged)
            yield part.rows, {"starts": part.starts, "labels": part.labels}

    sentences = ChunkColumns.write(chunks, subwords, settings.origin, batches())
    counts[EOS_LABEL] = 0
    count = int(counts.sum())
    result = ChunkStatistics(
        origin=settings.origin,
        sentences=sentences,
        words=words,
        chunks=count,
        labels={label: number for label, number in zip(CHUNK_LABELS, counts.tolist(), strict=True) if number},
        fallbacks=dict(untagged.most_common()),
    )
    result.write(statistics)
    log.info("extract_chunks: %s: %s sentences, %s chunks", settings.origin, f"{sentences:,}", f"{count:,}")
    for reason, number in untagged.most_common():
        log.info("extract_chunks: %s sentences without chunks: %s", f"{number:,}", reason)


def starts_and_labels(tags: Sequence[str], offsets: Sequence[int]) -> tuple[list[int], list[int]]:
    """Start and label of each chunk of a sentence; the last chunk is `</s>`.

    offsets: position of the first subword of each word, then the position of `</s>`.
    """
    chunks = [(start, type_) for start, _, type_ in chunk_spans(tags)]
    chunks = sorted(chunks + [(word, tag) for word, tag in enumerate(tags) if tag == "O"])
    starts = [offsets[word] for word, _ in chunks]
    return [*starts, offsets[-1]], [*(_NUMBERS[label] for _, label in chunks), EOS_LABEL]


def _find_chunks(gold: str, tagged: Annotations, lines: SplitLines[Gold]) -> _Chunks:
    """The chunks of some lines, from gold tags if there are any. gold: the names of their files, for messages."""
    texts, offsets = offsets_of_block(lines.tokens, lines.subwords)
    sentences = [parser_tokens(text) for text in texts]
    annotations = tagged.find([sentence_key(tokens) for tokens in sentences])
    starts, labels, words, untagged = [], [], 0, Counter[str]()
    for number, tokens in enumerate(sentences):
        if lines.given is not None:
            gold_tokens, tags = lines.given[number]
            if gold_tokens != tokens:
                raise DataError(
                    "the gold chunks have other tokens than the sentence",
                    where=f"{gold}, sentence {lines.rows[number] + 1}",
                    expected=repr(" ".join(tokens)[:80]),
                    found=repr(" ".join(gold_tokens)[:80]),
                    next_step="leave the `tokenization` of the target out, or choose the origin chunker",
                )
        elif not tokens:  # an empty sentence is never annotated
            tags = []
        elif (annotation := required(annotations[number], lines.place(number))).text is None:
            untagged[str(annotation.failure)] += 1
            tags = ["O"] * len(tokens)
        else:
            tags = annotation.text.split(" ")
        of_sentence = starts_and_labels(tags, offsets[number])
        starts.append(of_sentence[0])
        labels.append(of_sentence[1])
        words += len(tags)
    return _Chunks(np.array(lines.rows, np.int64), RaggedArray.of(starts), RaggedArray.of(labels), words, untagged)
