"""Files of forced decoding: what a model assigns to given targets, and where it attends meanwhile.

A file is an Arrow IPC file with one row for each sentence pair (`ForcedSentence`), so that an analysis in any language
can read it without phrasemt; safetensors and npz hold no rows of text and arrays of different shapes. Attention weights
are lists of float32, in the order of the axes of `AttentionMap`.

Letters: h heads, T query positions, N orders of n-grams (1: tokens), S key positions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError
from phrasemt.files.columns import open_described, with_description
from phrasemt.files.lines import write_atomic

AttentionPlace = Literal["enc_self", "enc_phrases", "dec_self", "dec_phrases", "cross"]
Axis = Literal["source", "target", "phrases"]
PLACES: tuple[AttentionPlace, ...] = get_args(AttentionPlace)
# What the queries and the keys of a place are.
AXES: dict[AttentionPlace, tuple[Axis, Axis]] = {
    "enc_self": ("source", "source"),
    "enc_phrases": ("source", "phrases"),
    "dec_self": ("target", "target"),
    "dec_phrases": ("target", "phrases"),
    "cross": ("target", "source"),
}

FORMAT = 1
_MAP = pa.struct(
    [
        ("place", pa.string()),
        ("layer", pa.int32()),
        ("shape", pa.list_(pa.int32())),
        ("weights", pa.list_(pa.float32())),
    ]
)
_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("source", pa.list_(pa.string())),
        ("target", pa.list_(pa.string())),
        ("log_probs", pa.list_(pa.float32())),
        ("phrase_ends", pa.list_(pa.int32())),
        ("chunk_starts", pa.list_(pa.bool_())),
        ("copy_log_probs", pa.list_(pa.float32())),
        ("update_log_probs", pa.list_(pa.float32())),
        ("chunk_labels", pa.list_(pa.string())),
        ("label_log_probs", pa.list_(pa.float32())),
        ("attentions", pa.list_(_MAP)),
    ]
)


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """The weights of one attention on one sentence pair. layer: counts from 1.

    weights_hTNS: float32; the weights of a head and a query sum to 1 over N and S. The n-gram of order n at key
    position s is the tokens s-n+1 to s. A query of the decoder is the position that predicts target[t]; the keys of its
    self-attention are the words before it, `<s>` first.
    """

    place: AttentionPlace
    layer: int
    weights_hTNS: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class ForcedSentence:
    """A sentence pair under forced decoding. Probabilities are natural logarithms.

    row: row of the pair in the raw text. source, target: subwords as the model reads them, with `</s>` at the end.
    log_probs: of each target token. phrase_ends: end of each source phrase, exclusive; empty without phrases.

    Of chunk-based decoders, one value for each target token, of others none: chunk_starts: whether a chunk starts with
    the token, in the decisions that the decoder follows. copy_log_probs, update_log_probs: of both decisions.
    chunk_labels, label_log_probs: the likeliest label, also within chunks.
    """

    row: int
    source: list[str]
    target: list[str]
    log_probs: list[float]
    phrase_ends: list[int] = field(default_factory=list)
    chunk_starts: list[bool] = field(default_factory=list)
    copy_log_probs: list[float] = field(default_factory=list)
    update_log_probs: list[float] = field(default_factory=list)
    chunk_labels: list[str] = field(default_factory=list)
    label_log_probs: list[float] = field(default_factory=list)
    attentions: list[AttentionMap] = field(default_factory=list)

    @property
    def log_prob(self) -> float:
        """log P(target | source), `</s>` included."""
        return float(sum(self.log_probs))


def write_forced(path: Path, sentences: Iterable[ForcedSentence]) -> int:
    """Write a file atomically, one record batch for each sentence pair. Returns the number of pairs."""
    schema = with_description(_SCHEMA, format=FORMAT)
    count = 0
    with write_atomic(path) as stream, pa.ipc.new_file(stream, schema) as writer:
        for sentence in sentences:
            maps = [
                {
                    "place": one.place,
                    "layer": one.layer,
                    "shape": one.weights_hTNS.shape,
                    "weights": one.weights_hTNS.ravel(),
                }
                for one in sentence.attentions
            ]
            values = {**vars(sentence), "attentions": maps}
            arrays = [pa.array([values[column.name]], column.type) for column in schema]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            count += 1
    return count


def read_forced(path: Path) -> list[ForcedSentence]:
    """Read a file of `write_forced`. Raises DamagedFileError if it is cut off, altered, or of another format."""
    try:
        reader, _ = open_described(pa.OSFile(str(path)), _SCHEMA, FORMAT)
        rows: list[dict[str, Any]] = reader.read_all().to_pylist()
        return [ForcedSentence(**{**row, "attentions": [_map(one) for one in row["attentions"]]}) for row in rows]
    except FileNotFoundError:
        raise DamagedFileError("no such file", where=path, next_step="run the stage that makes it") from None
    except (ValueError, OSError) as error:
        raise DamagedFileError(
            "not a file of forced decoding", where=path, found=str(error)[:300], next_step="delete it and run again"
        ) from None


def _map(entry: dict[str, Any]) -> AttentionMap:
    if entry["place"] not in PLACES:
        raise ValueError(f"attention {entry['place']!r}")
    weights = np.array(entry["weights"], dtype=np.float32).reshape(entry["shape"])
    return AttentionMap(place=entry["place"], layer=entry["layer"], weights_hTNS=weights)
