"""Training: learning rates, accumulation of gradients, evaluation, checkpoints, and resuming after a kill."""

from __future__ import annotations

import dataclasses
import itertools
import math
import multiprocessing
import subprocess

import numpy as np
import pytest
import sacrebleu
import torch
from processes import wait_until
from trainings import SMALL, assert_equal_runs, command, run, settings_of

import phrasemt.batching.reader as batch_reader
import phrasemt.training.evaluator as evaluator
from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.artefacts.training import Evaluation, Metrics
from phrasemt.batching.reader import BatchReader
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError, StoppedError
from phrasemt.files.lines import read_lines
from phrasemt.models.interface import build_model
from phrasemt.models.transformer import Transformer
from phrasemt.models.weights import load_model
from phrasemt.study.architectures import Dl4mtModel, PhraseRepresentationModel, TransformerModel
from phrasemt.study.schema import Adadelta, Adam
from phrasemt.training.checkpoint import Progress, StateFolder
from phrasemt.training.evaluator import Evaluator
from phrasemt.training.optimizer import ScheduledOptimizer, noam
from phrasemt.training.trainer import CPU_POSITIONS, PendingUpdate, Trainer


def test_noam_rises_during_warmup_and_then_falls_with_the_square_root():
    settings = Adam(warmup=4000, factor=2.0)
    rates = [noam(update, width=512, settings=settings) for update in (1, 2000, 4000, 16000)]
    # by hand: 2/sqrt(512)/4000^1.5, half of the peak, the peak 2/sqrt(512*4000), half of the peak
    peak = 2 / math.sqrt(512 * 4000)
    assert rates == pytest.approx([peak / 4000, peak / 2, peak, peak / 2])


@pytest.mark.parametrize("settings", [Adam(), Adadelta(name="adadelta")], ids=lambda settings: settings.name)
def test_a_parameter_with_a_rate_factor_takes_that_share_of_each_step(settings):
    whole, third = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(3))
    optimizer = ScheduledOptimizer([whole, third], settings, width=512, rate_factors={third: 1 / 3})
    for update in (1, 2):
        for parameter in (whole, third):
            parameter.grad = torch.tensor([0.1, -2.0, 30.0])
        optimizer.step(update, torch.tensor(True))
    assert whole.abs().min() > 0
    torch.testing.assert_close(third, whole / 3)


@pytest.mark.parametrize(
    ("settings", "constants"),
    [(Adam(), {"betas": (0.9, 0.98), "eps": 1e-9}), (Adadelta(name="adadelta"), {"rho": 0.95, "eps": 1e-6})],
    ids=["Vaswani et al.", "Bahdanau et al."],
)
def test_the_constants_of_the_optimisers_are_those_of_the_papers(settings, constants):
    optimizer = ScheduledOptimizer([torch.nn.Parameter(torch.zeros(1))], settings, width=512, rate_factors={})
    assert constants.items() <= optimizer.wrapped.defaults.items()


def test_training_learns_and_writes_a_complete_record(tiny_data, tmp_path):
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
    assert record["idle_parameters"] == 0
    assert [update for update, loss, _ in metrics if loss is not None] == [12]
    assert not list(tmp_path.rglob("*.part"))


def test_the_seed_draws_the_initial_weights(tiny_data, tmp_path):
    """One update of all pairs with nearly no learning rate: the weights are the initial ones."""
    once = {"sentences_per_update": 1500, "max_updates": 1, "evaluate_every": 1, "checkpoint_every": 1}
    weights = []
    for seed in (1, 2):
        settings = settings_of(seed=seed, dropout=0.0, **once, average_last=1, optimizer=Adam(factor=1e-9))
        weights.append(run(tiny_data, tmp_path / str(seed), settings)[1][0])
    matrices = [name for name, tensor in weights[0].items() if tensor.dim() > 1]
    assert all((weights[0][name] - weights[1][name]).abs().max() > 0.01 for name in matrices)


def test_each_update_draws_its_own_dropout(tiny_data):
    settings = settings_of(dropout=0.5, optimizer=Adam(factor=1e-9))
    words = Vocabulary.read(tiny_data.source_vocabulary)
    model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
    trainer = Trainer(model, BatchReader(Examples.open(tiny_data.train), settings.reads), settings)
    first, again, second = (trainer.update(number, np.arange(50)).objective for number in (1, 1, 2))
    assert again == pytest.approx(first, rel=1e-6)
    assert second != pytest.approx(first, rel=1e-3)


def test_micro_batches_accumulate_the_gradient_of_the_whole_update(tiny_data):
    """Without dropout, micro-batches differ only in the order of float32 sums: 1e-6 of the largest."""
    examples = Examples.open(tiny_data.train)
    words = Vocabulary.read(tiny_data.source_vocabulary)
    gradients = []
    for capacity in (100_000, 64):
        settings = settings_of(dropout=0.0)
        torch.manual_seed(3)
        model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
        trainer = Trainer(model, BatchReader(examples, settings.reads), settings)
        trainer.capacity = capacity
        result = trainer.update(1, np.arange(50))
        gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
        assert result.tokens == int(examples.target_lengths[np.arange(50)].sum()) + 50
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradients[1][name], gradient, rtol=0, atol=1e-6 * max(1.0, float(gradient.abs().max()))
        )


class Killed(BaseException):
    pass


LOSS = Transformer.loss


def running_out(loss, *, call):
    """A loss that runs out of memory in one of its calls, from 1."""
    calls = itertools.count(1)

    def short_of_memory(self, batch, *, label_smoothing):
        if next(calls) == call:
            raise torch.OutOfMemoryError
        return loss(self, batch, label_smoothing=label_smoothing)

    return short_of_memory


def killed(tiny_data, folder, settings, monkeypatch, *, update):
    """Run a training that ends abruptly before this update, as in a power cut."""
    original = Trainer.begin

    def dying(self, number, *update_and_share):
        if number == update:
            raise Killed
        return original(self, number, *update_and_share)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "begin", dying)
        with pytest.raises(Killed):
            run(tiny_data, folder, settings)


def test_the_next_update_begins_before_the_numbers_of_the_last_one_are_read(tiny_data, tmp_path, monkeypatch):
    """But a report, an evaluation and a saved state have the numbers of all updates."""
    done, begin, result, numbers = [], Trainer.begin, PendingUpdate.result, {}

    def watched(self, number, *others):
        pending = begin(self, number, *others)
        numbers[id(pending)] = number
        done.append(f"begin {number}")
        return pending

    monkeypatch.setattr(Trainer, "begin", watched)
    monkeypatch.setattr(PendingUpdate, "result", lambda self: done.append(f"read {numbers[id(self)]}") or result(self))
    monkeypatch.setattr(StateFolder, "save_latest", lambda self, trainer, progress: done.append("save"))
    run(tiny_data, tmp_path, settings_of(max_updates=5, evaluate_every=3, checkpoint_every=3))
    assert done == [
        *("begin 1", "begin 2", "read 1", "begin 3", "read 2", "read 3", "save"),
        *("begin 4", "begin 5", "read 4", "read 5", "save"),
    ]


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
def test_resuming_after_a_kill_gives_the_same_weights(tiny_data, tmp_path, monkeypatch, model, training):
    settings = settings_of(model=model, evaluate_every=4, checkpoint_every=3, **training)
    whole = run(tiny_data, tmp_path / "whole", settings)
    for update in (1, 4, 5, 10):
        killed(tiny_data, tmp_path / "killed", settings, monkeypatch, update=update)
        assert not (tmp_path / "killed" / "training.json").exists()
    resumed = run(tiny_data, tmp_path / "killed", settings)
    assert_equal_runs(whole, resumed)


def test_updates_read_ahead_by_workers_train_alike(tiny_data, tmp_path, monkeypatch):
    """As on a GPU: to the bit, also when it resumes, and when memory runs out after updates were read ahead."""
    settings = settings_of(max_updates=9, checkpoint_every=3)
    whole = run(tiny_data, tmp_path / "whole", settings)
    monkeypatch.setitem(batch_reader.WORKERS, "cpu", 2)
    killed(tiny_data, tmp_path / "killed", settings, monkeypatch, update=5)
    assert not multiprocessing.active_children()
    assert_equal_runs(whole, run(tiny_data, tmp_path / "killed", settings))
    short = []
    for workers in (2, 0):
        monkeypatch.setitem(batch_reader.WORKERS, "cpu", workers)
        monkeypatch.setattr(Transformer, "loss", running_out(LOSS, call=4))
        short.append(run(tiny_data, tmp_path / f"short {workers}", settings))
    assert_equal_runs(*short)
    assert short[0][0]["micro_batch_positions"] == [CPU_POSITIONS // 2]


@pytest.mark.slow
def test_the_same_command_resumes_after_kill_9(tiny_data, tmp_path):
    settings = settings_of(max_updates=60, checkpoint_every=5, evaluate_every=20)
    whole = run(tiny_data, tmp_path / "whole", settings)
    folder = tmp_path / "killed"
    words = command(tiny_data, folder, settings)
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(folder.glob("state/*/latest.safetensors")), process)
    process.kill()
    process.wait()
    assert not (folder / "training.json").exists()
    assert subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0
    assert (folder / "training.json.meta.json").exists()
    assert not list(folder.rglob("*.part"))
    assert_equal_runs(whole, run(tiny_data, folder, settings))  # runs no update: all are done


def test_without_bleu_the_evaluation_with_the_lowest_perplexity_is_best():
    values = evaluations_of((None, 9.0), (None, 4.0), (None, 4.0), (None, 5.0))
    progress = Progress(evaluations=values)
    assert progress.best is values[1]
    with_bleu = evaluations_of((1.0, 9.0), (3.0, 4.0), (9.0, 4.0), (2.0, 5.0))
    assert Progress(evaluations=with_bleu).best is with_bleu[2]
    assert Progress(evaluations=with_bleu, best_by="perplexity").best is with_bleu[1]
    assert progress.evaluations_since_best == 2


def evaluations_of(*scores):
    """Evaluations with these dev BLEU and dev perplexities."""
    return [evaluation(update, *of_update) for update, of_update in enumerate(scores)]


def evaluation(update, bleu, perplexity):
    return Evaluation(update=update, dev_bleu=bleu, dev_perplexity=perplexity)


def test_early_stopping_counts_from_the_first_bleu_above_zero():
    values = evaluations_of((0.0, 20.0), (0.0, 30.0), (0.0, 40.0), (1.5, 50.0), (0.0, 60.0), (1.0, 70.0))
    counts = [Progress(evaluations=values[:seen]).evaluations_since_best for seen in range(len(values) + 1)]
    assert counts == [0, 0, 0, 0, 0, 1, 2]
    counts = [Progress(evaluations=values[:seen], best_by="perplexity").evaluations_since_best for seen in range(1, 5)]
    assert counts == [0, 1, 2, 3]


def test_a_training_without_bleu_keeps_its_best_weights_and_goes_to_its_end(tiny_data, tmp_path, monkeypatch):
    perplexities = iter([90.0, 50.0, 20.0, 10.0, 15.0])
    monkeypatch.setattr(Evaluator, "__call__", lambda self, model, update: evaluation(update, 0.0, next(perplexities)))
    settings = settings_of(evaluate_every=2, max_updates=10, average_best=2, early_stopping=1)
    record, _, _ = run(tiny_data, tmp_path, settings)
    assert (record["stopped"], record["updates"], record["best_update"]) == ("max_updates", 10, 8)
    assert [name.split("-")[-1] for name in record["checkpoints"]] == ["000008.safetensors", "000010.safetensors"]


def test_a_language_model_is_evaluated_without_a_search(tiny_data, monkeypatch):
    monkeypatch.setattr(evaluator, "Search", None)
    words = Vocabulary.read(tiny_data.source_vocabulary)
    settings = settings_of()
    model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
    values = Evaluator(BatchReader(Examples.open(tiny_data.dev), settings.reads), None, words, "13a")(model, 1)
    assert values.dev_bleu is None
    assert values.dev_perplexity > 1


@pytest.mark.parametrize("bleu", ["13a", "char"])
def test_dev_bleu_counts_what_sacrebleu_counts_in_the_language(tiny_data, monkeypatch, bleu):
    """13a: tokens, as multi-bleu.perl. Otherwise the text that the tokens make, without spaces between them."""
    words = Vocabulary.read(tiny_data.target_vocabulary)
    references = [*read_lines(tiny_data.dev_reference)]
    found = [line.removeprefix("A ") for line in references[:-1]] + [references[-1][::-1]]
    translations = [words.ids(line.split(" ")).tolist() for line in found]
    monkeypatch.setattr(Evaluator, "_translate", lambda self, model: translations)
    settings = settings_of()
    model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
    values = Evaluator(BatchReader(Examples.open(tiny_data.dev), settings.reads), references, words, bleu)(model, 1)
    if bleu == "13a":
        expected = sacrebleu.corpus_bleu(found, [references], tokenize="none", smooth_method="none", force=True)
    else:
        sides = ([line.replace(" ", "") for line in side] for side in (found, references))
        expected = sacrebleu.corpus_bleu(next(sides), [next(sides)], tokenize=bleu)
    assert values.dev_bleu == pytest.approx(expected.score, abs=1e-4)
    assert 0 < values.dev_bleu < 100


def test_further_losses_of_a_family_are_reported_per_token(tiny_data, tmp_path, monkeypatch):
    """The further losses are the numbers of tokens and of half tokens: 1 and 0.5 per token, in training and on dev."""
    loss = Transformer.loss

    def counting(self, batch, *, label_smoothing):
        words = loss(self, batch, label_smoothing=label_smoothing)
        tokens = torch.tensor(float(words.tokens), requires_grad=True)
        return dataclasses.replace(words, parts={"whole": tokens, "half": tokens / 2})

    monkeypatch.setattr(Transformer, "loss", counting)
    record, _, _ = run(tiny_data, tmp_path, settings_of())
    assert [one["measurements"] for one in record["evaluations"]] == [{"dev_whole": 1.0, "dev_half": 0.5}] * 3
    (report,) = Metrics.read(tmp_path / record["metrics"]).updates
    assert report.parts == {"whole": 1.0, "half": 0.5}


def spoilt(monkeypatch, updates):
    """Make the loss of the micro-batches of these updates NaN."""
    begin, loss, now = Trainer.begin, Transformer.loss, []

    def counted(self, number, *update_and_share):
        now[:] = [number]
        return begin(self, number, *update_and_share)

    def spoiling(self, batch, *, label_smoothing):
        value = loss(self, batch, label_smoothing=label_smoothing)
        return dataclasses.replace(value, objective=value.objective * math.nan) if now[0] in updates else value

    monkeypatch.setattr(Trainer, "begin", counted)
    monkeypatch.setattr(Transformer, "loss", spoiling)


def test_an_update_without_a_finite_loss_is_skipped_and_counted(tiny_data, tmp_path, monkeypatch):
    spoilt(monkeypatch, {1, 2, 6})
    record, weights, metrics = run(
        tiny_data, tmp_path, settings_of(evaluate_every=1, checkpoint_every=1, max_updates=6)
    )
    assert record["skipped"] == 3
    perplexities = [evaluation["dev_perplexity"] for evaluation in record["evaluations"]]
    assert perplexities[0] == perplexities[1] != perplexities[2]  # no step was taken
    assert perplexities[4] == perplexities[5]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert [math.isfinite(loss) for _, loss, _ in metrics if loss is not None] == [True]


def test_a_training_that_skips_ten_updates_in_a_row_ends(tiny_data, tmp_path, monkeypatch):
    spoilt(monkeypatch, set(range(3, 100)))
    with pytest.raises(PhrasemtError, match=r"update 12: loss or gradient was not finite in 10 consecutive updates"):
        run(tiny_data, tmp_path, settings_of(max_updates=50, evaluate_every=50))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data.replace(b'\\"position\\": ', b'\\"position\\":1'),
    ],
    ids=["a bit of the last tensor", "the description"],
)
def test_a_damaged_state_is_replaced_by_the_previous_one(tiny_data, tmp_path, monkeypatch, caplog, damage):
    settings = settings_of(max_updates=16)
    whole = run(tiny_data, tmp_path / "whole", settings)
    folder = tmp_path / "damaged"
    killed(tiny_data, folder, settings, monkeypatch, update=14)
    (latest,) = folder.glob("state/*/latest.safetensors")
    whole_state = latest.read_bytes()
    latest.write_bytes(damage(whole_state))
    assert latest.read_bytes() != whole_state
    assert_equal_runs(whole, run(tiny_data, folder, settings))
    assert "its checksum is wrong" in caplog.text
    assert "resuming from the previous state, after update 8" in caplog.text
    assert latest.with_name("damaged.safetensors").exists()


def test_a_state_of_another_training_is_refused_and_other_states_are_reported(tiny_data, tmp_path, caplog):
    caplog.set_level("INFO", "phrasemt")
    run(tiny_data, tmp_path, settings_of())
    (latest,) = tmp_path.glob("state/*/latest.safetensors")
    run(tiny_data, tmp_path, settings_of(seed=2))
    assert "starting anew" in caplog.text
    (other,) = set(tmp_path.glob("state/*/latest.safetensors")) - {latest}
    other.write_bytes(latest.read_bytes())
    with pytest.raises(MismatchError, match="training state of another study, data set or version of the code"):
        run(tiny_data, tmp_path, settings_of(seed=2))


def test_the_error_names_two_damaged_states(tiny_data, tmp_path):
    settings = settings_of()
    run(tiny_data, tmp_path, settings)
    for path in tmp_path.glob("state/*/[lp]*.safetensors"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFileError, match=r"previous\.safetensors: not a readable weights file"):
        run(tiny_data, tmp_path, settings)


def test_running_out_of_memory_halves_the_micro_batches(tiny_data, monkeypatch):
    """The update is repeated in smaller micro-batches; its gradient equals that of a run which began with these."""
    words = Vocabulary.read(tiny_data.source_vocabulary)
    settings = settings_of(max_length=16)
    loss = Transformer.loss
    examples = Examples.open(tiny_data.train)
    longest = int(max(examples.source_lengths[np.arange(50)].max(), examples.target_lengths[np.arange(50)].max())) + 1
    room = 4 * longest
    small = 4096
    while small > room:
        small //= 2

    def greedy(self, batch, *, label_smoothing):
        if batch.source.ids_BS.numel() > room:
            raise torch.OutOfMemoryError
        return loss(self, batch, label_smoothing=label_smoothing)

    monkeypatch.setattr(Transformer, "loss", greedy)
    gradients = {}
    for positions in (4096, small):
        torch.manual_seed(3)
        model = build_model(settings.model, source_vocabulary=len(words), target_vocabulary=len(words))
        trainer = Trainer(model, BatchReader(Examples.open(tiny_data.train), settings.reads), settings)
        trainer.capacity = positions
        trainer.update(1, np.arange(50))
        gradients[positions] = [parameter.grad for parameter in model.parameters()]
        assert trainer.capacity == small
    assert all(torch.equal(*pair) for pair in zip(*gradients.values(), strict=True))
    room = 0
    with pytest.raises(PhrasemtError, match="the memory of the device is too small for a single pair"):
        trainer.update(2, np.arange(50))


def test_the_best_checkpoints_are_kept(tiny_data, tmp_path, monkeypatch):
    scores = iter([5.0, 7.0, 6.0, 9.0, 8.0, 1.0])
    monkeypatch.setattr(Evaluator, "__call__", lambda self, model, update: evaluation(update, next(scores), 2.0))
    settings = settings_of(evaluate_every=2, checkpoint_every=3, max_updates=12, average_best=3)
    record, _, _ = run(tiny_data, tmp_path, settings)
    updates = [int(name.split("-")[-1].split(".")[0]) for name in record["checkpoints"]]
    assert updates == [4, 8, 10]


def test_a_stopped_training_resumes_from_its_saved_state(tiny_data, tmp_path):
    """A run without any time left still does one update."""
    settings = settings_of(max_updates=5)
    whole = run(tiny_data, tmp_path / "whole", settings)
    for update in range(1, 5):
        with pytest.raises(StoppedError, match=rf"stopped after update {update} and saved the state: its time is up"):
            run(tiny_data, tmp_path / "pieces", settings, minutes=1e-9)
    assert_equal_runs(whole, run(tiny_data, tmp_path / "pieces", settings, minutes=1e-9))


def test_weights_of_another_model_or_vocabulary_are_refused(tiny_data, tmp_path):
    settings = settings_of()
    record, _, _ = run(tiny_data, tmp_path, settings)
    words = Vocabulary.read(tiny_data.source_vocabulary)
    path = tmp_path / record["checkpoints"][0]
    assert not load_model(path, settings.model, Vocabularies(words, words)).training
    wider = settings.model.model_copy(update={"ffn_width": 64})
    with pytest.raises(
        MismatchError, match=r"trained with other settings \(expected ffn_width 64, found ffn_width 32\)"
    ):
        load_model(path, wider, Vocabularies(words, words))
    shorter = tmp_path / "vocabulary.tsv"
    shorter.write_text("".join(tiny_data.source_vocabulary.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(MismatchError, match="weights were trained with another target vocabulary"):
        load_model(path, settings.model, Vocabularies(words, Vocabulary.read(shorter)))
