"""Sentences as parsers and chunkers see them, their keys and buckets.

A sentence is a list of parser tokens: Moses tokens without Moses' escapes, because parsers and chunkers learn from text
without escapes. The key of a sentence is a digest of its tokens, so a sentence has the same key in every corpus. The
first bits of the key give one of 64 buckets of about equal sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.files.lines import LineBlock, read_blocks
from phrasemt.files.parallel import map_in_order
from phrasemt.symbols import unescape

BUCKETS = 64
KEY_BYTES = 16
# Keys [n] as numpy strings of 16 bytes, which compare and sort like bytes. Single items lose zero bytes at their end.
Keys = NDArray[np.bytes_]


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


def distinct_sentences(tokens: Path, cores: int) -> tuple[Keys, NDArray[np.intp]]:
    """The distinct sentences of a text, without the empty one: their keys, increasing, and a line of each, from 0."""
    blocks = map_in_order(_keys_of_block, read_blocks(tokens), jobs=cores)
    keys, lines = np.unique(np.concatenate([key_array([]), *blocks]), return_index=True)
    has_tokens = keys != sentence_key([])
    return keys[has_tokens], lines[has_tokens]


def _keys_of_block(prepared: None, block: LineBlock) -> Keys:
    return key_array([sentence_key(parser_tokens(line)) for line in block.lines()])
