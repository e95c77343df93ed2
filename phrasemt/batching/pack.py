"""The stage `pack_examples`: write the subword ids of a split to an example store (`phrasemt.artefacts.columns`)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.artefacts.corpus import Rows
from phrasemt.errors import MismatchError
from phrasemt.files.columns import RaggedArray, RowBatch
from phrasemt.files.lines import LineBlock
from phrasemt.files.parallel import batched, map_in_order
from phrasemt.stages.subwords import PackExamples
from phrasemt.symbols import UNK

log = logging.getLogger("phrasemt.pack_examples")

_PAIRS_PER_BLOCK = 8192
_BLOCKS_PER_RECORD_BATCH = 8
# A vocabulary knows all subwords of its data set except unseen characters. A larger share of `<unk>` means that the
# vocabulary belongs to another data set or to the other side.
_MAX_UNKNOWN_SHARE = 0.5


# Rows of neighbouring pairs, ids of their sources and targets.
_PackedBlock = tuple[NDArray[np.int64], RaggedArray, RaggedArray]


def pack_examples(
    *,
    settings: PackExamples,
    cores: int,
    rows: Path,
    source: Path,
    target: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    examples: Path,
) -> None:
    """Write the ids of a split's pairs to an example store, in the order of the files, with the row of each pair.

    rows: one row number per line. source, target: one sentence per line, subwords separated by spaces. One file on both
    sides is a monolingual text, whose examples have empty sources.
    Raises DataError when the files have different numbers of lines, and MismatchError when
    more than half of the subwords of a side are missing in its vocabulary.
    """
    vocabularies = Vocabularies.read(source_vocabulary, target_vocabulary)
    packed_blocks = map_in_order(
        _pack_block,
        Rows.blocks(rows, *dict.fromkeys((source, target)), lines=_PAIRS_PER_BLOCK),
        jobs=cores,
        prepare=Vocabularies,
        arguments=vocabularies,
    )
    unknown = np.zeros(2, dtype=np.int64)
    subwords = np.zeros(2, dtype=np.int64)

    def record_batches() -> Iterator[RowBatch]:
        for blocks in batched(packed_blocks, _BLOCKS_PER_RECORD_BATCH):
            all_rows, *of_sides = zip(*blocks, strict=True)
            sides = [RaggedArray.joined(parts) for parts in of_sides]
            subwords[:] += [len(side.values) for side in sides]
            unknown[:] += [np.count_nonzero(side.values == UNK) for side in sides]
            yield np.concatenate(all_rows), dict(zip(Examples.sides, sides, strict=True))

    pairs = Examples.write(examples, (source, target), vocabularies, record_batches())
    shares = unknown / np.maximum(subwords, 1)
    for share, side, vocabulary in zip(shares, (source, target), (source_vocabulary, target_vocabulary), strict=True):
        if share > _MAX_UNKNOWN_SHARE:
            what, next_step = (
                f"most subwords are not in the vocabulary {vocabulary}",
                "use the vocabulary of this side of the data set",
            )
            expected = f"at most {_MAX_UNKNOWN_SHARE:.0%} unknown subwords"
            raise MismatchError(what, where=side, expected=expected, found=f"{share:.1%}", next_step=next_step)
    log.info(
        "pack_examples: %s pairs, %s source subwords (%s unknown), %s target subwords (%s unknown)",
        f"{pairs:,}",
        *(text for count, share in zip(subwords, shares, strict=True) for text in (f"{count:,}", f"{share:.2%}")),
    )


def _pack_block(vocabularies: Vocabularies, block: tuple[list[int], list[LineBlock]]) -> _PackedBlock:
    rows, texts = block
    sides = [text.lines() for text in texts]
    source, target = sides if len(sides) == 2 else ([""] * len(rows), sides[0])  # else of a monolingual text
    sources, targets = map(_pack_side, vocabularies, (source, target))
    return np.array(rows, np.int64), sources, targets


def _pack_side(vocabulary: Vocabulary, sentences: list[str]) -> RaggedArray:
    # Two words that are not cut into subwords may have two spaces between them.
    subwords = [[*filter(None, sentence.split(" "))] for sentence in sentences]
    lengths = np.array([*map(len, subwords)], dtype=np.int32)
    return RaggedArray(lengths, vocabulary.ids([*itertools.chain.from_iterable(subwords)]))
