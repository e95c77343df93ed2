"""The stage `score_perplexity` against the steps of a search, one token after the other."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from stage_settings import of_model

from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.batching.reader import LONGEST_SENTENCE, BatchReader
from phrasemt.decoding.forced_scores import score_perplexity
from phrasemt.files.columns import ColumnFile, RaggedArray, write_columns
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, load_model, save_tensors, weights_of
from phrasemt.stages.decoding import ScorePerplexity
from phrasemt.study.architectures import LanguageModel
from phrasemt.symbols import BOS, EOS

MODEL = LanguageModel(family="language_model", layers=1, width=16, heads=2, ffn_width=20)


@pytest.fixture
def weights(tiny_data, tmp_path):
    words = Vocabulary.read(tiny_data.source_vocabulary)
    torch.manual_seed(4)
    model = build_model(MODEL, source_vocabulary=len(words), target_vocabulary=len(words))
    save_tensors(tmp_path / "weights", weights_of(model), describe_weights(MODEL, Vocabularies(words, words)))
    return tmp_path / "weights"


def scored(tiny_data, weights, folder, text, examples=None):
    score_perplexity(
        settings=ScorePerplexity(
            **of_model(MODEL), dataset="d", system="lm", seed=1, test_sets=["dev"], words_are_cut=True
        ),
        cores=1,
        weights=weights,
        examples=[examples or tiny_data.dev],
        text=[text],
        source_vocabulary=tiny_data.source_vocabulary,
        target_vocabulary=tiny_data.target_vocabulary,
        perplexity=folder / "perplexity.json",
    )
    return json.loads((folder / "perplexity.json").read_text())["test_sets"]["dev"]


def nll_by_steps(tiny_data, weights):
    words = Vocabulary.read(tiny_data.source_vocabulary)
    model = load_model(weights, MODEL, Vocabularies(words, words))
    examples = Examples.open(tiny_data.dev)
    reader, nll = BatchReader(examples, MODEL.model_inputs), 0.0
    for row in range(len(examples)):
        memory = model.encode(reader.source([row]))
        state, last = model.start(memory, 1), BOS
        for token in [*examples.target(row).tolist(), EOS]:
            log_probs_BKV, state = model.step(memory, state, torch.tensor([[last]]))
            nll -= float(log_probs_BKV[0, 0, token])
            last = token
    return nll


@torch.inference_mode()
def test_both_perplexities_equal_those_of_single_steps(tiny_data, weights, tmp_path):
    """float32 sums in another order differ by a few times 1e-7 of a value."""
    lines = list(read_lines(tiny_data.dev_reference))
    tokens = sum(len(line.split()) + 1 for line in lines)
    write_lines(tmp_path / "words", [line.replace(" ", "@@ ") for line in lines])  # as if a sentence were one word
    words = len(lines)
    nll = nll_by_steps(tiny_data, weights)
    result = scored(tiny_data, weights, tmp_path, tmp_path / "words")
    assert (result["sentences"], result["tokens"], result["words"]) == (len(lines), tokens, words)
    assert result["nll"] == pytest.approx(nll, rel=1e-5)
    assert result["per_token"] == pytest.approx(math.exp(nll / tokens), rel=1e-5)
    assert result["per_word"] == pytest.approx(math.exp(nll / (words + len(lines))), rel=1e-5)


def test_words_that_the_model_does_not_read_do_not_count(tiny_data, weights, tmp_path):
    """Two sentences that begin alike, one of them longer than models read, have the same perplexity per word."""
    words = ("a@@ b c " * LONGEST_SENTENCE).split()
    ids = Vocabulary.read(tiny_data.source_vocabulary).ids(["<unk>"])[0]
    results = []
    for length in (LONGEST_SENTENCE, LONGEST_SENTENCE + 300):
        folder = tmp_path / str(length)
        folder.mkdir()
        write_lines(folder / "text", [" ".join(words[:length])])
        description = ColumnFile.open(tiny_data.dev, Examples.sides).description
        side = RaggedArray(np.array([length], np.int32), np.full(length, ids, np.int32))
        batch = np.array([0]), dict.fromkeys(Examples.sides, side)
        write_columns(folder / "examples", columns=Examples.sides, texts={}, description=description, batches=[batch])
        results.append(scored(tiny_data, weights, folder, folder / "text", folder / "examples"))
    assert results[0] == results[1]
    assert results[0]["words"] == sum(not word.endswith("@@") for word in words[:LONGEST_SENTENCE])
