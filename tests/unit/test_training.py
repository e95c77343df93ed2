"""Training: the schedule, accumulation, and going on after a kill."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import phrasemt.train.loop as loop
from phrasemt.architectures import Dl4mtModel, PhraseRepresentationModel, TransformerModel
from phrasemt.batching.example import Examples
from phrasemt.batching.reader import BatchReader
from phrasemt.config import Adadelta, Adam, Training
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.models.interface import build_model
from phrasemt.models.transformer import Transformer
from phrasemt.models.weights import load_model, load_tensors
from phrasemt.settings import AverageSettings, TrainSettings
from phrasemt.text.vocab import Vocabulary
from phrasemt.train import optimizers
from phrasemt.train.average import average_checkpoints
from phrasemt.train.checkpoint import Progress
from phrasemt.train.optimizers import noam

SMALL = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn_width": 32, "tie": "all"}


def settings_of(*, dropout=0.1, model=None, seed=1, **training):
    model = model or TransformerModel(**SMALL, dropout=dropout, attn_dropout=dropout, act_dropout=dropout)
    size = {} if "sentences_per_update" in training else {"tokens_per_update": 200}
    budget = {**size, "max_updates": 12, "evaluate_every": 4, "checkpoint_every": 4}
    return TrainSettings(
        model=model,
        training=Training(**budget | {"optimizer": Adam(warmup=10, factor=0.1), "average_last": 2} | training),
        seed=seed,
        target_language="de",
    )


def run(tiny_data, folder, settings):
    folder.mkdir(exist_ok=True)
    loop.train_model(
        settings=settings, cores=1, **tiny_data.inputs, record=folder / "training.json", state=folder / "state"
    )
    record = json.loads((folder / "training.json").read_text())
    weights = [load_tensors(folder / name)[0] for name in record["checkpoints"]]
    lines = [json.loads(line) for line in (folder / record["metrics"]).read_text().splitlines()]
    return record, weights, [(line["update"], line.get("loss"), line.get("dev_bleu")) for line in lines]


def assert_equal_runs(one, other):
    assert one[0]["evaluations"] == other[0]["evaluations"]
    for ours, theirs in zip(one[1], other[1], strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_noam_grows_to_the_warmup_and_falls_with_the_root():
    settings = Adam(warmup=4000, factor=2.0)
    rates = [noam(update, width=512, settings=settings) for update in (1, 2000, 4000, 16000)]
    # by hand: 2/sqrt(512)/4000^1.5, half of the peak, the peak 2/sqrt(512*4000), half of the peak
    peak = 2 / math.sqrt(512 * 4000)
    assert rates == pytest.approx([peak / 4000, peak / 2, peak, peak / 2])


def test_learns_and_writes_a_complete_record(tiny_data, tmp_path):
    record, weights, metrics = run(tiny_data, tmp_path, settings_of())
    assert record["updates"] == 12
    assert record["stopped"] == "max_updates"
    assert [evaluation["update"] for evaluation in record["evaluations"]] == [4, 8, 12]
    assert [name.split("/")[-1] for name in record["checkpoints"]] == [
        "checkpoint-000008.safetensors",
        "checkpoint-000012.safetensors",
    ]
    assert record["evaluations"][-1]["dev_perplexity"] < record["evaluations"][0]["dev_perplexity"]
    assert record["parameters"] == sum(tensor.numel() for tensor in weights[0].values())
    assert [update for update, loss, _ in metrics if loss is not None] == [12]
    assert not list(tmp_path.rglob("*.part"))


def test_same_seed_same_weights_other_seed_other_weights(tiny_data, tmp_path):
    first = run(tiny_data, tmp_path / "a", settings_of())
    assert_equal_runs(first, run(tiny_data, tmp_path / "b", settings_of()))
    other = run(tiny_data, tmp_path / "c", settings_of(seed=2))
    assert any(not torch.equal(first[1][0][name], other[1][0][name]) for name in first[1][0])


def test_accumulation_gives_the_gradient_of_the_whole_update(tiny_data, monkeypatch):
    """Without dropout, micro-batches differ only in the order of float32 sums: 1e-6 of the largest."""
    examples = Examples.open(tiny_data.train)
    words = Vocabulary.from_file(tiny_data.source_vocabulary)
    gradients = []
    for capacity in (100_000, 64):
        monkeypatch.setattr(loop, "MICRO_BATCH_POSITIONS", capacity)
        settings = settings_of(dropout=0.0)
        torch.manual_seed(3)
        model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
        trainer = loop.Trainer(model, BatchReader(examples, settings.model), settings)
        result = trainer.update(1, np.arange(50))
        gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
        assert result.tokens == int(examples.target_lengths[:50].sum()) + 50
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradients[1][name], gradient, rtol=0, atol=1e-6 * max(1.0, float(gradient.abs().max()))
        )


class Killed(BaseException):
    pass


BY_SENTENCES = {"sentences_per_update": 12, "clip_norm": 1.0, "optimizer": Adadelta(name="adadelta")}


@pytest.mark.parametrize(
    ("model", "training"),
    [
        (TransformerModel(**SMALL), {}),
        (PhraseRepresentationModel(**SMALL), {}),
        (Dl4mtModel(family="dl4mt", embedding=8, hidden=12), BY_SENTENCES),
    ],
    ids=["transformer", "phrase_representation", "dl4mt"],
)
def test_going_on_after_a_kill_gives_the_same_weights(tiny_data, tmp_path, monkeypatch, model, training):
    settings = settings_of(model=model, evaluate_every=4, checkpoint_every=3, **training)
    whole = run(tiny_data, tmp_path / "whole", settings)
    update = loop.Trainer.update
    for killed_at in (1, 4, 5, 10):

        def dying(self, number, rows, killed_at=killed_at):
            if number == killed_at:
                raise Killed
            return update(self, number, rows)

        monkeypatch.setattr(loop.Trainer, "update", dying)
        with pytest.raises(Killed):
            run(tiny_data, tmp_path / "killed", settings)
        monkeypatch.setattr(loop.Trainer, "update", update)
        assert not (tmp_path / "killed" / "training.json").exists()
    resumed = run(tiny_data, tmp_path / "killed", settings)
    assert_equal_runs(whole, resumed)
    assert [line[0] for line in whole[2]] == [line[0] for line in resumed[2]]


def test_kill_9_and_the_same_command_again(tiny_data, tmp_path):
    settings = settings_of(max_updates=60, checkpoint_every=5, evaluate_every=20)
    whole = run(tiny_data, tmp_path / "whole", settings)
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "phrasemt", "train_model", "--settings", settings.canonical_json()]
    for name, path in ((name, path) for name, path in tiny_data.inputs.items() if path):
        command += [f"--{name.replace('_', '-')}", str(path)]
    command += ["--record", str(folder / "training.json"), "--state", str(folder / "state")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(folder.glob("state/*/latest.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "training.json").exists()
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    assert (folder / "training.json.meta.json").exists()
    assert not list(folder.rglob("*.part"))
    assert_equal_runs(whole, run(tiny_data, folder, settings))  # runs no update: all are done


def test_early_stopping(tiny_data, tmp_path, monkeypatch):
    scores = iter([5.0, 7.0, 6.0, 6.5, 9.0])
    monkeypatch.setattr(
        loop.Evaluator, "__call__", lambda self, model: {"dev_bleu": next(scores), "dev_perplexity": 2.0}
    )
    record, _, _ = run(tiny_data, tmp_path, settings_of(evaluate_every=2, early_stopping=2, max_updates=50))
    assert record["stopped"] == "early_stopping"
    assert record["updates"] == 8
    assert record["best_update"] == 4
    assert record["checkpoints"][-1].endswith("checkpoint-000008.safetensors")


def test_without_bleu_the_lowest_perplexity_is_best():
    values = [
        {"update": update, "dev_perplexity": perplexity} for update, perplexity in enumerate([9.0, 4.0, 4.0, 5.0])
    ]
    progress = Progress(evaluations=values)
    assert progress.best is values[1]
    assert progress.evaluations_since_best == 2


def test_a_model_that_translates_nothing_is_not_searched(tiny_data, monkeypatch):
    monkeypatch.setattr(loop, "translate_split", None)
    words = Vocabulary.from_file(tiny_data.source_vocabulary)
    settings = settings_of()
    model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
    values = loop.Evaluator(BatchReader(Examples.open(tiny_data.dev), settings.model), None, words)(model)
    assert list(values) == ["dev_perplexity"]


def test_further_sums_of_a_family_are_reported_per_token(tiny_data, tmp_path, monkeypatch):
    """A family that counts its target tokens and half of them: 1 and 0.5 per token, of every update and on dev."""
    loss = Transformer.loss

    def counting(self, batch, *, label_smoothing):
        words = loss(self, batch, label_smoothing=label_smoothing)
        tokens = torch.tensor(float(words.tokens), requires_grad=True)
        return dataclasses.replace(words, parts={"whole": tokens, "half": tokens / 2})

    monkeypatch.setattr(Transformer, "loss", counting)
    record, _, _ = run(tiny_data, tmp_path, settings_of())
    assert [(one["dev_whole"], one["dev_half"]) for one in record["evaluations"]] == [(1.0, 0.5)] * 3
    lines = [json.loads(line) for line in (tmp_path / record["metrics"]).read_text().splitlines()]
    assert [(line["whole"], line["half"]) for line in lines if "loss" in line] == [(1.0, 0.5)]


def test_a_loss_that_is_not_finite_ends_training(tiny_data, tmp_path, monkeypatch):
    monkeypatch.setattr(optimizers, "noam", lambda *args, **kwargs: math.inf)
    with pytest.raises(PhrasemtError, match=r"update 2: the loss is not a finite number"):
        run(tiny_data, tmp_path, settings_of())


def test_a_damaged_state_is_named(tiny_data, tmp_path):
    settings = settings_of()
    run(tiny_data, tmp_path, settings)
    (latest,) = tmp_path.glob("state/*/latest.safetensors")
    latest.write_bytes(latest.read_bytes()[:-100])
    with pytest.raises(DamagedFileError, match=r"latest\.safetensors: not a readable weights file"):
        run(tiny_data, tmp_path, settings)


def test_average_is_the_mean_and_checkpoints_of_other_trainings_are_refused(tiny_data, tmp_path):
    record, weights, _ = run(tiny_data, tmp_path / "a", settings_of())
    averaged = tmp_path / "averaged.safetensors"
    average_checkpoints(
        settings=AverageSettings(last=2), cores=1, record=tmp_path / "a" / "training.json", weights=averaged
    )
    for name, tensor in load_tensors(averaged)[0].items():
        expected = np.mean([weight[name].double().numpy() for weight in weights], axis=0)
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=0, atol=1e-7)

    other, _, _ = run(tiny_data, tmp_path / "b", settings_of(seed=2))
    (tmp_path / "a" / record["checkpoints"][0]).write_bytes((tmp_path / "b" / other["checkpoints"][0]).read_bytes())
    with pytest.raises(MismatchError, match="checkpoints of different trainings"):
        average_checkpoints(
            settings=AverageSettings(last=2), cores=1, record=tmp_path / "a" / "training.json", weights=averaged
        )


@pytest.mark.parametrize("tie", ["all", "decoder"])
def test_averaged_weights_are_tied_like_the_model(tiny_data, tmp_path, tie):
    settings = settings_of(model=TransformerModel(**{**SMALL, "tie": tie}))
    record, _, _ = run(tiny_data, tmp_path, settings)
    averaged, record_file = tmp_path / "averaged.safetensors", tmp_path / "training.json"
    average_checkpoints(settings=AverageSettings(last=2), cores=1, record=record_file, weights=averaged)
    vocabularies = (Vocabulary.from_file(tiny_data.inputs[f"{side}_vocabulary"]) for side in ("source", "target"))
    model = load_model(averaged, settings.model, *vocabularies)
    assert (model.words.source_table_VD is None) == (tie == "all")
    assert model.words.softmax[0] is model.words.target_table_VD
    assert sum(parameter.numel() for parameter in model.parameters()) == record["parameters"]


def test_weights_of_another_model_or_vocabulary_are_refused(tiny_data, tmp_path):
    settings = settings_of()
    record, _, _ = run(tiny_data, tmp_path, settings)
    words = Vocabulary.from_file(tiny_data.source_vocabulary)
    path = tmp_path / record["checkpoints"][0]
    assert not load_model(path, settings.model, words, words).training
    wider = settings.model.model_copy(update={"ffn_width": 64})
    with pytest.raises(MismatchError, match=r"weights of another model \(expected ffn_width 64, found ffn_width 32\)"):
        load_model(path, wider, words, words)
    shorter = tmp_path / "vocabulary.tsv"
    shorter.write_text("".join(tiny_data.source_vocabulary.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(MismatchError, match="weights were trained with another target vocabulary"):
        load_model(path, settings.model, words, Vocabulary.from_file(shorter))
