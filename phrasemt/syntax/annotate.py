"""The stages `parse_sentences` and `tag_sentences`: one job annotates a part of the sentences of a split.

A job takes the buckets with `bucket % jobs == job`. It annotates the sentences missing from the store, in blocks; each
worker process adds a block to the store as soon as the block is done, so a killed job loses only unfinished blocks. The
job then reads its output from the store in the order of the keys. The output therefore does not depend on the number of
processes, on earlier jobs, or on the earlier content of the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.card import Card, Kind
from phrasemt.errors import DamagedFileError, DataError, check_equal
from phrasemt.files.parallel import batched, map_in_order
from phrasemt.machine.gpus import torch_has_gpu
from phrasemt.stages.syntax import AnnotateSentences
from phrasemt.syntax.annotations import Annotation, write_sorted_annotations
from phrasemt.syntax.sentences import BUCKETS, Keys, Sentences, key_array, key_bytes
from phrasemt.syntax.store import AnnotationStore

if TYPE_CHECKING:
    from phrasemt.syntax.given_annotators import TreeAnnotator
    from phrasemt.syntax.stanza.runtime import StanzaAnnotator

_SENTENCES_PER_BLOCK = 1000
# Smallest number of blocks for each process: with fewer, the processes would end at very different times.
_BLOCKS_PER_PROCESS = 8
_SECONDS_BETWEEN_MESSAGES = 30.0
# Largest fraction of sentences without a tree among given trees. With more, the tokens do not fit.
_WITHOUT_TREE = 0.1

Missing = Mapping[int, NDArray[np.int32]]  # by bucket: positions of the sentences missing from the store
KeyedSentences = list[tuple[bytes, list[str]]]  # keys and sentences


def parse_sentences(
    *, settings: AnnotateSentences, cores: int, sentences: Path, annotator: Path, annotations: Path, cache: Path
) -> None:
    """Write the trees of the sentences of a job.

    Raises MismatchError if the annotator is not a parser, DamagedFileError if a model file is not the one in the card.
    """
    _Job("parse_sentences", "constituency", settings, sentences, annotator, cache).run(cores, annotations)


def tag_sentences(
    *, settings: AnnotateSentences, cores: int, sentences: Path, annotator: Path, annotations: Path, cache: Path
) -> None:
    """Write the chunk tags of the sentences of a job.

    Raises MismatchError if the annotator is not a chunker, DamagedFileError if a model file is not the one in the card.
    """
    _Job("tag_sentences", "chunks", settings, sentences, annotator, cache).run(cores, annotations)


class _Job:
    def __init__(
        self, stage: str, kind: Kind, settings: AnnotateSentences, sentences: Path, annotator: Path, cache: Path
    ) -> None:
        self._stage = stage
        self._buckets = range(settings.job, BUCKETS, settings.jobs)
        self._sentences = Sentences.open(sentences)
        self._annotator = annotator
        self._card = Card.read(annotator)
        what, next_step = f"{stage} needs another kind of annotator", "check which parser or chunker the data set names"
        check_equal(kind, self._card.kind, what, where=annotator, next_step=next_step)
        self._cache = cache
        self._description = self._card.description
        self._store = AnnotationStore(cache, self._description)

    def run(self, cores: int, output: Path) -> None:
        missing = {bucket: self._store.missing(bucket, self._keys(bucket)) for bucket in self._buckets}
        sentences = sum(self._sentences.lengths[bucket] for bucket in self._buckets)
        to_do = sum(map(len, missing.values()))
        self._log("%s sentences, %s of them found in the store", f"{sentences:,}", f"{sentences - to_do:,}")
        if to_do:
            self._annotate(missing, to_do, cores)
        found = self._from_store()
        given = self._card.origin == "trees"
        write_sorted_annotations(output, self._checked(found) if given else found, self._description)

    def _annotate(self, missing: Missing, to_do: int, cores: int) -> None:
        processes = _processes(cores)
        size = min(_SENTENCES_PER_BLOCK, -(-to_do // (_BLOCKS_PER_PROCESS * processes)))
        results = map_in_order(
            _annotate_block,
            batched(self._missing_sentences(missing), size),
            jobs=processes,
            prepare=_prepare,
            arguments=(self._annotator, self._cache, self._description),
        )
        done = failed = 0
        start = reported = time.monotonic()
        for done_now, failed_now in results:
            done += done_now
            failed += failed_now
            now = time.monotonic()
            rate = done / max(now - start, 1e-9)
            if now - reported >= _SECONDS_BETWEEN_MESSAGES:
                reported = now
                left = (to_do - done) / rate
                self._log("%s of %s annotated, %.0f/s, %.0f minutes left", f"{done:,}", f"{to_do:,}", rate, left / 60)
        self._log("%s annotated, %.0f/s, %s of them failed", f"{done:,}", rate, f"{failed:,}")

    def _missing_sentences(self, missing: Missing) -> Iterator[tuple[bytes, list[str]]]:
        for bucket, positions in missing.items():
            sentences = self._sentences.bucket(bucket)
            for start in range(0, len(positions), _SENTENCES_PER_BLOCK):
                part = positions[start : start + _SENTENCES_PER_BLOCK]
                yield from zip(key_bytes(sentences.keys[part]), sentences.sentences(part), strict=True)

    def _from_store(self) -> Iterator[tuple[Keys, list[Annotation]]]:
        for bucket in self._buckets:
            keys = self._keys(bucket)
            found = self._store.find(bucket, keys)
            annotations = [annotation for annotation in found if annotation is not None]
            if len(annotations) < len(found):
                raise DamagedFileError(
                    "the store lost annotations while the stage ran",
                    where=self._store.folder,
                    expected=f"{len(found):,} in bucket {bucket}",
                    found=f"{len(annotations):,}",
                    next_step="run again to annotate these sentences again; check the disk if files were set aside",
                )
            yield keys, annotations

    def _checked(self, parts: Iterator[tuple[Keys, list[Annotation]]]) -> Iterator[tuple[Keys, list[Annotation]]]:
        """Pass on given trees. Warns of sentences without one; raises DataError if they are over _WITHOUT_TREE."""
        failed: list[tuple[int, int, Annotation]] = []  # bucket, position, failure
        for bucket, (keys, found) in zip(self._buckets, parts, strict=True):
            failed += [(bucket, position, one) for position, one in enumerate(found) if one.failure is not None]
            yield keys, found
        if not failed:
            return
        bucket, position, first = failed[0]
        tokens = " ".join(self._sentences.bucket(bucket).sentences(np.array([position]))[0])
        sentences = sum(self._sentences.lengths[bucket] for bucket in self._buckets)
        if len(failed) > _WITHOUT_TREE * sentences:
            raise DataError(
                "too many sentences have no tree among the given ones",
                where=self._sentences.path,
                expected=f"at most {_WITHOUT_TREE:.0%} of {sentences:,} sentences",
                found=f"{len(failed):,}, such as {tokens[:200]!r}: {first.failure}",
                next_step="parse the lines of results/STUDY/DATA/tokens/, which are tokenised already, and give these "
                "trees (docs/syntax.md)",
            )
        self._log("warning: %s sentences have no tree, such as %r: %s", f"{len(failed):,}", tokens[:200], first.failure)

    def _keys(self, bucket: int) -> Keys:
        return self._sentences.bucket(bucket).keys

    def _log(self, message: str, *values: object) -> None:
        logging.getLogger(f"phrasemt.{self._stage}").info(f"%s: {message}", self._stage, *values)


def _processes(cores: int) -> int:
    """The number of annotating processes: one with a GPU, which forked processes cannot share, else one per core."""
    return 1 if torch_has_gpu() else cores


def _prepare(
    annotator: Path, cache: Path, description: Mapping[str, Any]
) -> tuple[StanzaAnnotator | TreeAnnotator, AnnotationStore]:
    from phrasemt.syntax.stanza.annotators import load_annotator

    return load_annotator(annotator), AnnotationStore(cache, description)


def _annotate_block(
    prepared: tuple[StanzaAnnotator | TreeAnnotator, AnnotationStore], block: KeyedSentences
) -> tuple[int, int]:
    """Annotate sentences and store the result; returns the number of sentences and of failures."""
    annotator, store = prepared
    keys, sentences = zip(*block, strict=True)
    annotations = annotator.annotate(sentences)
    assert len(annotations) == len(sentences), "an annotation for each sentence"
    store.add(key_array(keys), annotations)
    return len(annotations), sum(annotation.failure is not None for annotation in annotations)
