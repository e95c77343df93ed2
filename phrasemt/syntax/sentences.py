"""The stage `collect_sentences`: the distinct sentences of a text, and the keys and buckets of sentences.

A sentence is a list of parser tokens: Moses tokens without Moses' escapes, because parsers and chunkers learn from text
without escapes. The key of a sentence is a digest of its tokens, so a sentence has the same key in every corpus. The
first bits of the key give one of 64 buckets of about equal sizes.

The file of sentences is an Arrow IPC file with the columns `key` (16 bytes) and `tokens` (list<string>). It has one
record batch for each bucket, in order, and keys increase within a batch.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError
from phrasemt.files.columns import open_described, with_description
from phrasemt.files.lines import LineBlock, read_blocks, write_atomic
from phrasemt.files.parallel import map_in_order
from phrasemt.stages.syntax import CollectSentences
from phrasemt.symbols import unescape

log = logging.getLogger("phrasemt.collect_sentences")

BUCKETS = 64
KEY_BYTES = 16
# Keys [n] as numpy strings of 16 bytes, which compare and sort like bytes. Single items lose zero bytes at their end.
Keys = NDArray[np.bytes_]

FORMAT = 1
SCHEMA = pa.schema([("key", pa.binary(KEY_BYTES)), ("tokens", pa.list_(pa.string()))])


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


def arrow_keys(keys: Keys) -> pa.FixedSizeBinaryArray:
    """Keys as an Arrow column."""
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(keys.tobytes())])


def numpy_keys(column: pa.FixedSizeBinaryArray) -> Keys:
    """An Arrow column of keys as an array, a view of its memory. The column must not have missing values."""
    keys = np.frombuffer(column.buffers()[1] or b"", dtype=f"S{KEY_BYTES}")
    return keys[column.offset : column.offset + len(column)]


def collect_sentences(*, settings: CollectSentences, cores: int, tokens: Path, sentences: Path) -> None:
    """Write the distinct sentences of a text, without the empty one, by key. Memory: the sentences of one bucket."""
    lines = empty = distinct = 0
    schema = with_description(SCHEMA, format=FORMAT, buckets=BUCKETS)
    with contextlib.ExitStack() as stack:
        # Files without names, so that a killed run leaves nothing.
        spills = [stack.enter_context(tempfile.TemporaryFile(dir=sentences.parent)) for _ in range(BUCKETS)]
        for parts, lines_of_block, empty_of_block in map_in_order(
            _with_keys, read_blocks(tokens), jobs=cores, prepare=_nothing
        ):
            for spill, part in zip(spills, parts, strict=True):
                spill.write(part)
            lines += lines_of_block
            empty += empty_of_block
        with write_atomic(sentences) as stream, pa.ipc.new_file(stream, schema) as writer:
            for spill in spills:
                spill.seek(0)
                batch = _distinct(spill.read())
                spill.close()  # frees its disk space
                writer.write_batch(batch)
                distinct += batch.num_rows
    log.info(
        "collect_sentences: %s lines, %s empty, %s distinct sentences", f"{lines:,}", f"{empty:,}", f"{distinct:,}"
    )


def _with_keys(prepared: None, block: LineBlock) -> tuple[list[bytes], int, int]:
    """The sentences of a block by bucket, as lines of hexadecimal key and tokens; numbers of all and of empty lines."""
    parts: list[list[str]] = [[] for _ in range(BUCKETS)]
    lines = block.lines()
    empty = 0
    for line in lines:
        if tokens := parser_tokens(line):
            key = sentence_key(tokens)
            parts[key[0] >> 2].append(f"{key.hex()}{' '.join(tokens)}\n")
        else:
            empty += 1
    return ["".join(part).encode("utf-8") for part in parts], len(lines), empty


def _nothing() -> None:
    return None


def _distinct(spilled: bytes) -> pa.RecordBatch:
    lines = sorted(set(spilled.split(b"\n")[:-1]))  # hexadecimal digits sort like the bytes
    digits = 2 * KEY_BYTES
    keys = bytes.fromhex(b"".join(line[:digits] for line in lines).decode("ascii"))
    texts = pa.array([line[digits:] for line in lines], pa.string())
    return pa.record_batch(
        [arrow_keys(np.frombuffer(keys, f"S{KEY_BYTES}")), pc.split_pattern(texts, pattern=" ")], schema=SCHEMA
    )


@dataclass(frozen=True)
class Bucket:
    """The sentences of a bucket. keys: [n], increasing; tokens: Arrow column of token lists."""

    keys: Keys
    tokens: pa.ListArray

    def sentences(self, positions: NDArray[np.integer[Any]]) -> list[list[str]]:
        """The tokens of the sentences at these positions."""
        listed: list[list[str]] = self.tokens.take(pa.array(positions)).to_pylist()
        return listed


class Sentences:
    """A file of `collect_sentences`; use `open` to make one. lengths: numbers of sentences of the 64 buckets."""

    def __init__(self, path: Path, lengths: list[int]) -> None:
        self.path = path
        self.lengths = lengths

    @classmethod
    def open(cls, path: Path) -> Sentences:
        """Open a file; `bucket` reads the sentences.

        Raises DamagedFileError if the file is cut off or of another schema or format version.
        """
        try:
            reader, _ = open_described(pa.memory_map(str(path)), SCHEMA, FORMAT)
        except ValueError as error:
            what, next_step = "not a complete file of sentences", "delete it and run collect_sentences again"
            raise DamagedFileError(what, where=path, found=error, next_step=next_step) from None
        return cls(path, [reader.get_batch(number).num_rows for number in range(BUCKETS)])

    def __len__(self) -> int:
        return sum(self.lengths)

    def bucket(self, number: int) -> Bucket:
        """The sentences of a bucket."""
        # A mapping for this bucket only, so that the process does not keep pages of other buckets.
        batch = pa.ipc.open_file(pa.memory_map(str(self.path))).get_batch(number)
        return Bucket(numpy_keys(batch.column("key")), batch.column("tokens"))
