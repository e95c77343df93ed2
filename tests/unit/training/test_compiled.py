"""Compiled trainings. Witness: the same without a compiler. `aot_eager` has a compiler's graphs and torch's kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_pairs import drawn_reader
from small_systems import PAIRWISE, SYSTEMS, TARGET_VOCABULARY, random_model
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from trainings import settings_of

import phrasemt.training.trainer as trainer_module
from phrasemt.errors import PhrasemtError
from phrasemt.nn.compiling import SWITCH, compiles_on, seconds_of_compiling
from phrasemt.study.schema import Adam
from phrasemt.training.trainer import Trainer

ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1, "layers": 1}
MODELS = {name: SYSTEMS[name] for name in PAIRWISE if random_model(SYSTEMS[name]).positions_in_row}
UPDATES = [(1, range(40)), (2, range(40, 90)), (3, range(90, 110)), (4, range(110, 112)), (5, range(120, 250))]


@pytest.fixture
def train(monkeypatch):
    """A training in float64 of some updates in packed rows. Returns their losses and the weights."""
    monkeypatch.setitem(trainer_module.PACKED, "cpu", True)

    def train(name, switch, *, backend="aot_eager", dropout=0.0, updates=UPDATES, factor=0.1):
        torch._dynamo.reset()
        counters.clear()
        monkeypatch.setenv(SWITCH, switch)
        monkeypatch.setattr(trainer_module, "COMPILER", backend)
        model = MODELS[name]
        changes = ONE_LAYER | {"dropout": dropout, "attn_dropout": dropout}
        model = model.model_copy(update={key: one for key, one in changes.items() if key in type(model).model_fields})
        reader = drawn_reader(model.model_inputs, pairs=250, vocabulary=TARGET_VOCABULARY, median=10, longest=60)
        settings = settings_of(model=model, max_length=62, optimizer=Adam(warmup=10, factor=factor))
        untrained = random_model(model).double()
        untrained.positions_in_row = 64
        trainer = Trainer(untrained, reader, settings)
        losses = [trainer.update(number, np.array(rows)).objective for number, rows in updates]
        # Eq. (4) cancels the bias of Eq. (3): its gradient is rounding alone, which Adam scales up.
        weights = {name: one for name, one in trainer.model.named_parameters() if not name.endswith("score.bias")}
        return losses, weights

    return train


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_one_graph_for_any_number_of_rows_computes_the_same(name, train):
    plain = train(name, "off")
    before = seconds_of_compiling()
    compiled = train(name, "on")
    # Of states and of the loss. Rows of many short phrases may have a graph of their own.
    assert counters["stats"]["unique_graphs"] <= (3 if MODELS[name].model_inputs.phrases else 2)
    assert not counters["graph_break"]
    assert seconds_of_compiling() > before
    torch.testing.assert_close(compiled, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_seed_and_update_decide_dropout(train):
    updates = [(number, range(50)) for number in (1, 1, 2)]
    (first, again, second), _ = train("transformer", "on", dropout=0.3, updates=updates, factor=1e-9)
    assert again == pytest.approx(first, rel=1e-6)
    assert second != pytest.approx(first, rel=1e-3)


def test_the_control_without_phrases_is_compiled(train, caplog):
    train("no phrases", "on", backend="eager", updates=UPDATES[:1])
    assert counters["stats"]["unique_graphs"] == 2
    assert "the compiler of torch fails" not in caplog.text


def fails(*_):
    raise RuntimeError("no Triton here\nsecond line")


FAILS_BACKWARD = aot_autograd(fw_compiler=lambda graph, _: graph, bw_compiler=fails)


@pytest.mark.parametrize("backend", [fails, pytest.param(FAILS_BACKWARD, marks=pytest.mark.slow)])
def test_a_failing_compiler_is_one_warning(backend, train, caplog):
    updates = [(1, range(40)), (2, range(40, 90))]
    plain = train("transformer", "off", updates=updates)
    failed = train("transformer", "on", updates=updates, backend=backend)
    torch.testing.assert_close(failed, plain, rtol=0, atol=0)
    (warning,) = [record.message for record in caplog.records if "compiler" in record.message]
    assert "no Triton here" in warning


def test_the_switch(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    assert not compiles_on(torch.device("cpu"))
    monkeypatch.setenv(SWITCH, "yes")
    with pytest.raises(PhrasemtError, match=rf"{SWITCH}: .* \(expected auto, on or off, found yes\)"):
        compiles_on(torch.device("cpu"))
