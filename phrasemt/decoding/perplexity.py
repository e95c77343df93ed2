"""The stage `score_perplexity`: perplexity of a language model on the target side of test sets.

NLL = -sum log P(token | the tokens before it in the sentence), teacher-forced, without label smoothing, `</s>`
included. The perplexity per token of the vocabulary is exp(NLL / tokens); it is comparable only between systems with
the same vocabulary. The perplexity per word is exp(NLL / (words + sentences)); a sentence adds one for its `</s>`.
Models read the first 1,024 tokens of a sentence, and only these and their words count.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phrasemt.artefacts.columns import Examples
from phrasemt.artefacts.translations import Perplexity, PerplexityScores
from phrasemt.artefacts.vocabulary import Vocabularies
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.decoding.forced import BATCH_POSITIONS
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.models.interface import TranslationModel
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.scoring.scores import of_test_sets
from phrasemt.stages.decoding import ScorePerplexity
from phrasemt.symbols import LONGEST_SENTENCE, SEPARATOR

log = logging.getLogger("phrasemt.score_perplexity")


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
    """Write the perplexities on each test set as JSON.

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
        log.info("score_perplexity: %s: %.3f per token, %.3f per word", test_set, part.per_token, part.per_word)
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
