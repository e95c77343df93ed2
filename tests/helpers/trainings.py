"""Trainings that take a second, for tests: settings, runs in this process and as a command, and what comes of them."""

from __future__ import annotations

import json
import sys

import torch
from stage_settings import arguments_of, of_model

import phrasemt.training.loop as loop
from phrasemt.artefacts.training import Metrics
from phrasemt.models.weights import load_tensors
from phrasemt.stages.training import AverageCheckpoints, TrainModel
from phrasemt.study.architectures import RecurrentModel, TransformerModel
from phrasemt.study.schema import Adadelta, Adam, Training
from phrasemt.training.average import average_checkpoints

SMALL = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn_width": 32, "tie": "all"}


def settings_of(*, dropout=0.1, model=None, seed=1, **training):
    model = model or TransformerModel(**SMALL, dropout=dropout, attn_dropout=dropout, act_dropout=dropout)
    size = {} if "sentences_per_update" in training else {"tokens_per_update": 200}
    budget = {**size, "max_updates": 12, "evaluate_every": 4, "checkpoint_every": 4}
    return TrainModel(
        **of_model(model),
        rate_width=model.learning_rate_width,
        training=Training(**budget | {"optimizer": Adam(warmup=10, factor=0.1), "average_last": 2} | training),
        seed=seed,
        dev_bleu="13a",
    )


def settings_of_paper(model, **training):
    """With the optimiser and the kind of update of the family's paper: about 20 of the pairs of the toy language."""
    if isinstance(model, RecurrentModel):
        training = {"sentences_per_update": 20, "optimizer": Adadelta(name="adadelta"), "clip_norm": 1.0} | training
    return settings_of(model=model, **training)


def run(tiny_data, folder, settings, **machine):
    """Record, weights of the checkpoints, and (update, loss, dev BLEU) of each report."""
    folder.mkdir(exist_ok=True)
    paths = {**tiny_data.inputs, "record": folder / "training.json", "state": folder / "state"}
    loop.train_model(settings=settings, cores=1, **machine, **paths)
    return results(folder)


def average(tiny_data, folder, settings):
    """Average the checkpoints of a training as its settings say; its scores, and the path of the weights."""
    training = settings.training
    averaging = AverageCheckpoints(
        **of_model(settings.model),
        **{"dataset": "tiny", "system": "base", "seed": settings.seed},
        last=training.average_best or training.average_last,
        best_by=training.best_by,
        dev_bleu=settings.dev_bleu,
    )
    inputs = {name: path for name, path in tiny_data.inputs.items() if not name.startswith(("train", "initial"))}
    weights, scores = folder / "averaged.safetensors", folder / "averaged.json"
    average_checkpoints(
        settings=averaging, cores=1, **inputs, record=folder / "training.json", weights=weights, scores=scores
    )
    return json.loads(scores.read_text()), weights


def command(tiny_data, folder, settings, *options):
    """The command that does the same in a process of its own."""
    paths = {**tiny_data.inputs, "record": folder / "training.json", "state": folder / "state"}
    return [sys.executable, "-m", "phrasemt", *arguments_of("train_model", settings, **paths), *options]


def results(folder):
    record = json.loads((folder / "training.json").read_text())
    weights = [load_tensors(folder / name)[0] for name in record["checkpoints"]]
    metrics = Metrics.read(folder / record["metrics"])
    losses = [(report.update, report.loss, None) for report in metrics.updates]
    scores = [(report.update, None, report.evaluation.dev_bleu) for report in metrics.evaluations]
    return record, weights, sorted(losses + scores, key=lambda report: report[0])


def assert_equal_runs(one, other):
    assert one[0]["evaluations"] == other[0]["evaluations"]
    assert one[2] == other[2]
    for ours, theirs in zip(one[1], other[1], strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
