"""Batches: sentence pairs as padded tensors, with the phrases and chunks that a model asks for.

Letters: B sentences, S source positions, T target positions, P phrases, M tokens of the longest phrase. A mask is True
at real positions and False at padding.

In a padded batch each row is one pair. In a packed batch a row has a fixed number of positions and holds several pairs,
one after the other on either side, and B is the number of rows; `Pairs` say which position belongs to which pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.files.attention import Axis
from phrasemt.symbols import BOS, EOS, NULL_LABEL, PAD

_BOS, _EOS = np.array([BOS], dtype=np.int32), np.array([EOS], dtype=np.int32)


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """Base of dataclasses that hold tensors. Fields may also be such dataclasses, tuples of both, or other values."""

    def map(self, change: Callable[[Tensor, str], Tensor]) -> Self:
        """Return a copy in which change(tensor, axes) stands in the place of each tensor, also of nested ones.

        axes: the letters behind the last `_` of the field's name, one for each axis.
        """
        return self._changed(change, lambda part: part.map(change))

    def to(self, device: torch.device) -> Self:
        """Return a copy on a device."""
        return self.map(lambda x, _: x.to(device, non_blocking=True))

    def tensors(self) -> list[tuple[Tensor, str]]:
        """Return all tensors with their axes, also of nested parts, in the order of the fields."""
        listed: list[tuple[Tensor, str]] = []

        def keep(x: Tensor, axes: str) -> Tensor:
            listed.append((x, axes))
            return x

        self.map(keep)
        return listed

    def _changed(self, change: Callable[[Tensor, str], Tensor], change_part: Callable[[Any], Any]) -> Self:
        def changed(value: Any, axes: str) -> Any:
            if isinstance(value, Tensor):
                return change(value, axes)
            if isinstance(value, Tensors):
                return change_part(value)
            return tuple(changed(item, axes) for item in value) if isinstance(value, tuple) else value

        names = [field.name for field in fields(self)]
        return replace(self, **{name: changed(getattr(self, name), name.rpartition("_")[2]) for name in names})


@dataclass(frozen=True, kw_only=True)
class Pairs(Tensors):
    """The pairs of each row of a packed batch, on one side or of the phrases.

    number_BS: the number of the position's pair in its row, from 0 (int64); -1 at padding.
    place_BS: the position within its pair, from 0 (int64); 0 at padding.
    """

    number_BS: Tensor
    place_BS: Tensor


@dataclass(frozen=True, kw_only=True)
class Phrases(Tensors):
    """Source phrases of a batch.

    token_index_BPM: source position of each token of each phrase (int64), 0 at padding.
    token_mask_BPM: True at real tokens.
    phrase_mask_BP: True at real phrases, which have at least one token.
    slot_BS: the inverse of token_index: the place of each source position among the P*M tokens, -1 where it has none.
    pairs: of the phrases of a packed batch; None for a padded one.
    """

    token_index_BPM: Tensor
    token_mask_BPM: Tensor
    phrase_mask_BP: Tensor
    slot_BS: Tensor
    pairs: Pairs | None = None


@dataclass(frozen=True, kw_only=True)
class Source(Tensors):
    """Source side: subwords and `</s>`, with `<pad>` at the end of shorter sentences.

    ids_BS: subword ids (int64).
    mask_BS: True at real positions; each row has at least one, because `</s>` is real.
    phrases: None for models without source phrases. pairs: None for a padded batch.
    """

    ids_BS: Tensor
    mask_BS: Tensor
    phrases: Phrases | None = None
    pairs: Pairs | None = None


@dataclass(frozen=True, kw_only=True)
class Chunks(Tensors):
    """Chunks of the target side. Positions are positions in `Target.outputs_BT`.

    starts_BT: True where a chunk starts with this word; `</s>` is a chunk of its own.
    labels_BT: label of the chunk that starts here, an index into CHUNK_LABELS (int64); NULL_LABEL where none starts.
    begins_M: the real positions among the B*T positions where a chunk starts, increasing (int64); None for decisions of
    a model, which no loss reads. As with `Target.real_N`, a GPU would make the host wait for their number.
    """

    starts_BT: Tensor
    labels_BT: Tensor
    begins_M: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Target(Tensors):
    """Target side for teacher forcing.

    inputs_BT: `<s>` y1..yn (int64).
    outputs_BT: y1..yn `</s>` (int64).
    mask_BT: True at real positions; inputs and outputs have the same number of them.
    real_N: the real positions among the B*T positions, increasing (int64). A GPU would make the host wait for their
    number, which is known when the batch is made.
    weights_N: None, or in a batch of a fixed shape 1 at real positions and 0 at others: `real_N` then has more or all
    positions, because their number is part of the shape.
    chunks: None for models without target chunks. pairs: None for a padded batch.
    """

    inputs_BT: Tensor
    outputs_BT: Tensor
    mask_BT: Tensor
    real_N: Tensor
    weights_N: Tensor | None = None
    chunks: Chunks | None = None
    pairs: Pairs | None = None


@dataclass(frozen=True, kw_only=True)
class Batch(Tensors):
    """Sentence pairs of a micro-batch. rows: position of each pair in the example store, in the order of the batch."""

    rows: tuple[int, ...]
    source: Source
    target: Target

    def fixed(self) -> Batch:
        """Return the batch in one of few shapes: S and T, or of a packed batch its rows, are multiples of 8.

        Losses read all positions, or of a packed batch a multiple of 1,024 if it has so many.
        """
        packed = self.target.pairs is not None

        def padded(x: Tensor, axes: str) -> Tensor:
            room = [
                -size % 8 if axis in ("B" if packed else "ST") else 0 for axis, size in zip(axes, x.shape, strict=True)
            ]
            return F.pad(x, [side for more in reversed(room) for side in (0, more)])

        batch = self.map(padded)
        target, mask_N = batch.target, batch.target.mask_BT.flatten()
        count = -(-int(mask_N.sum()) // 1024) * 1024 if packed else len(mask_N)
        chosen_N = mask_N.argsort(descending=True, stable=True)[:count].sort().values  # all real ones, then padding
        chunks = None if target.chunks is None else replace(target.chunks, begins_M=chosen_N)
        weights_N = mask_N[chosen_N].float()
        return replace(batch, target=replace(target, real_N=chosen_N, weights_N=weights_N, chunks=chunks))

    @property
    def masks(self) -> dict[Axis, Tensor]:
        """The real positions of each axis of attention: [B, S], [B, T] and, with phrases, [B, P]."""
        masks: dict[Axis, Tensor] = {"source": self.source.mask_BS, "target": self.target.mask_BT}
        return masks | ({} if self.source.phrases is None else {"phrases": self.source.phrases.phrase_mask_BP})


@dataclass(frozen=True)
class Packing:
    """How consecutive sentences share the rows of a packed batch: sentences of each row, and positions of a row."""

    counts: Sequence[int]
    positions: int

    def rows(self, sequences: Iterable[NDArray[np.int64]]) -> list[list[NDArray[np.int64]]]:
        """Return the sequences of the sentences of each row."""
        following = iter(sequences)
        return [list(itertools.islice(following, count)) for count in self.counts]

    def pairs(self, lengths: Sequence[int], positions: int) -> Pairs:
        """Return the pairs of rows with this number of positions, given the length of each sentence there."""
        lengths_N, counts_B = np.array(lengths), np.array(self.counts)
        first_B = np.cumsum(counts_B) - counts_B  # the first sentence of each row
        numbers = np.repeat(np.arange(len(lengths_N)) - np.repeat(first_B, counts_B), lengths_N)
        places = np.arange(lengths_N.sum()) - np.repeat(np.cumsum(lengths_N) - lengths_N, lengths_N)
        real_BS = np.arange(positions) < np.add.reduceat(lengths_N, first_B)[:, None]
        return Pairs(
            number_BS=torch.from_numpy(_at(real_BS, numbers, fill=-1)),
            place_BS=torch.from_numpy(_at(real_BS, places, fill=0)),
        )


def _at(real_BS: NDArray[np.bool_], values: NDArray[np.integer[Any]], *, fill: int = PAD) -> NDArray[np.int64]:
    """Put values at the real positions, row by row, and `fill` elsewhere."""
    placed = np.full(real_BS.shape, fill, dtype=np.int64)
    placed[real_BS] = values
    return placed


def _pad(sequences: Sequence[NDArray[np.int64]], positions: int | None) -> NDArray[np.int64]:
    """Stack sequences into one array [sequences, positions or longest], with zeros behind shorter ones."""
    padded = np.zeros((len(sequences), positions or max(map(len, sequences))), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        padded[row, : len(sequence)] = sequence
    return padded


def collate_phrases(ends_of_sentences: Sequence[NDArray[np.int64]], packing: Packing | None = None) -> Phrases:
    """Make the index tensors of a batch's phrases.

    ends_of_sentences: for each sentence the increasing ends of its phrases, exclusive. A phrase begins where the
    phrase before it ends. Packed rows have fixed numbers of phrases, half as many as positions unless there are more,
    and of their tokens, a multiple of 8, so that batches differ in the number of rows alone.
    """
    phrases = pairs = None
    if packing is not None:
        counts_of_sentences = [len(ends) for ends in ends_of_sentences]
        ends_of_sentences = [_joined(row) for row in packing.rows(ends_of_sentences)]
        phrases = packing.positions // 2
        if max(map(len, ends_of_sentences)) > phrases:
            phrases = packing.positions
        pairs = packing.pairs(counts_of_sentences, phrases)
    counts = np.array([len(ends) for ends in ends_of_sentences])
    starts_of_sentences = [np.concatenate(([0], ends[:-1])) for ends in ends_of_sentences]
    starts_BP, ends_BP = _pad(starts_of_sentences, phrases), _pad(ends_of_sentences, phrases)
    longest = int((ends_BP - starts_BP).max())
    if packing is not None:
        longest = -(-longest // 8) * 8
    token_index_BPM = starts_BP[:, :, None] + np.arange(longest)
    token_mask_BPM = token_index_BPM < ends_BP[:, :, None]
    token_mask_BPM &= (np.arange(ends_BP.shape[1]) < counts[:, None])[:, :, None]
    slot_BS = np.full((len(counts), ends_BP.max() if packing is None else packing.positions), -1)
    sentences_N, *places_PM = np.nonzero(token_mask_BPM)
    slot_BS[sentences_N, token_index_BPM[token_mask_BPM]] = places_PM[0] * longest + places_PM[1]
    return Phrases(
        token_index_BPM=torch.from_numpy(np.where(token_mask_BPM, token_index_BPM, 0)),
        token_mask_BPM=torch.from_numpy(token_mask_BPM),
        phrase_mask_BP=torch.from_numpy(token_mask_BPM.any(-1)),
        pairs=pairs,
        slot_BS=torch.from_numpy(slot_BS),
    )


def _joined(ends_of_sentences: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Ends in a row of several sentences. The last end of a sentence is its length."""
    lengths = [ends[-1] for ends in ends_of_sentences]
    return np.concatenate([ends + sum(lengths[:number]) for number, ends in enumerate(ends_of_sentences)])


def collate_chunks(
    starts_of_sentences: Sequence[NDArray[np.int32]], labels_of_sentences: Sequence[NDArray[np.int32]]
) -> Chunks:
    """Make the chunk tensors of a batch.

    starts_of_sentences: for each sentence the increasing start positions of its chunks; the last is the position of
    `</s>`. labels_of_sentences: the label of each chunk.
    """
    shape = len(starts_of_sentences), max(int(starts[-1]) for starts in starts_of_sentences) + 1
    starts_BT, labels_BT = np.zeros(shape, dtype=bool), np.full(shape, NULL_LABEL, dtype=np.int64)
    for row, (starts, labels) in enumerate(zip(starts_of_sentences, labels_of_sentences, strict=True)):
        starts_BT[row, starts] = True
        labels_BT[row, starts] = labels
    return Chunks(
        starts_BT=torch.from_numpy(starts_BT),
        labels_BT=torch.from_numpy(labels_BT),
        begins_M=torch.from_numpy(np.flatnonzero(starts_BT)),
    )


def collate_source(
    sentences: Sequence[NDArray[np.int32]],
    phrases: Phrases | None = None,
    *,
    with_bos: bool = False,
    packing: Packing | None = None,
) -> Source:
    """Make the source tensors of a batch from subword ids without special tokens.

    Adds `</s>` at the end of each sentence and, with `with_bos`, `<s>` at its beginning.
    """
    first = _BOS if with_bos else _BOS[:0]
    mask_BS, pairs = _real([len(first) + len(sentence) + 1 for sentence in sentences], packing)
    ids_BS = _at(mask_BS.numpy(), np.concatenate([part for one in sentences for part in (first, one, _EOS)]))
    return Source(ids_BS=torch.from_numpy(ids_BS), mask_BS=mask_BS, phrases=phrases, pairs=pairs)


def collate_target(
    sentences: Sequence[NDArray[np.int32]], chunks: Chunks | None = None, *, packing: Packing | None = None
) -> Target:
    """Make the target tensors of a batch from subword ids without special tokens. Adds `<s>` and `</s>`."""
    mask_BT, pairs = _real([len(sentence) + 1 for sentence in sentences], packing)
    real_BT = mask_BT.numpy()
    inputs = np.concatenate([part for one in sentences for part in (_BOS, one)])
    outputs = np.concatenate([part for one in sentences for part in (one, _EOS)])
    return Target(
        inputs_BT=torch.from_numpy(_at(real_BT, inputs)),
        outputs_BT=torch.from_numpy(_at(real_BT, outputs)),
        mask_BT=mask_BT,
        real_N=torch.from_numpy(np.flatnonzero(real_BT)),
        chunks=chunks,
        pairs=pairs,
    )


def _real(lengths: Sequence[int], packing: Packing | None) -> tuple[Tensor, Pairs | None]:
    """Return the mask of real positions, and the pairs of packed rows."""
    if packing is None:
        return torch.from_numpy(np.arange(max(lengths)) < np.array(lengths)[:, None]), None
    pairs = packing.pairs(lengths, packing.positions)
    return pairs.number_BS >= 0, pairs
