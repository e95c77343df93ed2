"""Batches of a split, with phrases and chunks from column files."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import phrasemt.batching.reader as batch_reader
from phrasemt.artefacts.columns import Examples
from phrasemt.batching.reader import BatchReader, SourceCollator, TargetCollator
from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.files.columns import RaggedArray, write_columns
from phrasemt.study.architectures import BiscaleModel, PhraseRepresentationModel, PhraseSegmentation, TransformerModel
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL, LONGEST_SENTENCE, NULL_LABEL
from phrasemt.syntax.ngrams import ngram_ends

PARSE = PhraseSegmentation(mode="parse")
MODEL = PhraseRepresentationModel(phrase=PARSE)
CHUNKED = BiscaleModel(family="biscale")
NP, VP, PP = (CHUNK_LABELS.index(label) for label in ("NP", "VP", "PP"))


def write_phrases(
    path: Path,
    ends: Sequence[Sequence[int]],
    segmentation: PhraseSegmentation = PARSE,
    first_row: int = 0,
    text: Path | None = None,
) -> Path:
    rows = np.arange(first_row, first_row + len(ends))
    description = {"segmentation": segmentation.model_dump(mode="json")}
    texts = {"source": text} if text else {}
    batches = [(rows, {"ends": RaggedArray.of(ends)})]
    write_columns(path, columns=["ends"], texts=texts, description=description, batches=batches)
    return path


@pytest.fixture
def examples(tiny_data) -> Examples:
    return Examples.open(tiny_data.dev)


def ngram_columns(examples: Examples) -> list[list[int]]:
    return [ngram_ends(int(length) + 1, PARSE).tolist() for length in examples.source_lengths.tolist()]


def test_a_file_of_n_gram_phrases_gives_the_same_batches_as_n_grams(examples, tmp_path):
    """Equal spans must give equal batches, and so bit-identical models."""
    path = write_phrases(tmp_path / "phrases.arrow", ngram_columns(examples))
    columns = BatchReader(examples, MODEL.model_inputs, [path])
    computed = BatchReader(examples, PhraseRepresentationModel().model_inputs)
    for positions in ([0, 5, 7], [59], list(range(60))):
        ours, theirs = columns(positions).source.phrases, computed(positions).source.phrases
        assert ours.token_index_BPM.equal(theirs.token_index_BPM)
        assert ours.token_mask_BPM.equal(theirs.token_mask_BPM)
        assert ours.phrase_mask_BP.equal(theirs.phrase_mask_BP)


def test_a_cut_sentence_has_cut_phrases(tmp_path):
    sentence = np.full(LONGEST_SENTENCE, 5, dtype=np.int32)  # of a sentence of 3,000 subwords
    path = write_phrases(tmp_path / "phrases.arrow", [[1000, 1500, 3001]])
    phrases = SourceCollator(MODEL.model_inputs, [path])([sentence], [0]).phrases
    assert phrases.token_mask_BPM.sum(-1).tolist() == [[1000, LONGEST_SENTENCE + 1 - 1000]]


@pytest.mark.parametrize("ends", [[], [3], [2, 9], [2, 2, 4], [0, 4], [3, 2, 4]])
def test_the_error_names_the_row_of_phrases_that_do_not_fit(tmp_path, ends):
    path = write_phrases(tmp_path / "phrases.arrow", [[4], ends], first_row=100)
    collate = SourceCollator(MODEL.model_inputs, [path])
    sentence = np.array([5, 6, 7], dtype=np.int32)
    collate([sentence], [0])
    with pytest.raises(DamagedFileError, match=r"phrases.arrow, row 101: phrases do not fit their sentence \(expected"):
        collate([sentence], [1])


def test_phrases_of_another_segmentation_or_of_other_rows_are_refused(examples, tmp_path):
    columns = ngram_columns(examples)
    with pytest.raises(MismatchError, match=r"a model with phrases of mode parse needs a file of phrases .* found 0"):
        BatchReader(examples, MODEL.model_inputs)
    other = write_phrases(tmp_path / "other", columns, PhraseSegmentation(mode="random", ntok_max=4))
    with pytest.raises(MismatchError, match=r"other: phrases of another segmentation .* found .*'mode': 'random'"):
        BatchReader(examples, MODEL.model_inputs, [other])
    shifted = write_phrases(tmp_path / "shifted", columns, first_row=1)
    with pytest.raises(MismatchError, match=r"shifted, .*: the columns and the examples have different rows"):
        BatchReader(examples, MODEL.model_inputs, [shifted])


def test_phrases_of_another_split_with_the_same_rows_are_refused(tiny_data, examples, tmp_path):
    """Row numbers of each split begin at 0, so splits of the same size differ by their texts only."""
    columns, text = ngram_columns(examples), tiny_data.folder / "dev.source"
    BatchReader(examples, MODEL.model_inputs, [write_phrases(tmp_path / "dev", columns, text=text)])
    test_text = tmp_path / "test.source"
    test_text.write_text(text.read_text().replace("a", "b"))
    other = write_phrases(tmp_path / "test", columns, text=test_text)
    with pytest.raises(MismatchError, match=r"test, .*: the columns belong to another source text .* run extract_phra"):
        BatchReader(examples, MODEL.model_inputs, [other])


def write_chunks(
    path: Path,
    chunks: Sequence[tuple[Sequence[int], Sequence[int]]],
    labels: Sequence[str] = CHUNK_LABELS,
    first_row: int = 0,
) -> Path:
    rows = np.arange(first_row, first_row + len(chunks))
    starts, numbers = (RaggedArray.of(lists) for lists in zip(*chunks, strict=True))
    write_columns(
        path,
        columns=["starts", "labels"],
        texts={},
        description={"labels": list(labels)},
        batches=[(rows, {"starts": starts, "labels": numbers})],
    )
    return path


def words(*lengths: int) -> list[np.ndarray]:
    return [np.full(length, 5, dtype=np.int32) for length in lengths]


def test_chunks_start_at_their_first_words(tmp_path):
    """For pairs in any order. Positions within chunks and padding have no start and the label NULL."""
    path = write_chunks(
        tmp_path / "chunks.arrow", [([0, 3], [NP, EOS_LABEL]), ([0], [EOS_LABEL]), ([0, 1, 2], [VP, PP, EOS_LABEL])]
    )
    target = TargetCollator(CHUNKED.model_inputs, [path])(words(2, 0, 3), [2, 1, 0])
    assert target.chunks.starts_BT.int().tolist() == [[1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1]]
    null = NULL_LABEL
    assert target.chunks.labels_BT.tolist() == [
        [VP, PP, EOS_LABEL, null],
        [EOS_LABEL, null, null, null],
        [NP, null, null, EOS_LABEL],
    ]
    assert target.chunks.starts_BT.shape == target.outputs_BT.shape


def test_only_chunking_models_with_a_chunk_file_read_chunks(examples, tmp_path):
    path = write_chunks(
        tmp_path / "chunks.arrow", [([0, n], [NP, EOS_LABEL]) for n in examples.target_lengths.tolist()]
    )
    assert BatchReader(examples, CHUNKED.model_inputs, (), [path])([0, 1]).target.chunks is not None
    assert BatchReader(examples, CHUNKED.model_inputs)([0, 1]).target.chunks is None
    with pytest.raises(MismatchError, match=r"--chunks: a chunk-based decoder needs .*expected 1, found 0"):
        BatchReader(examples, CHUNKED.model_inputs, (), [])
    assert BatchReader(examples, TransformerModel().model_inputs, (), [path])([0, 1]).target.chunks is None


@pytest.mark.parametrize(
    ("starts", "labels", "chunk_starts"),
    [
        ([0, 1000, 1500, 3000], [NP, VP, PP, EOS_LABEL], [0, 1000, LONGEST_SENTENCE]),  # of 3,000 subwords
        ([0, LONGEST_SENTENCE, 3000], [NP, VP, EOS_LABEL], [0, LONGEST_SENTENCE]),  # cut just before a chunk
        ([0, 7, LONGEST_SENTENCE], [NP, VP, EOS_LABEL], [0, 7, LONGEST_SENTENCE]),  # not cut at all
    ],
)
def test_a_cut_sentence_has_cut_chunks(tmp_path, starts, labels, chunk_starts):
    """`</s>` follows the last remaining word."""
    path = write_chunks(tmp_path / "chunks.arrow", [(starts, labels)])
    chunks = TargetCollator(CHUNKED.model_inputs, [path])(words(LONGEST_SENTENCE), [0]).chunks
    assert chunks.starts_BT[0].nonzero().flatten().tolist() == chunk_starts
    assert chunks.labels_BT[0, chunk_starts].tolist() == [*labels[: len(chunk_starts) - 1], EOS_LABEL]


@pytest.mark.parametrize(
    ("starts", "labels", "what"),
    [
        ([], [], "chunks"),
        ([0, 2], [NP, EOS_LABEL], "chunks"),  # of a shorter sentence
        ([0, 1, 1, 3], [NP, VP, PP, EOS_LABEL], "chunks"),
        ([1, 3], [NP, EOS_LABEL], "chunks"),
        ([0, -1, 3], [NP, VP, EOS_LABEL], "chunks"),
        ([0, 3], [NP], "chunk labels"),
        ([0, 3], [NP, len(CHUNK_LABELS)], "chunk labels"),
        ([0, 3], [NULL_LABEL, EOS_LABEL], "chunk labels"),
        ([0, 3], [NP, VP], "chunk labels"),
    ],
)
def test_the_error_names_the_row_of_chunks_that_do_not_fit(tmp_path, starts, labels, what):
    path = write_chunks(tmp_path / "chunks.arrow", [([0, 3], [NP, EOS_LABEL]), (starts, labels)], first_row=100)
    collate = TargetCollator(CHUNKED.model_inputs, [path])
    collate(words(3), [0])
    with pytest.raises(DamagedFileError, match=rf"chunks.arrow, row 101: {what} do not fit their sentence \(expected"):
        collate(words(3), [1])


def test_chunks_of_other_labels_are_refused(examples, tmp_path):
    chunks = [([0, int(length)], [NP, EOS_LABEL]) for length in examples.target_lengths.tolist()]
    other = write_chunks(tmp_path / "other", chunks, labels=CHUNK_LABELS[::-1])
    with pytest.raises(DamagedFileError, match=r"other.*expected labels eos NULL NP .* found .*'O', 'UCP'"):
        BatchReader(examples, CHUNKED.model_inputs, (), [other])


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_outlive_signals_to_stop_and_report_damage_as_the_reader_does(examples, tmp_path, monkeypatch, workers):
    """Slurm sends such a signal to all processes of a job, while the training still finishes an update."""
    monkeypatch.setitem(batch_reader.WORKERS, "cpu", workers)
    ends = ngram_columns(examples)
    ends[7] = ends[7][:-1]
    reader = BatchReader(examples, MODEL.model_inputs, [write_phrases(tmp_path / "phrases.arrow", ends)])
    updates = [(0, number, np.array([number])) for number in range(10)]
    ahead = batch_reader.RankReader(reader, "cpu").ahead(updates, lambda: 100)
    for (_, number, _), share in itertools.islice(ahead, 5):
        assert [batch.rows for batch in share.batches] == [(number,)]
        children = multiprocessing.active_children()
        assert len(children) == workers
        for child in children:
            os.kill(child.pid, signal.SIGTERM)
            os.kill(child.pid, signal.SIGUSR1)
    with pytest.raises(DamagedFileError, match=r"^\S*phrases.arrow, row 7: phrases do not fit their sentence"):
        list(ahead)
    assert not multiprocessing.active_children()
