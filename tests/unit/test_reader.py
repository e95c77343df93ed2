"""Batches of a split, and phrases that stand in columns beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from phrasemt.architectures import PhraseRepresentationModel, PhraseSegmentation, TransformerModel
from phrasemt.batching.example import Examples
from phrasemt.batching.reader import LONGEST_SENTENCE, BatchReader, SourceCollator
from phrasemt.columns import Lists, write_columns
from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.syntax.ngrams import ngram_ends

PARSE = PhraseSegmentation(mode="parse")
MODEL = PhraseRepresentationModel(phrase=PARSE)


def write_phrases(
    path: Path, ends: Sequence[Sequence[int]], segmentation: PhraseSegmentation = PARSE, first_row: int = 0
) -> Path:
    rows = np.arange(first_row, first_row + len(ends))
    description = {"segmentation": segmentation.model_dump(mode="json")}
    write_columns(path, columns=["ends"], description=description, chunks=[(rows, {"ends": Lists.of(ends)})])
    return path


@pytest.fixture
def examples(tiny_data) -> Examples:
    return Examples.open(tiny_data.dev)


def ngram_columns(examples: Examples) -> list[list[int]]:
    return [ngram_ends(int(length) + 1, PARSE).tolist() for length in examples.source_lengths]


def test_columns_that_hold_n_grams_make_the_batches_of_n_grams(examples, tmp_path):
    """Invariant I11: equal spans give equal batches, and so bit-equal models."""
    path = write_phrases(tmp_path / "phrases.arrow", ngram_columns(examples))
    columns = BatchReader(examples, MODEL, [path])
    computed = BatchReader(examples, PhraseRepresentationModel())
    for positions in ([0, 5, 7], [59], list(range(60))):
        ours, theirs = columns(positions).source.phrases, computed(positions).source.phrases
        assert ours is not None
        assert theirs is not None
        assert ours.token_index_BPM.equal(theirs.token_index_BPM)
        assert ours.token_mask_BPM.equal(theirs.token_mask_BPM)
        assert ours.phrase_mask_BP.equal(theirs.phrase_mask_BP)


def test_models_without_phrases_read_no_columns(examples):
    assert BatchReader(examples, TransformerModel())([0, 1]).source.phrases is None


def test_a_cut_sentence_has_cut_phrases(tmp_path):
    sentence = np.full(LONGEST_SENTENCE, 5, dtype=np.int32)  # of a sentence of 3,000 subwords
    path = write_phrases(tmp_path / "phrases.arrow", [[1000, 1500, 3001]])
    phrases = SourceCollator(MODEL, [path])([sentence], [0]).phrases
    assert phrases is not None
    assert phrases.token_mask_BPM.sum(-1).tolist() == [[1000, LONGEST_SENTENCE + 1 - 1000]]


@pytest.mark.parametrize("ends", [[], [3], [2, 9], [2, 2, 4], [0, 4], [3, 2, 4]])
def test_phrases_that_do_not_fit_are_named_by_row(tmp_path, ends):
    path = write_phrases(tmp_path / "phrases.arrow", [[4], ends], first_row=100)
    collate = SourceCollator(MODEL, [path])
    sentence = np.array([5, 6, 7], dtype=np.int32)
    collate([sentence], [0])
    with pytest.raises(DamagedFileError, match=r"phrases.arrow, row 101: phrases do not fit their sentence \(expected"):
        collate([sentence], [1])


def test_columns_must_be_of_the_model_and_of_the_rows(examples, tmp_path):
    columns = ngram_columns(examples)
    with pytest.raises(MismatchError, match=r"a model with phrases of mode parse needs their columns .* found none"):
        BatchReader(examples, MODEL)
    other = write_phrases(tmp_path / "other", columns, PhraseSegmentation(mode="random", seed=2))
    with pytest.raises(MismatchError, match=r"other: phrases of another segmentation .* found .*'mode': 'random'"):
        BatchReader(examples, MODEL, [other])
    shifted = write_phrases(tmp_path / "shifted", columns, first_row=1)
    with pytest.raises(MismatchError, match=r"shifted, .*: columns of other rows than the examples"):
        BatchReader(examples, MODEL, [shifted])
