"""Forced decoding: the log-probabilities of given targets, and where a model attends while it predicts them.

Two stages measure with it: `score_perplexity` for language models, `score_chunks` for chunk-based decoders.

Letters: B sentences, T target positions, S source positions, P phrases, h heads, N orders of n-grams (1: tokens),
Q query positions, K key positions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasemt.artefacts.columns import Examples
from phrasemt.artefacts.translations import ChunkAccuracies, ChunkAccuracy, ChunkDecisions, Perplexity, PerplexityScores
from phrasemt.artefacts.vocabulary import Vocabularies
from phrasemt.batching.batch import Batch, Chunks, Phrases, collate_target
from phrasemt.batching.reader import BatchReader, SourceCollator
from phrasemt.batching.sampler import micro_batches
from phrasemt.errors import check_equal
from phrasemt.files.attention import AXES, AttentionMap, ForcedSentence
from phrasemt.files.lines import read_lines
from phrasemt.models.interface import ChunkingModel, ChunkLogProbs, TranslationModel
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.nn.recording import Attention, recording
from phrasemt.scoring.scores import of_test_sets
from phrasemt.stages.decoding import ScoreChunks, ScorePerplexity
from phrasemt.symbols import CHUNK_LABELS, LONGEST_SENTENCE, SEPARATOR

perplexity_log = logging.getLogger("phrasemt.score_perplexity")
chunks_log = logging.getLogger("phrasemt.score_chunks")

BATCH_POSITIONS = 4_000


@dataclass(frozen=True, kw_only=True)
class Forced:
    """A batch under forced decoding.

    log_probs_BT: of each target token, float32, 0 at padding. attentions: each with its weights [B, h, Q, N, K]; values
    at padded queries are undefined, and padded keys have the weight 0.
    chunks: log-probabilities of decisions about chunks, None for models without chunks. starts_BT: the decisions that
    the decoder followed: those of the target, or its own for a target without chunks.
    """

    log_probs_BT: Tensor
    attentions: list[tuple[Attention, Tensor]]
    chunks: ChunkLogProbs | None = None
    starts_BT: Tensor | None = None


@torch.inference_mode()
def force(model: TranslationModel[Any, Any], batch: Batch, *, attention: bool = True) -> Forced:
    """Return what a model assigns to the targets of a batch. attention: whether to record attention weights."""
    found = model.attentions() if attention else []
    with recording([one.module for one in found]) as recorded:
        log_probs_BT = model.log_probs(batch)
    weights = recorded() if found else []
    if not isinstance(model, ChunkingModel):
        return Forced(log_probs_BT=log_probs_BT, attentions=list(zip(found, weights, strict=True)))
    chunks = model.chunk_log_probs(batch)
    if batch.target.chunks is not None:
        starts_BT = batch.target.chunks.starts_BT
    else:
        starts_BT = chunks.likeliest.starts_BT
        starts_BT[:, 0] = True  # the first word always starts a chunk
    if model.context_waits:  # within a chunk the decoder keeps the context of the chunk's first word
        positions_T = torch.arange(starts_BT.shape[1], device=starts_BT.device)
        last_BT = torch.where(starts_BT, positions_T, 0).cummax(1).values
        weights = [_rows(one_BhTNS, last_BT) for one_BhTNS in weights]
    return Forced(
        log_probs_BT=log_probs_BT, attentions=list(zip(found, weights, strict=True)), chunks=chunks, starts_BT=starts_BT
    )


def _rows(weights_BhTNS: Tensor, rows_BT: Tensor) -> Tensor:
    """Return the weights in which query t of sentence b has the row rows_BT[b, t]."""
    return weights_BhTNS.gather(2, rows_BT[:, None, :, None, None].expand_as(weights_BhTNS))


def forced_sentences(forced: Forced, batch: Batch, *, rows: Sequence[int], words: Vocabularies) -> list[ForcedSentence]:
    """Return the sentence pairs of a batch one by one, without padding. rows: row of each pair in the raw text."""
    lengths = {axis: mask.sum(1).tolist() for axis, mask in batch.masks.items()}
    sentences = []
    for place, row in enumerate(rows):
        s, t = lengths["source"][place], lengths["target"][place]
        maps = []
        for attention, weights_BhQNK in forced.attentions:
            queries, keys = (lengths[axis][place] for axis in AXES[attention.place])
            weights = weights_BhQNK[place, :, :queries, :, :keys].float().cpu().numpy()
            maps.append(AttentionMap(place=attention.place, layer=attention.layer, weights_hTNS=weights))
        chunks: dict[str, Any] = {}
        if forced.chunks is not None and forced.starts_BT is not None:
            label_log_probs_T, labels_T = forced.chunks.label_BTL[place, :t].max(-1)
            copy_T, update_T = forced.chunks.boundary_BT2[place, :t].unbind(-1)
            chunks = {
                "chunk_starts": forced.starts_BT[place, :t].tolist(),
                "copy_log_probs": copy_T.tolist(),
                "update_log_probs": update_T.tolist(),
                "chunk_labels": [CHUNK_LABELS[label] for label in labels_T.tolist()],
                "label_log_probs": label_log_probs_T.tolist(),
            }
        sentences.append(
            ForcedSentence(
                row=row,
                source=words.source.tokens(batch.source.ids_BS[place, :s].tolist()),
                target=words.target.tokens(batch.target.outputs_BT[place, :t].tolist()),
                log_probs=forced.log_probs_BT[place, :t].tolist(),
                phrase_ends=_phrase_ends(batch.source.phrases, place),
                **chunks,
                attentions=maps,
            )
        )
    return sentences


def _phrase_ends(phrases: Phrases | None, place: int) -> list[int]:
    if phrases is None:
        return []
    ends: list[int] = phrases.token_mask_BPM[place].sum(-1).cumsum(0)[phrases.phrase_mask_BP[place]].tolist()
    return ends


@torch.inference_mode()
def forced_scores(
    model: TranslationModel[Any, Any],
    collate_source: SourceCollator,
    sources: Sequence[NDArray[np.int32]],
    targets: Sequence[NDArray[np.int32]],
    positions: Sequence[int],
) -> NDArray[np.float64]:
    """Return log P(target | source) of each pair, natural logarithm, `</s>` included.

    sources, targets: subword ids without special symbols.
    positions: position of each source in the phrase columns, for a collator that reads them.
    """
    source_lengths = np.array([len(source) for source in sources], dtype=np.int32)
    target_lengths = np.array([len(target) for target in targets], dtype=np.int32)
    scores = np.zeros(len(sources))
    lengths, device = (source_lengths, target_lengths), model.device.type
    for rows in micro_batches(np.arange(len(sources)), *lengths, capacity=BATCH_POSITIONS, device=device):
        batch = Batch(
            rows=tuple(rows.tolist()),
            source=collate_source([sources[row] for row in rows], [positions[row] for row in rows]),
            target=collate_target([targets[row] for row in rows]),
        )
        scores[rows] = model.log_probs(batch.to(model.device)).double().sum(-1).cpu().numpy()
    return scores


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
        word_count = _count_words(text_file, reader.examples, cut=settings.words_are_cut)
        nll, count = _nll_and_tokens(model, reader)
        part = test_sets[test_set] = Perplexity(
            sentences=sentences,
            words=word_count,
            tokens=count,
            nll=nll,
            per_token=math.exp(nll / count),
            per_word=math.exp(nll / (word_count + sentences)),
        )
        perplexity_log.info(
            "score_perplexity: %s: %.3f per token, %.3f per word", test_set, part.per_token, part.per_word
        )
    PerplexityScores(dataset=settings.dataset, system=settings.system, seed=settings.seed, test_sets=test_sets).write(
        perplexity
    )


def _count_words(text: Path, store: Examples, *, cut: bool) -> int:
    """Return the number of words of the target side that end within the tokens that models read.

    cut: whether words are cut into subwords, of which all but the last one end in `@@`. Raises MismatchError unless
    there is one line for each pair.
    """
    tokens_of_lines = ([*filter(None, line.split(" "))][:LONGEST_SENTENCE] for line in read_lines(text))
    words_of_lines = [sum(not (cut and token.endswith(SEPARATOR)) for token in tokens) for tokens in tokens_of_lines]
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
    symbols = words.target.tokens(range(len(words.target)))
    continues_V = torch.tensor([symbol.endswith(SEPARATOR) for symbol in symbols])
    test_sets = {}
    for test_set, (examples_file, chunks_file) in of_test_sets(settings.test_sets, examples, chunks):
        reader = BatchReader.open(examples_file, words, settings.reads, chunks=[chunks_file])
        counts = _count_decisions(model, reader, continues_V)
        part = test_sets[test_set] = counts.accuracy(len(reader.examples))
        chunks_log.info(
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
