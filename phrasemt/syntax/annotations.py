"""Files of annotations: the trees of a parser or the chunk tags of a chunker, by the keys of their sentences.

A sentence is a list of parser tokens: Moses tokens without Moses' escapes, because parsers and chunkers learn from text
without escapes. The key of a sentence is a digest of its tokens, so a sentence has the same key in every corpus. The
first bits of the key give one of 64 buckets of about equal sizes.

A file is an Arrow IPC file with the columns `key` (16 bytes), `text` and `failure`. In each row exactly one of text and
failure has a value. Each bucket with sentences has one record batch; keys increase over the whole file. The metadata
contain the description of the annotator (`phrasemt.artefacts.syntax.Card.description`). Readers compare a digest of
the whole file, in its sidecar or in its name, and nothing below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.files.columns import open_described, with_description
from phrasemt.files.lines import write_atomic
from phrasemt.symbols import unescape

BUCKETS = 64
KEY_BYTES = 16
# Keys [n] as numpy strings of 16 bytes, which compare and sort like bytes. Single items lose zero bytes at their end.
Keys = NDArray[np.bytes_]
FORMAT = 1
SCHEMA = pa.schema([("key", pa.binary(KEY_BYTES)), ("text", pa.string()), ("failure", pa.string())])


def parser_tokens(line: str) -> list[str]:
    """The tokens of a line of Moses tokens without Moses' escapes; [] for an empty line.

    Like `apply_subwords`, the function skips repeated spaces, so both see the same number of words.
    """
    return [token for token in unescape(line).split(" ") if token]


def sentence_key(tokens: Sequence[str]) -> bytes:
    """The key of a sentence, 16 bytes. Tokens come from lines, so no token contains a line break."""
    return blake2b("\n".join(tokens).encode("utf-8"), digest_size=KEY_BYTES).digest()


def key_array(keys: Sequence[bytes]) -> Keys:
    """Keys as an array, [n]."""
    return np.frombuffer(b"".join(keys), dtype=f"S{KEY_BYTES}")


def key_bytes(keys: Keys) -> list[bytes]:
    """The keys of an array with all 16 bytes."""
    listed: list[bytes] = np.ascontiguousarray(keys).view(f"V{KEY_BYTES}").tolist()
    return listed


def buckets_of(keys: Keys) -> NDArray[np.uint8]:
    """The bucket of each key, 0 <= bucket < 64: its first six bits; uint8 [n]."""
    first: NDArray[np.uint8] = np.ascontiguousarray(keys).view(np.uint8)[::KEY_BYTES]
    return first >> np.uint8(2)


@dataclass(frozen=True, slots=True)
class Annotation:
    """The annotation of a sentence. Exactly one of the two fields is set.

    text: the tree in brackets with token indices as leaves (parser), or the tags separated by spaces (chunker).
    failure: the reason why the annotator made no text.
    """

    text: str | None
    failure: str | None


class AnnotationBatch:
    """The annotations of sentences of one bucket, a view of a record batch. keys: [n], increasing."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        key, self._text, self._failure = batch.columns
        keys = np.frombuffer(key.buffers()[1] or b"", dtype=f"S{KEY_BYTES}")  # a view of its memory
        self.keys: Keys = keys[key.offset : key.offset + len(key)]
        self.bucket = int(buckets_of(self.keys[:1])[0])

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Whether each sentence has a failure in place of a text, [n]."""
        failed: NDArray[np.bool_] = self._text.is_null().to_numpy(False)
        return failed

    def positions(self, keys: Keys) -> NDArray[np.intp]:
        """The position of each key in the batch; -1 for a key that is not in the batch."""
        positions = np.searchsorted(self.keys, keys)
        is_known = self.keys[np.minimum(positions, len(self.keys) - 1)] == keys
        return np.where(is_known, positions, -1)

    def annotations(self, positions: NDArray[np.intp]) -> list[Annotation]:
        """The annotations at these positions."""
        indices = pa.array(positions)
        texts, failures = (
            column.take(indices).to_numpy(zero_copy_only=False).tolist() for column in (self._text, self._failure)
        )
        return list(map(Annotation, texts, failures))


class Annotations:
    """The annotations of the sentences of a data set, memory-mapped, found by key."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open the files that the annotation jobs of a data set wrote.

        Raises DamagedFileError if a file is cut off or of another schema or format version.
        """
        self._batches: list[AnnotationBatch] = []
        for path in paths:
            try:
                self._batches += parse_annotations(pa.memory_map(str(path)))[1]
            except ValueError as error:
                raise DamagedFileError(
                    "not a complete file of annotations", where=path, found=error, next_step="delete it and run again"
                ) from None

    def find(self, keys: Sequence[bytes]) -> list[Annotation | None]:
        """The annotation of each key; None for a key that is in no file."""
        all_keys = key_array(keys)
        buckets = buckets_of(all_keys)
        order = np.argsort(buckets, kind="stable")
        starts = np.searchsorted(buckets[order], np.arange(BUCKETS + 1))
        of_keys: list[Annotation | None] = [None] * len(keys)
        for batch in self._batches:
            numbers = order[starts[batch.bucket] : starts[batch.bucket + 1]]
            positions = batch.positions(all_keys[numbers])
            known = positions >= 0
            annotations = batch.annotations(positions[known])
            for number, annotation in zip(numbers[known].tolist(), annotations, strict=True):
                of_keys[number] = annotation
        return of_keys


def parse_annotations(source: pa.NativeFile | pa.Buffer) -> tuple[dict[str, Any], list[AnnotationBatch]]:
    """Description of the annotator and record batches, from an open file or from bytes.

    Raises ValueError, with the reason, if it is cut off or of another schema or format version.
    """
    reader, description = open_described(source, SCHEMA, FORMAT)
    return description["annotator"], [AnnotationBatch(reader.get_batch(i)) for i in range(reader.num_record_batches)]


def write_annotations(
    path: Path, keys: Sequence[bytes], annotations: Sequence[Annotation], card: Mapping[str, Any]
) -> None:
    """Write annotations, atomically. keys: distinct, in any order; card: the description of the annotator."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    write_sorted_annotations(path, [(key_array([keys[i] for i in order]), [annotations[i] for i in order])], card)


def write_sorted_annotations(
    path: Path, parts: Iterable[tuple[Keys, Sequence[Annotation]]], card: Mapping[str, Any]
) -> None:
    """Write annotations in parts, atomically. Keys increase over all parts, and no bucket is in two parts."""
    with write_atomic(path) as stream, pa.ipc.new_file(stream, schema_of(card)) as writer:
        for keys, annotations in parts:
            for batch in annotation_batches(keys, annotations):
                writer.write_batch(batch)


def schema_of(card: Mapping[str, Any]) -> pa.Schema:
    """The schema of a file of annotations, with the description of the annotator in its metadata."""
    return with_description(SCHEMA, format=FORMAT, annotator=dict(card))


def annotation_batches(keys: Keys, annotations: Sequence[Annotation]) -> list[pa.RecordBatch]:
    """Annotations as record batches, one for each bucket with sentences. keys: increasing."""
    starts = np.searchsorted(buckets_of(keys), np.arange(BUCKETS + 1)).tolist()
    return [
        # New arrays and not slices of larger ones: the offsets of a slice would change the bytes of the file.
        pa.record_batch(
            [
                pa.Array.from_buffers(
                    pa.binary(KEY_BYTES), end - start, [None, pa.py_buffer(keys[start:end].tobytes())]
                ),
                pa.array([annotation.text for annotation in annotations[start:end]], pa.string()),
                pa.array([annotation.failure for annotation in annotations[start:end]], pa.string()),
            ],
            schema=SCHEMA,
        )
        for start, end in itertools.pairwise(starts)
        if end > start
    ]


def required(annotation: Annotation | None, where: str) -> Annotation:
    """Check that a sentence has an annotation, which may be a failure.

    Raises MismatchError, which names the place `where` of the sentence, if it has none: the annotations then belong to
    other sentences.
    """
    if annotation is None:
        next_step = "give the annotations of this data set and side; if you did, delete them and run again"
        raise MismatchError("this sentence has no annotation", where=where, next_step=next_step)
    return annotation
