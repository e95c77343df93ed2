"""The stages `extract_phrases`, which divides source sentences into phrases, and `measure_phrases`, which counts them.

The segmentation of a sentence is the increasing list of its phrase ends. A phrase begins where the previous phrase
ends; the last end is the number of encoder positions of the sentence, `</s>` included. The functions of
`phrasemt.syntax.segmenters` compute the ends.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.columns import PhraseColumns
from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.syntax import PhraseStatistics
from phrasemt.errors import DataError, check_equal
from phrasemt.files.columns import RaggedArray
from phrasemt.files.lines import read_lines, read_parallel_blocks
from phrasemt.files.parallel import map_in_order
from phrasemt.phrase_modes import PHRASE_MODES
from phrasemt.stages.syntax import ExtractPhrases, MeasurePhrases
from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax import segmenters
from phrasemt.syntax.annotations import Annotation, Annotations, parser_tokens, required, sentence_key
from phrasemt.syntax.ngrams import ngram_ends
from phrasemt.syntax.segmenters import Segmenter, SourceSentence, tree_nodes
from phrasemt.syntax.word_offsets import LINES_PER_BLOCK, SplitLines, offsets_of_block, split_lines

log = logging.getLogger("phrasemt.phrases")


def extract_phrases(
    *,
    settings: ExtractPhrases,
    cores: int,
    rows: Path,
    tokens: Path,
    subwords: Path,
    parses: list[Path],
    given: list[Path],
    dropped: list[Path],
    phrases: Path,
) -> None:
    """Write the column `ends` over the rows of a split: the phrase ends of each sentence, in encoder positions.

    dropped: the `.dropped.tsv` file of clean_pairs, for the number of raw pairs; needed with mode `given`.

    If the segmentation needs a parse and a sentence has none, it is divided into n-grams. The phrases of a
    sentence depend only on the sentence, its parse and the settings.

    Raises DataError, with file and line, if words and subwords belong to different sentences,
    or if given phrases do not fit the sentence; MismatchError if a sentence is not among the parses.
    """
    segmentation = settings.segmentation
    cut = functools.partial(_cut_batch, segmentation, bool(parses), ", ".join(map(str, given)))
    blocks = _read_batches(rows, tokens, subwords, given, dropped)
    cuts = map_in_order(cut, blocks, jobs=cores, prepare=Annotations, arguments=(parses,))
    phrase_count, fallbacks = 0, Counter[str]()

    def batches() -> Iterator[tuple[NDArray[np.int64], dict[str, RaggedArray]]]:
        nonlocal phrase_count
        for batch_rows, ends, fallbacks_of_batch in cuts:
            phrase_count += len(ends.values)
            fallbacks.update(fallbacks_of_batch)
            yield batch_rows, {"ends": ends}

    sentences = PhraseColumns.write(phrases, subwords, segmentation.model_dump(mode="json"), batches())
    log.info("extract_phrases: %s: %s sentences, %s phrases", segmentation.mode, f"{sentences:,}", f"{phrase_count:,}")
    for reason, count in fallbacks.most_common():
        log.info("extract_phrases: %s sentences divided into n-grams: %s", f"{count:,}", reason)


def _read_batches(
    rows: Path, tokens: Path, subwords: Path, given: Sequence[Path], dropped: Sequence[Path]
) -> Iterator[SplitLines[str]]:
    user_lines = itertools.chain.from_iterable(map(read_lines, given))
    last = -1
    for batch in split_lines(rows, tokens, subwords, what="phrases", files=given, items=user_lines):
        yield batch
        last = batch.rows[-1]
    for path in dropped:
        raw_pairs = DroppedPairs.read(path).raw_pairs
        what = "the file of phrases does not have a line for each raw pair"
        next_step = "give the phrase ends of every raw sentence, dropped sentences included"
        check_equal(raw_pairs, last + 1 + sum(1 for _ in user_lines), what, where=given[-1], next_step=next_step)


def _cut_batch(
    settings: PhraseSegmentation, parsed: bool, files: str, parses: Annotations, batch: SplitLines[str]
) -> tuple[NDArray[np.int64], RaggedArray, Counter[str]]:
    """Rows and phrase ends of a batch, and how many sentences without a parse were divided into n-grams, by reason.

    parsed: whether there are parses; files: the names of your files, for messages.
    """
    segment: Segmenter = getattr(segmenters, str(PHRASE_MODES[settings.mode].segmenter))
    all_ends: list[Sequence[int]] = []
    fallbacks: Counter[str] = Counter()
    lines, offsets = offsets_of_block(batch.tokens, batch.subwords)
    keys = [sentence_key(parser_tokens(line)) for line in lines]
    given: list[Sequence[int]] = [()] * len(lines)
    for number, line in enumerate(batch.given or ()):
        where = f"{files}, line {batch.rows[number] + 1}"
        given[number] = _given_ends(line, len(offsets[number]) - 1, where)
    for number, annotation in enumerate(parses.find(keys) if parsed else [Annotation("", None)] * len(lines)):
        if len(offsets[number]) == 1:  # an empty sentence is never annotated
            all_ends.append([1])
        elif (parse := required(annotation, batch.place(number))).text is None:
            fallbacks[str(parse.failure)] += 1
            all_ends.append(ngram_ends(offsets[number][-1] + 1, settings).tolist())
        else:
            all_ends.append(segment(SourceSentence(offsets[number], keys[number], parse.text, given[number]), settings))
    return np.array(batch.rows, np.int64), RaggedArray.of(all_ends), fallbacks


def _given_ends(line: str, words: int, where: str) -> list[int]:
    ends = [int(end) if end.isascii() and end.isdigit() else -1 for end in line.split(" ")] if line else []
    if any(end <= start for start, end in itertools.pairwise([0, *ends])) or (ends[-1] if ends else 0) != words:
        raise DataError(
            "the phrase ends do not fit the sentence",
            where=where,
            expected=f"increasing ends, the last of them {words}" if words else "an empty line",
            found=repr(line[:80]),
            next_step="give the phrase ends in words, separated by spaces",
        )
    return ends


def measure_phrases(
    *,
    settings: MeasurePhrases,
    cores: int,
    phrases: Path,
    tokens: Path,
    subwords: Path,
    parses: list[Path],
    statistics: Path,
) -> None:
    """Count the phrases of a split, and write `PhraseStatistics`."""
    columns = PhraseColumns.open(phrases)
    annotations = Annotations(parses) if parses else None
    lengths, fallbacks = Counter[int](), Counter[str]()
    constituents = comparable = position = 0
    for blocks in read_parallel_blocks(tokens, subwords, lines=LINES_PER_BLOCK):
        lines, offsets = offsets_of_block(*blocks)
        keys = [sentence_key(parser_tokens(line)) for line in lines]
        of_lines = annotations.find(keys) if annotations else [None] * len(lines)
        for words, annotation in zip(offsets, of_lines, strict=True):
            ends = columns.values("ends", position).tolist()
            position += 1
            lengths.update(end - start for start, end in itertools.pairwise([0, *ends]))
            if annotations is None or len(words) == 1:  # an empty sentence is never annotated
                continue
            parse = required(annotation, f"{tokens}, line {position}")
            if parse.text is None:
                fallbacks[str(parse.failure)] += settings.needs_parses
                continue
            spans = set(itertools.pairwise([0, *(end for end in ends[:-1] if end < words[-1]), words[-1]]))
            comparable += len(spans)
            constituents += len(spans & node_spans(parse.text, words))
    token_count = sum(length * count for length, count in lengths.items())
    result = PhraseStatistics(
        segmentation=settings.segmentation,
        sentences=position,
        phrases=lengths.total(),
        tokens=token_count,
        lengths={length: lengths[length] for length in sorted(lengths)},
        fallbacks=dict((+fallbacks).most_common()),
        constituents=constituents if parses else None,
        comparable=comparable if parses else None,
    )
    result.write(statistics)
    log.info(
        "measure_phrases: %s: %s phrases of %.2f tokens",
        settings.segmentation,
        f"{lengths.total():,}",
        token_count / max(lengths.total(), 1),
    )


def node_spans(text: str, offsets: Sequence[int]) -> set[tuple[int, int]]:
    """The spans (start, end) of the nodes of a tree in the short text, without those that `tree_nodes` adds."""
    nodes = tree_nodes(text, range(len(offsets)))
    ends: dict[int, int] = {}
    for end, node in enumerate(nodes.leaves, start=1):
        while node:
            ends[node] = end
            node = nodes.parents[node]
    return {(offsets[nodes.starts[node]], offsets[end]) for node, end in ends.items()}
