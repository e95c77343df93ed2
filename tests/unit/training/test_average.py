"""Averages of checkpoints: their weights, their scores on dev, and the choice of a window."""

from __future__ import annotations

import numpy as np
import pytest
from trainings import SMALL, average, run, settings_of

from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.artefacts.training import Evaluation
from phrasemt.batching.reader import BatchReader
from phrasemt.errors import MismatchError
from phrasemt.files.lines import read_lines
from phrasemt.models.weights import load_model, load_tensors
from phrasemt.study.architectures import TransformerModel
from phrasemt.training.evaluator import Evaluator


def scores_of(tiny_data, settings, weights):
    """Dev scores of a file of weights, by an evaluator of their own."""
    words = Vocabulary.read(tiny_data.source_vocabulary)
    reader = BatchReader(Examples.open(tiny_data.dev), settings.reads)
    model = load_model(weights, settings.model, Vocabularies(words, words))
    return Evaluator(reader, list(read_lines(tiny_data.dev_reference)), words, "13a")(model, 1)


def test_average_is_the_mean_and_checkpoints_of_other_trainings_are_refused(tiny_data, tmp_path):
    record, weights, _ = run(tiny_data, tmp_path / "a", settings_of())
    _, averaged = average(tiny_data, tmp_path / "a", settings_of())
    tensors, description = load_tensors(averaged)
    assert description["update"] == record["updates"]
    for name, tensor in tensors.items():
        expected = np.mean([weight[name].double().numpy() for weight in weights], axis=0)
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=0, atol=1e-7)

    other, _, _ = run(tiny_data, tmp_path / "b", settings_of(seed=2))
    (tmp_path / "a" / record["checkpoints"][0]).write_bytes((tmp_path / "b" / other["checkpoints"][0]).read_bytes())
    with pytest.raises(MismatchError, match="checkpoints of different trainings"):
        average(tiny_data, tmp_path / "a", settings_of())


@pytest.mark.parametrize("tie", ["all", "decoder"])
def test_averaged_weights_are_tied_like_the_model(tiny_data, tmp_path, tie):
    settings = settings_of(model=TransformerModel(**{**SMALL, "tie": tie}))
    record, _, _ = run(tiny_data, tmp_path, settings)
    _, averaged = average(tiny_data, tmp_path, settings)
    vocabularies = Vocabularies.read(*(tiny_data.inputs[f"{side}_vocabulary"] for side in ("source", "target")))
    model = load_model(averaged, settings.model, vocabularies)
    assert (model.embeddings.source_table_VD is None) == (tie == "all")
    assert model.embeddings.output.weight_VD is model.embeddings.target_table_VD
    assert sum(parameter.numel() for parameter in model.parameters()) == record["parameters"]


def test_the_scores_are_of_the_weights_that_translate(tiny_data, tmp_path):
    settings = settings_of(average_last=3)
    record, _, _ = run(tiny_data, tmp_path, settings)
    scores, weights = average(tiny_data, tmp_path, settings)
    assert scores["updates"] == [4, 8, 12]
    found = scores_of(tiny_data, settings, weights)
    assert (scores["dev_bleu"], scores["dev_perplexity"]) == (found.dev_bleu, found.dev_perplexity)
    *_, last = record["evaluations"]
    assert scores["last"] | {"measurements": {}} == last
    assert scores["dev_perplexity"] not in [one["dev_perplexity"] for one in record["evaluations"]]


STEEP = {"max_updates": 30, "evaluate_every": 10, "checkpoint_every": 5, "average_last": 6, "best_by": "perplexity"}


def test_an_average_that_is_worse_than_the_last_update_is_named(tiny_data, tmp_path, caplog):
    """Here each update makes perplexity better, so the mean with older weights is worse."""
    settings = settings_of(**STEEP)
    run(tiny_data, tmp_path, settings)
    scores, _ = average(tiny_data, tmp_path, settings)
    assert scores["dev_perplexity"] > scores["last"]["dev_perplexity"]
    assert scores["worse_than_last"]
    assert "the average is worse on dev than the last update. Next: lower average_last" in caplog.text


def test_the_best_checkpoint_keeps_the_score_that_chose_it(tiny_data, tmp_path, monkeypatch):
    scores = iter([5.0, 7.0, 6.0])
    with monkeypatch.context() as patched:
        patched.setattr(
            Evaluator,
            "__call__",
            lambda self, model, update: Evaluation(
                update=update, dev_bleu=next(scores), dev_perplexity=2.0, measurements={"dev_x": 1.0}
            ),
        )
        settings = settings_of(average_best=1)
        run(tiny_data, tmp_path, settings)
    found, _ = average(tiny_data, tmp_path, settings)
    assert (found["updates"], found["dev_bleu"], found["last"]["dev_bleu"]) == ([8], 7.0, 6.0)
