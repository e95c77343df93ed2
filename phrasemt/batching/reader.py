"""Reading of batches: pairs of an example store, with the phrases and chunks that the model reads.

`RankBatches` are the micro-batches of an update that one rank computes, made ahead while a GPU computes.
"""

from __future__ import annotations

import functools
import logging
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from phrasemt.artefacts.columns import ChunkColumns, Examples, PhraseColumns, Vocabularies
from phrasemt.batching.batch import (
    Batch,
    Packing,
    Source,
    Target,
    Tensors,
    collate_chunks,
    collate_phrases,
    collate_source,
    collate_target,
)
from phrasemt.batching.sampler import UpdatePlan, micro_batches, packed_rows_of_rank
from phrasemt.errors import DamagedFileError, PhrasemtError, check_equal
from phrasemt.files.columns import ColumnFile, damaged
from phrasemt.machine.launch import PASSED_ON
from phrasemt.phrase_modes import PHRASE_MODES
from phrasemt.study.architectures import ModelInputs, PhraseSegmentation
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL, LONGEST_SENTENCE, NULL_LABEL
from phrasemt.syntax.ngrams import ngram_ends

log = logging.getLogger("phrasemt.batching")


class SourceCollator:
    """Turns source sentences into a `Source`, with phrases if the model reads them.

    phrases: the file of phrase columns, or an empty sequence. N-gram phrases follow from the length and need no file.
    Raises MismatchError when a needed file is missing or has the phrases of another segmentation.
    """

    def __init__(self, reads: ModelInputs, phrases: Sequence[Path] = ()) -> None:
        self._segmentation = reads.phrases
        self._with_bos = reads.begins_with_bos
        self.special = 1 + self._with_bos  # tokens of a source beside its subwords
        self.phrases: ColumnFile | None = None
        if self._segmentation and PHRASE_MODES[self._segmentation.mode].stored:
            self.phrases = _open_phrases(phrases, self._segmentation)
        # There are few different lengths, so the ends of n-gram phrases are computed once for each.
        self._ngram_ends = functools.cache(ngram_ends)

    def __call__(
        self, sentences: Sequence[NDArray[np.int32]], positions: Sequence[int], packing: Packing | None = None
    ) -> Source:
        """Make the source side of a batch.

        sentences: subword ids without special tokens. positions: position of each sentence in the phrase columns.
        packing: of a packed batch. Raises DamagedFileError for phrases that do not fit their sentence.
        """
        phrases = None
        if self._segmentation is not None:
            lengths = [len(sentence) + self.special for sentence in sentences]
            phrases = collate_phrases(self._ends(lengths, positions, self._segmentation), packing)
        return collate_source(sentences, phrases, with_bos=self._with_bos, packing=packing)

    def _ends(
        self, lengths: Sequence[int], positions: Sequence[int], segmentation: PhraseSegmentation
    ) -> list[NDArray[np.int64]]:
        if self.phrases is not None:
            return [
                self._ends_in_columns(self.phrases, length, position)
                for length, position in zip(lengths, positions, strict=True)
            ]
        longest = max(lengths) if segmentation.ntok_scope == "batch" else None
        return [self._ngram_ends(length, segmentation, longest) for length in lengths]

    def _ends_in_columns(self, columns: ColumnFile, length: int, position: int) -> NDArray[np.int64]:
        ends = columns.values("ends", position).astype(np.int64)
        if length == LONGEST_SENTENCE + 1:  # the reader may have truncated the sentence
            ends = np.append(ends[ends < length], length)
        if not len(ends) or ends[0] < 1 or (np.diff(ends) < 1).any() or ends[-1] != length:
            raise _misfit(
                columns, position, "phrases", expected=f"increasing ends, the last of them {length}", found=ends
            )
        return ends


def _misfit(columns: ColumnFile, position: int, what: str, *, expected: str, found: NDArray[Any]) -> DamagedFileError:
    return DamagedFileError(
        f"{what} do not fit their sentence",
        where=f"{columns.path}, row {columns.rows[np.array(position)]}",
        expected=expected,
        found=" ".join(map(str, found.tolist()[:20])) or "none",
        next_step="delete it and run again",
    )


class TargetCollator:
    """Turns target sentences into a `Target`, with chunks if the model reads them.

    chunks: the file of chunk columns. None: no chunks; the model then decides about them.
    Raises MismatchError when the model reads chunks and `chunks` is an empty sequence.
    """

    def __init__(self, reads: ModelInputs, chunks: Sequence[Path] | None = None) -> None:
        self.chunks = _open_chunks(chunks) if reads.chunks and chunks is not None else None

    def __call__(
        self, sentences: Sequence[NDArray[np.int32]], positions: Sequence[int], packing: Packing | None = None
    ) -> Target:
        """Make the target side of a batch.

        sentences: subword ids without special tokens. positions: position of each sentence in the chunk columns.
        packing: of a packed batch, which has no chunks. Raises DamagedFileError for chunks that do not fit their
        sentence.
        """
        if self.chunks is None:
            return collate_target(sentences, packing=packing)
        starts_and_labels = [
            self._starts_and_labels(self.chunks, len(sentence), position)
            for sentence, position in zip(sentences, positions, strict=True)
        ]
        starts, labels = zip(*starts_and_labels, strict=True)
        return collate_target(sentences, collate_chunks(starts, labels))

    def _starts_and_labels(
        self, columns: ColumnFile, length: int, position: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        starts, labels = (columns.values(column, position) for column in ("starts", "labels"))
        if length == LONGEST_SENTENCE and len(starts) == len(labels):  # the reader may have truncated the sentence
            whole = starts < length
            starts, labels = np.append(starts[whole], np.int32(length)), np.append(labels[whole], np.int32(EOS_LABEL))
        if not len(starts) or starts[0] != 0 or (np.diff(starts) < 1).any() or starts[-1] != length:
            expected = f"increasing starts from 0, the last of them {length}"
            raise _misfit(columns, position, "chunks", expected=expected, found=starts)
        within, last = labels[:-1], labels[-1:]
        known = bool(((within > NULL_LABEL) & (within < len(CHUNK_LABELS))).all()) and last.tolist() == [EOS_LABEL]
        if len(labels) != len(starts) or not known:
            expected = f"{len(starts)} labels from {NULL_LABEL + 1} to {len(CHUNK_LABELS) - 1}, {EOS_LABEL} at the end"
            raise _misfit(columns, position, "chunk labels", expected=expected, found=labels)
        return starts, labels


def _open_chunks(paths: Sequence[Path]) -> ColumnFile:
    what, next_step = "a chunk-based decoder needs a file of target chunks", "run extract_chunks on the same split"
    check_equal(1, len(paths), what, where="--chunks", next_step=next_step)
    columns = ChunkColumns.open(paths[0])
    if (labels := columns.description.get("labels")) != list(CHUNK_LABELS):
        raise damaged(paths[0], expected=f"labels {' '.join(CHUNK_LABELS)}", found=labels)
    return columns


def _open_phrases(paths: Sequence[Path], segmentation: PhraseSegmentation) -> ColumnFile:
    what = f"a model with phrases of mode {segmentation.mode} needs a file of phrases"
    next_step = "run extract_phrases with the segmentation of the model"
    check_equal(1, len(paths), what, where="--phrases", next_step=next_step)
    columns = PhraseColumns.open(paths[0])
    expected, described = segmentation.model_dump(mode="json"), columns.description.get("segmentation")
    check_equal(expected, described, "phrases of another segmentation", where=paths[0], next_step=next_step)
    return columns


class BatchReader:
    """Turns pairs of an example store into a `Batch`. It truncates sentences after `LONGEST_SENTENCE` subwords.

    phrases, chunks: as in `SourceCollator` and `TargetCollator`. Raises MismatchError when their rows are not the rows
    of the examples, or belong to the text of another split.
    """

    def __init__(
        self, examples: Examples, reads: ModelInputs, phrases: Sequence[Path] = (), chunks: Sequence[Path] | None = None
    ) -> None:
        self.examples = examples
        self._collate_source = SourceCollator(reads, phrases)
        self._collate_target = TargetCollator(reads, chunks)
        for columns, stage in (
            (self._collate_source.phrases, "extract_phrases"),
            (self._collate_target.chunks, "extract_chunks"),
        ):
            if columns is not None:
                columns.check_texts(examples.columns, next_step=f"run {stage} and pack_examples on the same split")
        longer = sum(int((lengths > LONGEST_SENTENCE).sum()) for lengths in examples.source_lengths.parts())
        if longer:
            log.warning("%d source sentences are truncated after %d subwords", longer, LONGEST_SENTENCE)

    @classmethod
    def open(
        cls,
        examples: Path,
        words: Vocabularies,
        reads: ModelInputs,
        phrases: Sequence[Path] = (),
        chunks: Sequence[Path] | None = None,
    ) -> BatchReader:
        """Open an example store. Raises MismatchError when it was packed with other vocabularies."""
        store = Examples.open(examples)
        store.check_vocabularies(*words)
        return cls(store, reads, phrases, chunks)

    def sides(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of source and target of some pairs, with their special tokens: [pairs, 2]."""
        source_N = self.examples.source_lengths[positions] + self._collate_source.special
        sides_N2 = np.stack((source_N, self.examples.target_lengths[positions] + 1), axis=1, dtype=np.int64)
        return np.minimum(sides_N2, LONGEST_SENTENCE + 2)

    def batches(self, capacity: int, device: torch.device) -> Batches:
        """Return all pairs in batches of similar length, with at most `capacity` positions on either side."""
        store = self.examples
        lengths = store.source_lengths, store.target_lengths
        parts = micro_batches(np.arange(len(store)), *lengths, capacity=capacity, device=device.type)
        return Batches(self, parts, device)

    def __call__(self, positions: Sequence[int] | NDArray[np.int64], packing: Packing | None = None) -> Batch:
        positions = [int(position) for position in positions]
        targets = [self.examples.target(position)[:LONGEST_SENTENCE] for position in positions]
        return Batch(
            rows=tuple(positions),
            source=self.source(positions, packing),
            target=self._collate_target(targets, positions, packing),
        )

    def source(self, positions: Sequence[int] | NDArray[np.int64], packing: Packing | None = None) -> Source:
        """Return the source side alone, for translation."""
        positions = [int(position) for position in positions]
        sentences = [self.examples.source(position)[:LONGEST_SENTENCE] for position in positions]
        return self._collate_source(sentences, positions, packing)


class Batches(Sequence[Batch]):
    """Batches that are read whenever they are asked for, so that one of them is in memory at a time."""

    def __init__(self, reader: BatchReader, rows: Sequence[NDArray[np.int64]], device: torch.device) -> None:
        self._reader, self._rows, self._device = reader, rows, device

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: Any) -> Any:
        return self._reader(self._rows[number]).to(self._device)


Rows = NDArray[np.int64]
# An update of a plan: epoch, number within the epoch, rows.
PlannedUpdate = tuple[int, int, Rows]

# Processes that make micro-batches ahead, by type of device. On an H100 this takes about as long as the computation; on
# a CPU the training makes them itself in 0.5 % of its time.
WORKERS = {"cpu": 0, "cuda": 2}


@dataclass(frozen=True, kw_only=True)
class RankBatches(Tensors):
    """The micro-batches of an update that one process computes.

    weight: of their sums in the update; 0 where a process without rows computes one that counts nothing.
    capacity: the most positions of a micro-batch when they were made.
    """

    batches: tuple[Batch, ...]
    weight: float
    capacity: int

    def pin_memory(self) -> RankBatches:
        """Return a copy in memory that the GPU reads while the host continues. DataLoader calls this."""
        return self.map(lambda x, _: x.pin_memory())


@dataclass(frozen=True)
class RankReader(Dataset[tuple[PlannedUpdate, RankBatches | PhrasemtError]]):
    """Makes the micro-batches of process `rank` of `ranks`, for a device of this type.

    rows_of: the numbers of positions, increasing, that rows of packed batches may have; empty for padded batches.
    fixed: whether batches have one of few shapes (`Batch.fixed`).
    """

    reader: BatchReader
    device: str
    rank: int = 0
    ranks: int = 1
    rows_of: tuple[int, ...] = ()
    fixed: bool = False

    def read(self, rows: Rows, capacity: int) -> RankBatches:
        """Return this rank's part of an update, in micro-batches of at most `capacity` positions.

        Raises DamagedFileError for phrases or chunks that do not fit their sentence.
        """
        parts = self._parts(rows, capacity)
        batches = tuple(self._batch(*part) for part in parts or [(rows[:1], None)])
        return RankBatches(batches=batches, weight=1.0 if parts else 0.0, capacity=capacity)

    def positions(self, rows: Rows) -> int:
        """Return the positions of this rank's part of an update, padding included, if memory is no limit."""
        return sum(
            len(packing.counts) * packing.positions if packing else len(part) * int(self.reader.sides(part).max())
            for part, packing in self._parts(rows, 2**40)
        )

    def trial(self, plan: UpdatePlan, capacity: int) -> Batch:
        """Return a micro-batch that needs as much memory as any of this capacity: the longest pairs, or full rows."""
        if not self.rows_of:
            rows, longest = plan.longest(capacity)
            return self._batch(rows[: max(1, capacity // longest)])
        enough, updates = np.empty(0, np.int64), plan.updates()
        while plan.positions(enough) < 1.5 * capacity:
            enough = np.concatenate([enough, next(updates)[-1]])
        return self._batch(*replace(self, rank=0, ranks=1)._parts(enough, capacity)[0])

    def _batch(self, rows: Rows, packing: Packing | None = None) -> Batch:
        batch = self.reader(rows, packing)
        return batch.fixed() if self.fixed else batch

    def _parts(self, rows: Rows, capacity: int) -> list[tuple[Rows, Packing | None]]:
        """Return the pairs of each micro-batch, and how they share rows."""
        lengths = self.reader.examples.source_lengths, self.reader.examples.target_lengths
        if not self.rows_of:
            of_rank = micro_batches(
                rows, *lengths, capacity=capacity, device=self.device, rank=self.rank, ranks=self.ranks
            )
            return [(part, None) for part in of_rank]
        sides_N2 = self.reader.sides(rows)
        return packed_rows_of_rank(rows, sides_N2, self.rows_of, capacity=capacity, rank=self.rank, ranks=self.ranks)

    def ahead(
        self, updates: Iterable[PlannedUpdate], capacity: Callable[[], int]
    ) -> Generator[tuple[PlannedUpdate, RankBatches]]:
        """Yield each update of a plan with this rank's micro-batches; with a GPU, workers make them ahead.

        capacity: returns the present one. Micro-batches may have been made for the one before. Closing the generator
        ends the workers. Raises DamagedFileError as `read`.
        """
        workers = WORKERS[self.device]
        loader = DataLoader(
            self,
            batch_size=None,  # an update of the plan is an index of this data set
            sampler=((update, capacity()) for update in updates),
            collate_fn=lambda item: item,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            pin_memory=self.device == "cuda",
            generator=torch.Generator(),  # for seeds of workers, which use none; the global one stays as it is
        )
        # Signals to stop concern the training, which first saves its state. A worker inherits that they are blocked, so
        # none ends it, not even in its first instant. A worker whose training was killed ends by itself within five
        # seconds (torch.utils.data).
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            made = iter(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            for update, of_rank in made:
                if isinstance(of_rank, PhrasemtError):
                    raise of_rank
                yield update, of_rank
        finally:
            del made  # ends the workers

    def __getitem__(self, item: tuple[PlannedUpdate, int]) -> tuple[PlannedUpdate, RankBatches | PhrasemtError]:
        update, capacity = item
        try:
            return update, self.read(update[2], capacity)
        except PhrasemtError as error:  # DataLoader would raise it with the worker's traceback as its message
            return update, error
