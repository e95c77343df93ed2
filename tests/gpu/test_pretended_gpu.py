"""Every family on a pretended GPU: nothing mixes devices, and the host waits for the GPU only where we know of it.

A wait inside a micro-batch or a step of a search leaves a GPU idle. Who removes one lowers the number here.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
import torch
from drawn_pairs import drawn_reader, plan_of_updates
from pretended_cuda import CPU, GPU, DeviceMixError, PretendedGpu
from small_systems import ONE_OF_EACH_FAMILY, SYSTEMS, TARGET_VOCABULARY, random_model, slow_except
from trainings import settings_of_paper

import phrasemt.training.trainer as trainer_module
from phrasemt.batching.reader import RankReader
from phrasemt.decoding.attention import AttentionStatistics
from phrasemt.decoding.beam import translate_split
from phrasemt.decoding.forced import force
from phrasemt.files.attention import AXES
from phrasemt.models.dl4mt import Dl4mt
from phrasemt.study.architectures import RecurrentModel
from phrasemt.study.schema import Adadelta, Adam, Decoding
from phrasemt.training.optimizer import ScheduledOptimizer
from phrasemt.training.trainer import Trainer

RECURRENT = [name for name, settings in SYSTEMS.items() if isinstance(settings, RecurrentModel)]
STEP = {"decoding/beam.py beam_search: tolist": 1}
SEARCH = {"decoding/beam.py Allowed.__init__: tolist": 1}
ASKS_BEFORE_A_STEP = {"training/optimizer.py ScheduledOptimizer.step: _local_scalar_dense": 1}
STEPS = 4
SHORT = {"max_length_factor": 0, "max_length_extra": STEPS - 1}


def assert_waits(gpu, *allowed):
    """Compare the waits with the sum of what is allowed, each as often as its number says."""
    most = Counter()
    for waits, times in allowed:
        most.update({line: count * times for line, count in waits.items()})
    found = Counter()
    for line, count in gpu.waits.items():
        found[re.sub(r":\d+", "", line, count=1)] += count
    assert not found - most, f"new waits {dict(found - most)} among {dict(gpu.waits)}"


@pytest.fixture(params=slow_except(ONE_OF_EACH_FAMILY))
def settings(request):
    return SYSTEMS[request.param]


@pytest.fixture
def reader(settings):
    return drawn_reader(settings.model_inputs, pairs=10, vocabulary=TARGET_VOCABULARY, median=4, longest=7)


def test_updates_and_evaluation(settings, reader, monkeypatch):
    monkeypatch.setattr(trainer_module, "_MAX_GPU_POSITIONS", 32)
    training = settings_of_paper(settings, precision="bfloat16")
    model = random_model(settings)
    model.positions_in_row = 8 if model.positions_in_row else None  # of one or two pairs
    with PretendedGpu() as gpu:
        trainer = Trainer(model.to(GPU), reader, training)
        plan = plan_of_updates(training, reader.examples)
        trainer.find_capacity(plan)
        gpu.reset()
        pending = [trainer.begin(number, rows) for number, rows in enumerate([*plan.epoch(0)][:2], 1)]
        assert_waits(gpu, (ASKS_BEFORE_A_STEP, 2 if isinstance(training.training.optimizer, Adadelta) else 0))
        for result in (update.result() for update in pending):
            assert not result.skipped
            assert result.micro_batches > 1
        with torch.inference_mode():
            trainer.model.eval().measure([reader(range(5)).to(GPU), reader(range(5, 10)).to(GPU)])


@pytest.mark.parametrize("settings", [Adam(), Adadelta(name="adadelta")], ids=lambda settings: settings.name)
def test_a_gpu_skips_a_step(settings):
    """Adam without the host. To the bit, and also what an optimiser keeps is as if the step had not been."""

    def steps(device, gradients):
        parameters = [torch.nn.Parameter(torch.arange(1.0, 4.0).to(device)) for _ in range(2)]
        optimizer = ScheduledOptimizer(parameters, settings, width=8, rate_factors={parameters[0]: 0.5})
        for number, gradient in gradients:
            for parameter in parameters:
                parameter.grad = torch.tensor([0.1, gradient, 30.0]).to(device, non_blocking=True)
            optimizer.step(number, torch.isfinite(parameters[1].grad.sum()))
        state = optimizer.wrapped.state
        return parameters, [[kept for name, kept in state[one].items() if name != "step"] for one in parameters]

    with PretendedGpu() as gpu:
        there = steps(GPU, [(1, 2.0), (2, np.nan), (3, -3.0)])
        asked = sum(count for line, count in gpu.waits.items() if "optimizer" in line)
        assert asked == (3 if settings.name == "adadelta" else 0)
        here = steps(CPU, [(1, 2.0), (3, -3.0)])
        torch.testing.assert_close(torch.utils._pytree.tree_map(lambda x: x.cpu(), there), here, rtol=0, atol=0)


def test_kernels_of_gpus_only_compute_the_same(settings, reader):
    """Recurrent cells have a kernel of their own on a GPU; here stands what it computes, in plain torch."""

    def loss_and_gradients(device):
        model = random_model(settings).double().eval().to(device)
        loss = model.loss(reader(range(10)).to(device), label_smoothing=0.1).objective
        loss.backward()
        return {name: one.grad for name, one in model.named_parameters()} | {"loss": loss.detach()}

    with PretendedGpu():
        there = loss_and_gradients(GPU)
    torch.testing.assert_close(there, loss_and_gradients(CPU), rtol=1e-12, atol=1e-12)


def loss_and_gradients_of(model, batch):
    loss = model.loss(batch, label_smoothing=0.1)
    return loss.objective, loss.nll, loss.parts, torch.autograd.grad(loss.objective, list(model.parameters()))


@pytest.mark.parametrize("name", slow_except(ONE_OF_EACH_FAMILY, SYSTEMS))
def test_a_batch_of_a_fixed_shape_has_the_loss_of_its_real_positions(name):
    settings = SYSTEMS[name]
    model = random_model(settings).double()
    pairs, longest, rows_of = (40, 12, ()) if isinstance(settings, RecurrentModel) else (140, 30, (40,))
    reader = drawn_reader(settings.model_inputs, pairs=pairs, vocabulary=TARGET_VOCABULARY, median=6, longest=longest)
    (batch,) = RankReader(reader, "cpu", rows_of=rows_of).read(np.arange(pairs), 10**6).batches
    fixed = batch.fixed()
    assert {
        size % 8 for size in (*fixed.source.ids_BS.shape[0 if rows_of else 1 :], *fixed.target.outputs_BT.shape[1:])
    } == {0}
    positions = fixed.target.mask_BT.numel()  # of most packed ones 1,280, with some 950 tokens
    assert len(fixed.target.real_N) == (min(1024, positions) if rows_of else positions)
    assert (fixed.target.weights_N == 0).any()
    expected = loss_and_gradients_of(model, batch)
    torch.testing.assert_close(loss_and_gradients_of(model, fixed), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", slow_except(ONE_OF_EACH_FAMILY, SYSTEMS))
def test_a_system_repeats_its_kernels(name, monkeypatch):
    """The second batch of a shape is captured, and later ones replayed: an update of other pairs, which read and write
    the tensors of the second one, as on a CPU without fixed shapes."""
    settings = SYSTEMS[name]
    reader = drawn_reader(settings.model_inputs, pairs=20, vocabulary=TARGET_VOCABULARY, median=4, longest=7)
    parts = [np.arange(20)[number % 4 :: 4] for number in range(5)]
    loss, computed = type(random_model(settings)).loss, []
    monkeypatch.setattr(
        type(random_model(settings)), "loss", lambda *batch, **how: computed.append(0) or loss(*batch, **how)
    )

    def train(device):
        training = settings_of_paper(settings, clip_norm=None)  # which would hide a wrong factor
        trainer = Trainer(random_model(settings).double().to(device), reader, training)
        objectives = [trainer.update(number, rows).objective for number, rows in enumerate(parts, 1)]
        return torch.tensor(objectives, dtype=torch.float64), list(trainer.model.parameters())

    with PretendedGpu():
        objectives, weights = train(GPU)
        there = objectives, [one.detach().cpu() for one in weights]
    assert len(computed) == 2
    objectives, weights = train(CPU)
    expected = objectives, [one.detach() for one in weights]
    torch.testing.assert_close(there, expected, rtol=1e-12, atol=1e-9)  # Adam divides gradients that are nearly 0


def test_a_capture_that_fails_is_a_warning(monkeypatch, caplog):
    settings = SYSTEMS["dl4mt"]
    reader = drawn_reader(settings.model_inputs, pairs=20, vocabulary=TARGET_VOCABULARY, median=4, longest=7)
    loss = Dl4mt.loss

    def asking(self, batch, *, label_smoothing):
        value = loss(self, batch, label_smoothing=label_smoothing)
        assert math.isfinite(value.nll)
        return value

    monkeypatch.setattr(Dl4mt, "loss", asking)
    with PretendedGpu():
        trainer = Trainer(random_model(settings).to(GPU), reader, settings_of_paper(settings))
        results = [trainer.update(number, np.arange(20)[number % 4 :: 4]) for number in range(1, 5)]
    assert not any(result.skipped for result in results)
    assert [record.getMessage() for record in caplog.records if "no CUDA graphs" in record.getMessage()] == [
        "train_model: no CUDA graphs, so this training is slower: operation not permitted when stream is capturing: "
        "_local_scalar_dense"
    ]


def test_a_capture_that_runs_out_of_memory_concerns_its_shape_alone(monkeypatch, caplog):
    settings = SYSTEMS["dl4mt"]
    reader = drawn_reader(settings.model_inputs, pairs=20, vocabulary=TARGET_VOCABULARY, median=4, longest=7)
    loss, computed, captured = Dl4mt.loss, [], []

    def short_of_memory(self, batch, *, label_smoothing):
        rows = len(batch.rows)
        computed.append(rows)
        if gpu.graph is not None:
            captured.append(rows)
            if rows == 5:
                raise torch.OutOfMemoryError
        return loss(self, batch, label_smoothing=label_smoothing)

    monkeypatch.setattr(Dl4mt, "loss", short_of_memory)
    with PretendedGpu() as gpu:
        trainer = Trainer(random_model(settings).to(GPU), reader, settings_of_paper(settings))
        results = [trainer.update(number, np.arange(rows)) for number, rows in enumerate([5, 5, 5, 3, 3, 3], 1)]
    assert not any(result.skipped for result in results)
    assert captured == [5, 3]
    assert computed == [5, 5, 5, 5, 3, 3]  # the second of five rows twice, the last of three by a replay
    assert len([record for record in caplog.records if "memory ran out" in record.getMessage()]) == 1


@pytest.mark.parametrize("name", ["transformer", "phrasal 1-2", "dl4mt"])
def test_the_capacity_holds_a_whole_update_and_little_more(name):
    settings = SYSTEMS[name]
    reader = drawn_reader(settings.model_inputs, pairs=300, vocabulary=TARGET_VOCABULARY, median=30, longest=60)
    training = settings_of_paper(settings)
    tried = []
    with PretendedGpu():
        trainer = Trainer(random_model(settings).to(GPU), reader, training)
        trainer._memory_needed = lambda batch: tried.append(batch.target.inputs_BT.numel()) or 0
        plan = plan_of_updates(training, reader.examples)
        trainer.find_capacity(plan)
        assert all(len(trainer.rank_reader.read(rows, trainer.capacity).batches) == 1 for rows in plan.epoch(0))
        shapes = [trainer.rank_reader.positions(rows) for rows in plan.epoch(0)]
    assert max(shapes) <= trainer.capacity == max(max(shapes) * 9 // 8, training.training.max_length + 2)
    # At most 7 rows more, or 8 positions a pair.
    rounded = 7 * 128 if trainer.rank_reader.rows_of else trainer.capacity // plan.longest(1)[1] * 8
    assert 0.5 * trainer.capacity <= tried[0] <= trainer.capacity + rounded


def test_searches(settings, reader):
    if not settings.translates:
        pytest.skip("a language model does not search")
    with PretendedGpu() as gpu:
        model = random_model(settings).to(GPU)
        gpu.reset()
        translate_split(model, reader, Decoding(beam=4, n_best=2, **SHORT))
        assert_waits(gpu, (STEP, STEPS), (SEARCH, 1))
        translate_split(model, reader, Decoding(beam=3, precision="bfloat16", **SHORT))


def test_forced_decoding(settings, reader):
    with PretendedGpu():
        batch = reader(range(8)).to(GPU)
        for attention, weights_BhQNK in force(random_model(settings).to(GPU), batch).attentions:
            AttentionStatistics(attention).add(weights_BhQNK, batch.masks[AXES[attention.place][0]])


def test_what_a_real_gpu_refuses():
    with PretendedGpu() as gpu:
        here, there = torch.ones(3), torch.ones(3, device="cuda")
        assert (there[1:] * torch.tensor(2.0)).device == GPU
        for operation in (lambda: here + there, lambda: torch.where(there > 0, there, here), lambda: there.numpy()):
            with pytest.raises(DeviceMixError):
                operation()
        assert not gpu.waits
