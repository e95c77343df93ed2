"""Batches: sentence pairs as padded tensors, with the phrases and chunks that a model asks for.

Letters: B sentences, S source positions, T target positions, P phrases, M tokens of the longest phrase. A mask is True
at real positions and False at padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.files.attention import Axis
from phrasemt.symbols import BOS, EOS, NULL_LABEL, PAD


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

    def _changed(self, change: Callable[[Tensor, str], Tensor], change_part: Callable[[Any], Any]) -> Self:
        def changed(value: Any, axes: str) -> Any:
            if isinstance(value, Tensor):
                return change(value, axes)
            if isinstance(value, Tensors):
                return change_part(value)
            return tuple(changed(one, axes) for one in value) if isinstance(value, tuple) else value

        names = [field.name for field in fields(self)]
        return replace(self, **{name: changed(getattr(self, name), name.rpartition("_")[2]) for name in names})


@dataclass(frozen=True, kw_only=True)
class Phrases(Tensors):
    """Source phrases of a batch.

    token_index_BPM: source position of each token of each phrase (int64), 0 at padding.
    token_mask_BPM: True at real tokens.
    phrase_mask_BP: True at real phrases, which have at least one token.
    """

    token_index_BPM: Tensor
    token_mask_BPM: Tensor
    phrase_mask_BP: Tensor


@dataclass(frozen=True, kw_only=True)
class Source(Tensors):
    """Source side: subwords and `</s>`, with `<pad>` at the end of shorter sentences.

    ids_BS: subword ids (int64).
    mask_BS: True at real positions; each row has at least one, because `</s>` is real.
    phrases: None for models without source phrases.
    """

    ids_BS: Tensor
    mask_BS: Tensor
    phrases: Phrases | None = None


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
    chunks: None for models without target chunks.
    """

    inputs_BT: Tensor
    outputs_BT: Tensor
    mask_BT: Tensor
    real_N: Tensor
    chunks: Chunks | None = None


@dataclass(frozen=True, kw_only=True)
class Batch(Tensors):
    """Sentence pairs of a micro-batch. rows: position of each pair in the example store."""

    rows: tuple[int, ...]
    source: Source
    target: Target

    @property
    def masks(self) -> dict[Axis, Tensor]:
        """The real positions of each axis of attention: [B, S], [B, T] and, with phrases, [B, P]."""
        masks: dict[Axis, Tensor] = {"source": self.source.mask_BS, "target": self.target.mask_BT}
        return masks | ({} if self.source.phrases is None else {"phrases": self.source.phrases.phrase_mask_BP})


def pad(sequences: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Stack sequences into one array [sequences, longest]; PAD fills the end of shorter sequences."""
    padded = np.full((len(sequences), max(len(sequence) for sequence in sequences)), PAD, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        padded[row, : len(sequence)] = sequence
    return padded


def collate_phrases(ends_of_sentences: Sequence[NDArray[np.int64]]) -> Phrases:
    """Make the index tensors of a batch's phrases.

    ends_of_sentences: for each sentence the increasing ends of its phrases, exclusive. A phrase begins where the
    phrase before it ends.
    """
    counts = np.array([len(ends) for ends in ends_of_sentences])
    starts_of_sentences = [np.concatenate(([0], ends[:-1])) for ends in ends_of_sentences]
    starts_BP, ends_BP = pad(starts_of_sentences), pad(ends_of_sentences)
    longest = int((ends_BP - starts_BP).max())
    token_index_BPM = starts_BP[:, :, None] + np.arange(longest)
    token_mask_BPM = token_index_BPM < ends_BP[:, :, None]
    token_mask_BPM &= (np.arange(ends_BP.shape[1]) < counts[:, None])[:, :, None]
    return Phrases(
        token_index_BPM=torch.from_numpy(np.where(token_mask_BPM, token_index_BPM, 0)),
        token_mask_BPM=torch.from_numpy(token_mask_BPM),
        phrase_mask_BP=torch.from_numpy(token_mask_BPM.any(-1)),
    )


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
    sentences: Sequence[NDArray[np.int32]], phrases: Phrases | None = None, *, with_bos: bool = False
) -> Source:
    """Make the source tensors of a batch from subword ids without special symbols.

    Adds `</s>` at the end of each sentence and, with `with_bos`, `<s>` at its beginning.
    """
    first = [BOS] if with_bos else []
    ids_BS = pad([np.concatenate((first, sentence, [EOS])).astype(np.int64) for sentence in sentences])
    lengths_B = np.array([len(first) + len(sentence) + 1 for sentence in sentences])
    mask_BS = np.arange(ids_BS.shape[1]) < lengths_B[:, None]
    return Source(ids_BS=torch.from_numpy(ids_BS), mask_BS=torch.from_numpy(mask_BS), phrases=phrases)


def collate_target(sentences: Sequence[NDArray[np.int32]], chunks: Chunks | None = None) -> Target:
    """Make the target tensors of a batch from subword ids without special symbols. Adds `<s>` and `</s>`."""
    inputs_BT = pad([np.insert(sentence, 0, BOS).astype(np.int64) for sentence in sentences])
    outputs_BT = pad([np.append(sentence, EOS).astype(np.int64) for sentence in sentences])
    lengths_B = np.array([len(sentence) + 1 for sentence in sentences])
    mask_BT = np.arange(inputs_BT.shape[1]) < lengths_B[:, None]
    return Target(
        inputs_BT=torch.from_numpy(inputs_BT),
        outputs_BT=torch.from_numpy(outputs_BT),
        mask_BT=torch.from_numpy(mask_BT),
        real_N=torch.from_numpy(np.flatnonzero(mask_BT)),
        chunks=chunks,
    )
