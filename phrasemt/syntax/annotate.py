"""The stages `parse_sentences` and `tag_sentences`: one job annotates a part of the sentences of a split.

A job takes the buckets with `bucket % jobs == job`. It annotates the sentences missing from the store, in blocks, and
adds finished blocks together, because each addition makes a file in each bucket: a killed job loses five minutes, or
65,536 sentences. Where many small files have gathered in a bucket, it merges them. The job then reads its output from
the store in the order of the keys, whatever the number of processes and the earlier content of the store.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.syntax import Card, Kind
from phrasemt.errors import DamagedFileError, DataError, check_equal
from phrasemt.files.lines import LineBlock, read_blocks, read_lines
from phrasemt.files.parallel import batched, map_in_order
from phrasemt.machine.gpus import torch_has_gpu
from phrasemt.stages.syntax import AnnotateSentences
from phrasemt.syntax.annotations import (
    BUCKETS,
    Annotation,
    Keys,
    buckets_of,
    key_array,
    key_bytes,
    parser_tokens,
    sentence_key,
    write_sorted_annotations,
)
from phrasemt.syntax.store import AnnotationStore

if TYPE_CHECKING:
    from phrasemt.syntax.given_annotators import TreeAnnotator
    from phrasemt.syntax.stanza.runtime import StanzaAnnotator

_SENTENCES_PER_BLOCK = 1000
# Smallest number of blocks for each process: with fewer, the processes would end at very different times.
_BLOCKS_PER_PROCESS = 8
_SECONDS_BETWEEN_MESSAGES = 30.0
# Finished sentences are added to the store when they are so many or waited so long; a killed job loses no more.
_SENTENCES_PER_ADDITION, _SECONDS_PER_ADDITION = 1 << 16, 300.0
# Largest fraction of sentences without a tree among given trees. With more, the tokens do not fit.
_WITHOUT_TREE = 0.1

KeyedSentences = list[tuple[bytes, list[str]]]  # keys and sentences


def parse_sentences(
    *, settings: AnnotateSentences, cores: int, tokens: Path, annotator: Path, annotations: Path, cache: Path
) -> None:
    """Write the trees of the sentences of a job.

    Raises MismatchError if the annotator is not a parser, DamagedFileError if a model file is not the one in the card.
    """
    _Job("parse_sentences", "constituency", settings, annotator, cache).run(cores, tokens, annotations)


def tag_sentences(
    *, settings: AnnotateSentences, cores: int, tokens: Path, annotator: Path, annotations: Path, cache: Path
) -> None:
    """Write the chunk tags of the sentences of a job.

    Raises MismatchError if the annotator is not a chunker, DamagedFileError if a model file is not the one in the card.
    """
    _Job("tag_sentences", "chunks", settings, annotator, cache).run(cores, tokens, annotations)


class _Job:
    def __init__(self, stage: str, kind: Kind, settings: AnnotateSentences, annotator: Path, cache: Path) -> None:
        self._stage = stage
        self._buckets = range(settings.job, BUCKETS, settings.jobs)
        self._annotator = annotator
        self._card = Card.read(annotator)
        what, next_step = f"{stage} needs another kind of annotator", "check which parser or chunker the data set names"
        check_equal(kind, self._card.kind, what, where=annotator, next_step=next_step)
        self._description = self._card.description
        self._store = AnnotationStore(cache, self._description)

    def run(self, cores: int, tokens: Path, output: Path) -> None:
        keys, lines = distinct_sentences(tokens, cores)
        ends = np.searchsorted(buckets_of(keys), range(BUCKETS + 1)).tolist()
        parts = {bucket: slice(ends[bucket], ends[bucket + 1]) for bucket in self._buckets}
        missing = [self._store.missing(bucket, keys[part]) + part.start for bucket, part in parts.items()]
        to_do = np.concatenate(missing)
        count = sum(part.stop - part.start for part in parts.values())
        self._log("%s sentences, %s of them found in the store", f"{count:,}", f"{count - len(to_do):,}")
        if len(to_do):
            to_do = to_do[np.argsort(lines[to_do])]
            self._annotate(
                zip(key_bytes(keys[to_do]), _sentences(tokens, lines[to_do]), strict=True), len(to_do), cores
            )
        annotations = self._from_store({bucket: keys[part] for bucket, part in parts.items()})
        if self._card.origin == "trees":
            annotations = self._checked(annotations, tokens, np.concatenate([lines[part] for part in parts.values()]))
        write_sorted_annotations(output, annotations, self._description)

    def _annotate(self, sentences: Iterable[tuple[bytes, list[str]]], to_do: int, cores: int) -> None:
        processes = _processes(cores)
        size = min(_SENTENCES_PER_BLOCK, -(-to_do // (_BLOCKS_PER_PROCESS * processes)))
        results = map_in_order(
            _annotate_block, batched(sentences, size), jobs=processes, prepare=_load, arguments=(self._annotator,)
        )
        keys: list[bytes] = []
        annotations: list[Annotation] = []
        done = failed = 0
        start = reported = added = time.monotonic()
        try:
            for keys_of_block, annotations_of_block in results:
                keys += keys_of_block
                annotations += annotations_of_block
                done += len(annotations_of_block)
                failed += sum(annotation.failure is not None for annotation in annotations_of_block)
                now = time.monotonic()
                rate = done / max(now - start, 1e-9)
                if now - reported >= _SECONDS_BETWEEN_MESSAGES:
                    reported = now
                    left = (to_do - done) / rate / 60
                    self._log("%s of %s annotated, %.0f/s, %.0f minutes left", f"{done:,}", f"{to_do:,}", rate, left)
                if len(keys) >= _SENTENCES_PER_ADDITION or now - added >= _SECONDS_PER_ADDITION:
                    self._add(keys, annotations)
                    added = time.monotonic()
        finally:  # also of a job that is interrupted, or whose annotator fails
            self._add(keys, annotations)
        self._log("%s annotated, %.0f/s, %s of them failed", f"{done:,}", rate, f"{failed:,}")

    def _add(self, keys: list[bytes], annotations: list[Annotation]) -> None:
        """Move annotations to the store."""
        self._store.add(key_array(keys), annotations)
        keys.clear()
        annotations.clear()
        for bucket in self._buckets:
            self._store.merge_small_files(bucket)

    def _from_store(self, keys_of: Mapping[int, Keys]) -> Iterator[tuple[Keys, list[Annotation]]]:
        for bucket, keys in keys_of.items():
            stored = self._store.find(bucket, keys)
            annotations = [annotation for annotation in stored if annotation is not None]
            if len(annotations) < len(stored):
                raise DamagedFileError(
                    "the store lost annotations while the stage ran",
                    where=self._store.folder,
                    expected=f"{len(stored):,} in bucket {bucket}",
                    found=f"{len(annotations):,}",
                    next_step="run again to annotate these sentences again; check the disk if files were set aside",
                )
            yield keys, annotations

    def _checked(
        self, parts: Iterable[tuple[Keys, list[Annotation]]], tokens: Path, lines: NDArray[np.intp]
    ) -> Iterator[tuple[Keys, list[Annotation]]]:
        """Pass on given trees. Warns of sentences without one; raises DataError if they are over _WITHOUT_TREE."""
        has_tree: list[bool] = []
        for keys, of_part in parts:
            has_tree += [annotation.failure is None for annotation in of_part]
            yield keys, of_part
        failed = lines[~np.array(has_tree, bool)]
        if not len(failed):
            return
        (first,) = _sentences(tokens, failed[:1])
        shown = f"{len(failed):,}, such as {' '.join(first)[:200]!r}"
        if len(failed) > _WITHOUT_TREE * len(lines):
            raise DataError(
                "too many sentences have no tree among the given ones",
                where=tokens,
                expected=f"at most {_WITHOUT_TREE:.0%} of {len(lines):,} sentences",
                found=shown,
                next_step="parse these lines, which are tokenised already, and give these trees (docs/syntax.md)",
            )
        self._log("warning: sentences without a tree: %s", shown)

    def _log(self, message: str, *values: object) -> None:
        logging.getLogger(f"phrasemt.{self._stage}").info(f"%s: {message}", self._stage, *values)


def _sentences(tokens: Path, lines: NDArray[np.intp]) -> Iterator[list[str]]:
    """The sentences on these lines of a text, increasing numbers from 0."""
    chosen = np.zeros(lines[-1] + 1, bool)
    chosen[lines] = True
    return map(parser_tokens, itertools.compress(read_lines(tokens), chosen.tolist()))


def _processes(cores: int) -> int:
    """The number of annotating processes: one with a GPU, which forked processes cannot share, else one per core."""
    return 1 if torch_has_gpu() else cores


def _load(annotator: Path) -> StanzaAnnotator | TreeAnnotator:
    from phrasemt.syntax.stanza.annotators import load_annotator

    return load_annotator(annotator)


def _annotate_block(
    annotator: StanzaAnnotator | TreeAnnotator, block: KeyedSentences
) -> tuple[Sequence[bytes], list[Annotation]]:
    """The keys of a block and its annotations."""
    keys, sentences = zip(*block, strict=True)
    annotations = annotator.annotate(sentences)
    assert len(annotations) == len(sentences), "an annotation for each sentence"
    return keys, annotations


def distinct_sentences(tokens: Path, cores: int) -> tuple[Keys, NDArray[np.intp]]:
    """The distinct sentences of a text, without the empty one: their keys, increasing, and a line of each, from 0."""
    blocks = map_in_order(_keys_of_block, read_blocks(tokens), jobs=cores)
    keys, lines = np.unique(np.concatenate([key_array([]), *blocks]), return_index=True)
    has_tokens = keys != sentence_key([])
    return keys[has_tokens], lines[has_tokens]


def _keys_of_block(prepared: None, block: LineBlock) -> Keys:
    return key_array([sentence_key(parser_tokens(line)) for line in block.lines()])
