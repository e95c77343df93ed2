"""The stage `measure_phrases`: statistics of the phrases of a segmentation."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.columns import PhraseColumns
from phrasemt.artefacts.syntax import PhraseStatistics
from phrasemt.errors import MismatchError
from phrasemt.files.lines import read_parallel_blocks
from phrasemt.stages.syntax import MeasurePhrases
from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.annotations import Annotations, required
from phrasemt.syntax.phrases.algorithm_1 import tree_nodes
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.word_offsets import offsets_of_block

log = logging.getLogger("phrasemt.measure_phrases")

_LINES_PER_BATCH = 8192


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
    """Count the phrases of a split, and write `PhraseStatistics`.

    Raises MismatchError if the numbers of sentences differ or a phrase ends outside its sentence.
    """
    columns = PhraseColumns.open(phrases)
    segmentation = PhraseSegmentation.model_validate(columns.description["segmentation"])
    annotations = Annotations.open(parses) if parses else None
    lengths, fallbacks = Counter[int](), Counter[str]()
    constituents = comparable = position = 0
    for blocks in read_parallel_blocks(tokens, subwords, lines=_LINES_PER_BATCH):
        lines, offsets = offsets_of_block(*blocks)
        keys = [sentence_key(parser_tokens(line)) for line in lines]
        found = annotations.find(keys) if annotations else [None] * len(lines)
        for words, annotation in zip(offsets, found, strict=True):
            ends = columns.values("ends", position).tolist() if position < len(columns) else []
            if not ends or ends[-1] != words[-1] + 1:
                raise _mismatch(phrases, tokens, position, words[-1] + 1, ends)
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
    if position != len(columns):
        raise _mismatch(phrases, tokens, position, 0, columns.values("ends", position).tolist())
    token_count = sum(length * count for length, count in lengths.items())
    result = PhraseStatistics(
        segmentation=settings.segmentation,
        settings=segmentation.model_dump(mode="json"),
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


def _mismatch(phrases: Path, tokens: Path, position: int, length: int, ends: Sequence[int]) -> MismatchError:
    return MismatchError(
        "phrases and sentences do not belong together",
        where=f"{phrases}, {tokens}, line {position + 1}",
        expected=f"phrases that end at {length}" if length else "no more phrases",
        found=" ".join(map(str, ends[:20])) or "none",
        next_step="run extract_phrases again",
    )
