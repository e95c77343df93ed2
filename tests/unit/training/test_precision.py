"""bfloat16 on devices with and without units for it."""

from __future__ import annotations

from contextlib import nullcontext
from types import MappingProxyType

import pytest
import torch
from drawn_pairs import drawn_reader
from small_systems import SYSTEMS, TARGET_VOCABULARY, random_model
from trainings import assert_equal_runs, run, settings_of

from phrasemt.nn.layers import CPU_FORMS, without_cpu_forms
from phrasemt.nn.precision import matrices_of_layers, rounded_to_bfloat16, usable_precision

CPU = torch.device("cpu")


@pytest.fixture
def cpu_with(monkeypatch):
    """Lets torch find these features in the CPU."""

    def features(*names):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: MappingProxyType(dict.fromkeys(names, True)))

    return features


@pytest.mark.parametrize(
    ("features", "usable"),
    [(["avx2"], "float32"), (["avx512_f", "avx512_bf16"], "bfloat16"), (["amx_bf16"], "bfloat16")],
    ids=["AVX2", "AVX-512", "AMX"],
)
def test_bfloat16_needs_units(cpu_with, features, usable):
    cpu_with(*features)
    assert usable_precision("bfloat16", CPU) == usable
    assert usable_precision("float32", CPU) == "float32"


@pytest.mark.parametrize(("units", "usable"), [(True, "bfloat16"), (False, "float32")])
def test_bfloat16_that_a_gpu_emulates_is_not_used(monkeypatch, units, usable):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or units)
    assert usable_precision("bfloat16", torch.device("cuda")) == usable


def test_without_units_bfloat16_trains_in_float32_and_says_so(tiny_data, tmp_path, cpu_with, caplog):
    cpu_with("avx2")
    exact = run(tiny_data, tmp_path / "float32", settings_of(precision="float32"))
    assert "no units" not in caplog.text
    without = run(tiny_data, tmp_path / "bfloat16", settings_of(precision="bfloat16"))
    assert_equal_runs(exact, without)
    assert without[0]["precision"] == "float32"
    assert "this CPU has no units for bfloat16, so the training computes in float32" in caplog.text


def test_with_units_bfloat16_trains_in_bfloat16(tiny_data, tmp_path, cpu_with, caplog):
    cpu_with("avx512_bf16")
    exact = run(tiny_data, tmp_path / "float32", settings_of(precision="float32"))
    rounded = run(tiny_data, tmp_path / "bfloat16", settings_of(precision="bfloat16"))
    assert rounded[0]["precision"] == "bfloat16"
    weights, others = exact[1][-1], rounded[1][-1]
    assert any(not torch.equal(weights[name], others[name]) for name in weights)
    assert "no units" not in caplog.text


@pytest.mark.parametrize(
    "system",
    ["transformer", "+Max+Attn+TA", "xu-code", "relative positions", "phrasal 1-2-3-4", "language model", "bi-scale"],
)
def test_matrices_that_are_rounded_together_give_the_numbers_of_autocast_to_the_bit(system):
    model = random_model(SYSTEMS[system]).train()
    reader = drawn_reader(SYSTEMS[system].model_inputs, pairs=12, vocabulary=TARGET_VOCABULARY, median=7, longest=14)
    parameters = dict(model.named_parameters())
    found = []
    for together in (nullcontext(), rounded_to_bfloat16(matrices_of_layers(model))):
        torch.manual_seed(1)
        with without_cpu_forms(*CPU_FORMS), torch.autocast("cpu", torch.bfloat16), together:
            loss = model.loss(reader(range(12)), label_smoothing=0.1).objective
        found.append([loss, *torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)])
    assert all(map(torch.equal, *found))
    assert all(one is parameters[name] for name, one in model.named_parameters())
