"""The stage `score_perplexity`: how well a language model predicts the target side of test sets.

Without label smoothing and teacher-forced, NLL = -sum log P(token | tokens before it in the sentence), `</s>` included.
Per token of the vocabulary the perplexity is exp(NLL / tokens), which compares systems of one vocabulary only; per word
it is exp(NLL / (words + sentences)), each sentence with its `</s>`.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phrasemt.batching.example import Examples
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.errors import MismatchError
from phrasemt.files.lines import read_lines
from phrasemt.models.interface import TranslationModel
from phrasemt.models.weights import load_model
from phrasemt.scoring.scores import of_test_sets, write_of_test_sets
from phrasemt.search.device import choose_device
from phrasemt.settings import PerplexitySettings
from phrasemt.text.vocab import Vocabulary

log = logging.getLogger("phrasemt.score_perplexity")

_BATCH_POSITIONS = 4_000


def score_perplexity(
    *,
    settings: PerplexitySettings,
    cores: int,
    weights: Path,
    examples: list[Path],
    tokens: list[Path],
    source_vocabulary: Path,
    target_vocabulary: Path,
    perplexity: Path,
) -> None:
    """Perplexities of each test set, as JSON. tokens: the target side as Moses tokens, the words that are counted.

    Raises MismatchError when examples and tokens are not of the same sentences.
    """
    device = choose_device(cores)
    source_words, target_words = Vocabulary.from_file(source_vocabulary), Vocabulary.from_file(target_vocabulary)
    model = load_model(weights, settings.model, source_words, target_words).to(device)
    test_sets = {}
    for test_set, (examples_file, tokens_file) in of_test_sets(settings.test_sets, examples, tokens):
        store = Examples.open(examples_file)
        store.check_vocabularies(source_words, target_words)
        words = _words(tokens_file, of=store)
        nll, count = _nll(model, device, store, BatchReader(store, settings.model))
        part = test_sets[test_set] = {
            "sentences": len(store),
            "words": words,
            "tokens": count,
            "nll": nll,
            "per_token": math.exp(nll / count),
            "per_word": math.exp(nll / (words + len(store))),
        }
        log.info("score_perplexity: %s: %.3f per token, %.3f per word", test_set, part["per_token"], part["per_word"])
    write_of_test_sets(perplexity, settings, test_sets)


def _words(tokens: Path, *, of: Examples) -> int:
    """Number of words of the target side. Raises MismatchError when there are not as many lines as examples."""
    words_of_lines = [sum(map(bool, line.split(" "))) for line in read_lines(tokens)]
    if len(words_of_lines) != len(of):
        raise MismatchError(
            "words of other sentences than the examples",
            where=tokens,
            expected=f"{len(of)} lines, as {of.path} has pairs",
            found=len(words_of_lines),
            next_step="give tokens and examples of one split",
        )
    return sum(words_of_lines)


@torch.inference_mode()
def _nll(
    model: TranslationModel[Any, Any], device: torch.device, store: Examples, reader: BatchReader
) -> tuple[float, int]:
    """-log P of all target tokens together, `</s>` included, and their number."""
    nll, count = 0.0, 0
    for rows in micro_batches(
        np.arange(len(store)), store.target_lengths, store.target_lengths, capacity=_BATCH_POSITIONS
    ):
        batch = reader(rows).to(device)
        nll -= float(model.log_probs(batch).double().sum())
        count += int(batch.target.mask_BT.sum())
    return nll, count
