"""The stages `score_perplexity`, of language models, and `score_chunks`, of chunk-based decoders: forced decoding."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phrasemt.artefacts.columns import Examples, Vocabularies
from phrasemt.artefacts.translations import ChunkAccuracies, ChunkAccuracy, ChunkDecisions, Perplexity, PerplexityScores
from phrasemt.batching.batch import Chunks
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.decoding.forced import BATCH_POSITIONS
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.models.interface import ChunkingModel, TranslationModel
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.scoring.scores import of_test_sets
from phrasemt.stages.decoding import ScoreChunks, ScorePerplexity
from phrasemt.symbols import CHUNK_LABELS, LONGEST_SENTENCE, SEPARATOR

log = logging.getLogger("phrasemt.forced_scores")


def score_perplexity(
    *,
    settings: ScorePerplexity,
    cores: int,
    weights: Path,
    examples: list[Path],
    text: list[Path],
    source_vocabulary: Path,
    target_vocabulary: Path,
    perplexity: Path,
) -> None:
    """Write the perplexities of a language model on the target side of each test set as JSON.

    NLL = -sum log P(token | the tokens before it in the sentence), without label smoothing, `</s>` included. The
    perplexity per token of the vocabulary is exp(NLL / tokens), comparable only between systems of one vocabulary. The
    perplexity per word is exp(NLL / (words + sentences)); a sentence adds one for its `</s>`. Models read the first
    1,024 tokens of a sentence, and only these and their words count.

    text: for each test set the target side as the tokens of the vocabulary, to count words.
    Raises MismatchError when the examples and the text have different numbers of sentences.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_model(weights, settings.model, words).to(choose_device(cores))
    test_sets = {}
    for test_set, (examples_file, text_file) in of_test_sets(settings.test_sets, examples, text):
        reader = BatchReader.open(examples_file, words, settings.reads)
        sentences = len(reader.examples)
        word_count = _count_words(text_file, reader.examples, split=settings.words_are_cut)
        nll, count = _nll_and_tokens(model, reader)
        part = test_sets[test_set] = Perplexity(
            sentences=sentences,
            words=word_count,
            tokens=count,
            nll=nll,
            per_token=math.exp(nll / count),
            per_word=math.exp(nll / (word_count + sentences)),
        )
        log.info("score_perplexity: %s: %.3f per token, %.3f per word", test_set, part.per_token, part.per_word)
    PerplexityScores(dataset=settings.dataset, system=settings.system, seed=settings.seed, test_sets=test_sets).write(
        perplexity
    )


def _count_words(text: Path, store: Examples, *, split: bool) -> int:
    """Return the number of words of the target side that end within the tokens that models read.

    split: whether words are split into subwords, of which all but the last one end in `@@`. Raises MismatchError unless
    there is one line for each pair.
    """
    tokens_of_lines = ([*filter(None, line.split(" "))][:LONGEST_SENTENCE] for line in read_lines(text))
    words_of_lines = [sum(not (split and token.endswith(SEPARATOR)) for token in tokens) for tokens in tokens_of_lines]
    what, next_step = "different numbers of sentences", "give text and examples of the same split"
    check_equal(len(store), len(words_of_lines), what, where=f"{text} and {store.path}", next_step=next_step)
    return sum(words_of_lines)


@torch.inference_mode()
def _nll_and_tokens(model: TranslationModel[Any, Any], reader: BatchReader) -> tuple[float, int]:
    """Return the NLL of all target tokens, `</s>` included, and their number."""
    nll, count = 0.0, 0
    lengths = reader.examples.target_lengths
    all_rows, device = np.arange(len(lengths)), model.device.type
    for rows in micro_batches(all_rows, lengths, lengths, capacity=BATCH_POSITIONS, device=device):
        batch = reader(rows).to(model.device)
        nll -= float(model.log_probs(batch).double().sum())
        count += int(batch.target.mask_BT.sum())
    return nll, count


def score_chunks(
    *,
    settings: ScoreChunks,
    cores: int,
    weights: Path,
    examples: list[Path],
    source_vocabulary: Path,
    target_vocabulary: Path,
    chunks: list[Path],
    scores: Path,
) -> None:
    """Write the accuracies in predicting starts and labels of reference chunks on each test set as JSON.

    At each position the model knows the words and chunks of the reference up to there (Table 3 of Zhou et al. 2017;
    docs/decisions.md, C9). `</s>` is a position like any other. Only the first subword of a word counts, because no
    chunk starts within a word. (A subword after `<unk>` counts as a first one.)
    chunks: the chunk columns of each test set.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_model(weights, settings.model, words).to(choose_device(cores))
    assert isinstance(model, ChunkingModel)
    entries = words.target.tokens(range(len(words.target)))
    continues_V = torch.tensor([entry.endswith(SEPARATOR) for entry in entries])
    test_sets = {}
    for test_set, (examples_file, chunks_file) in of_test_sets(settings.test_sets, examples, chunks):
        reader = BatchReader.open(examples_file, words, settings.reads, chunks=[chunks_file])
        counts = _count_decisions(model, reader, continues_V)
        part = test_sets[test_set] = counts.accuracy(len(reader.examples))
        log.info(
            "score_chunks: %s: %d positions, boundaries %.3f, labels %.3f",
            test_set,
            counts.positions,
            part.boundary_acc,
            part.label_acc,
        )
    ChunkAccuracies(dataset=settings.dataset, system=settings.system, seed=settings.seed, test_sets=test_sets).write(
        scores
    )


@torch.inference_mode()
def _count_decisions(model: ChunkingModel[Any, Any], reader: BatchReader, continues_V: torch.Tensor) -> ChunkCounts:
    """Count decisions on one test set. continues_V: True for subwords that another subword of their word follows."""
    counts = ChunkCounts()
    for batch in reader.batches(BATCH_POSITIONS, model.device):
        decided = model.chunk_log_probs(batch).likeliest.to(torch.device("cpu"))
        target = batch.target.to(torch.device("cpu"))
        assert target.chunks is not None
        counts.add(target.chunks, decided, target.mask_BT & ~continues_V[target.inputs_BT])
    return counts


class ChunkCounts:
    """Numbers of positions, by start and label in the reference and by the model's decisions."""

    def __init__(self) -> None:
        labels = len(CHUNK_LABELS)
        # Axes: start in the reference (no, yes), decided start (no, yes), label in the reference, decided label.
        self._counts: NDArray[np.int64] = np.zeros((2, 2, labels, labels), dtype=np.int64)

    def add(self, gold: Chunks, decided: Chunks, counted_BT: torch.Tensor) -> None:
        """Add the positions at which counted_BT is True."""
        fields = gold.starts_BT, decided.starts_BT, gold.labels_BT, decided.labels_BT
        np.add.at(self._counts, tuple(field[counted_BT].long().numpy() for field in fields), 1)

    @property
    def positions(self) -> int:
        return int(self._counts.sum())

    def accuracy(self, sentences: int) -> ChunkAccuracy:
        """The accuracies, and those of a baseline that decides for a start everywhere and for the commonest label."""
        labels = len(CHUNK_LABELS)
        starts_22 = self._counts.sum((2, 3))
        positions, gold, decided = self.positions, int(starts_22[1].sum()), int(starts_22[:, 1].sum())
        both = int(starts_22[1, 1])
        same_label = np.eye(labels, dtype=bool)
        frequent = int(self._counts[1].sum((0, 2)).max())
        return ChunkAccuracy(
            sentences=sentences,
            positions=positions,
            chunks=gold,
            boundary_acc=int(np.trace(starts_22)) / positions,
            boundary_precision=both / decided if decided else 0.0,
            boundary_recall=both / gold,
            boundary_f1=2 * both / (gold + decided),
            label_acc_paper=int((self._counts[0, 0] + self._counts[1, 1])[same_label].sum()) / positions,
            label_acc=int(self._counts[1].sum(0)[same_label].sum()) / gold,
            majority=ChunkDecisions(
                boundary_acc=gold / positions,
                boundary_precision=gold / positions,
                boundary_recall=1.0,
                boundary_f1=2 * gold / (gold + positions),
                label_acc_paper=frequent / positions,
                label_acc=frequent / gold,
            ),
        )
