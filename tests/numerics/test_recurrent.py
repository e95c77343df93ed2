"""Witness: torch's own GRU with the same weights, float64: 1e-12; the initial distributions by hand."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phrasemt.nn.recurrent import AdditiveAttention, BidirectionalEncoder, GruCell, Readout, RecurrentEmbedding
from phrasemt.nn.unrolled import ENERGIES_AT_ONCE, LinearSteps
from phrasemt.study.architectures import Dl4mtModel

EXACT = {"rtol": 0, "atol": 1e-12}


def with_random_biases(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter)
        else:
            nn.init.normal_(parameter, std=0.4)
    return module.double()


def copied(cell: GruCell, twin: nn.Module, suffix: str = "") -> None:
    """Copy the cell's weights to torch's GRU; the bias that the cell does not have is 0."""
    for theirs, ours in (
        ("weight_ih", cell.input_3HI),
        ("weight_hh", cell.hidden_3HH),
        ("bias_ih", cell.input_bias_3H),
        ("bias_hh", cell.hidden_bias_3H),
    ):
        getattr(twin, theirs + suffix).data.copy_(torch.zeros(1) if ours is None else ours)


@pytest.mark.parametrize("bias", ["input", "hidden"])
def test_cell_equals_torchs(bias):
    """States and all gradients over three steps."""
    torch.manual_seed(2)
    cell, twin = with_random_biases(GruCell(5, 7, deviation=0.01, bias=bias)), nn.GRUCell(5, 7).double()
    copied(cell, twin)
    x_TBI = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    h_BH = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    weights_TBH = torch.randn(3, 4, 7, dtype=torch.float64)

    step, ours, theirs = cell.unroll(), [h_BH], [h_BH]
    for projected, x in zip(cell.project(x_TBI).unbind(0), x_TBI, strict=True):
        ours.append(step(projected, ours[-1]))
        theirs.append(twin(x, theirs[-1]))
    torch.testing.assert_close(torch.stack(ours), torch.stack(theirs), **EXACT)

    parameters = {"weight_ih": cell.input_3HI, "weight_hh": cell.hidden_3HH}
    parameters["bias_ih" if bias == "input" else "bias_hh"] = next(p for p in cell.parameters() if p.ndim == 1)
    got = torch.autograd.grad((torch.stack(ours[1:]) * weights_TBH).sum(), [x_TBI, h_BH, *parameters.values()])
    expected = torch.autograd.grad(
        (torch.stack(theirs[1:]) * weights_TBH).sum(), [x_TBI, h_BH, *(getattr(twin, name) for name in parameters)]
    )
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_projecting_inputs_in_the_loop_or_before_it_is_the_same():
    torch.manual_seed(2)
    cell = with_random_biases(GruCell(5, 7, deviation=0.01, bias="hidden"))
    x_TBI = torch.randn(3, 4, 5, dtype=torch.float64)
    step = cell.unroll()
    inside = torch.stack([step.project(x) for x in x_TBI])
    torch.testing.assert_close(inside, cell.project(x_TBI), **EXACT)
    weights = torch.randn_like(inside)
    (got,) = torch.autograd.grad((inside * weights).sum(), cell.input_3HI)
    (expected,) = torch.autograd.grad((cell.project(x_TBI) * weights).sum(), cell.input_3HI)
    torch.testing.assert_close(got, expected, **EXACT)


def test_gradients_of_some_steps_only():
    """The last state is not used; and one backward pass asks for the gradient of the inputs only."""
    torch.manual_seed(2)
    weight_OI = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    x_TBI = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    linear = LinearSteps(weight_OI)
    outputs = [linear(x_BI) for x_BI in x_TBI.unbind(0)]
    total = outputs[0].sum() + 2 * outputs[1].sum()
    (d_x_TBI,) = torch.autograd.grad(total, x_TBI, retain_graph=True)
    (d_weight_OI,) = torch.autograd.grad(total, weight_OI)
    scale_T11 = torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64)[:, None, None]
    torch.testing.assert_close(d_x_TBI, scale_T11 * weight_OI.sum(0).expand_as(x_TBI), **EXACT)
    torch.testing.assert_close(d_weight_OI, (scale_T11 * x_TBI).sum((0, 1)).expand(7, -1), **EXACT)


def test_a_graph_is_freed_without_the_garbage_collector():
    """Steps, notes and weights must have no reference cycle, which would keep the tensors of a whole batch."""
    cell, attention = GruCell(5, 7, deviation=0.01), AdditiveAttention(7, 10, 9, deviation=0.01)
    memory = attention.project_memory(torch.randn(4, 6, 10, requires_grad=True), torch.ones(4, 6, dtype=torch.bool))
    step, attend = cell.unroll(), attention.unroll(memory)
    h_BH = step(cell.project(torch.randn(4, 5)), step(step.project(torch.randn(4, 5)), torch.randn(4, 7)))
    context_BC = attend(h_BH)
    context_BC.sum().backward()
    alive = [weakref.ref(node) for node in (step._operation, attend._operation)]
    gc.disable()
    try:
        del step, attend, h_BH, context_BC
        assert [reference() for reference in alive] == [None, None]
    finally:
        gc.enable()


def test_steps_may_be_taken_and_differentiated_more_than_once():
    torch.manual_seed(2)
    cell = with_random_biases(GruCell(5, 7, deviation=0.01))
    x_BI, h_BH = torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 7, dtype=torch.float64)
    step = cell.unroll()
    total = step(cell.project(x_BI), step(cell.project(x_BI), h_BH)).sum()
    (first,) = torch.autograd.grad(total, cell.hidden_3HH, retain_graph=True)
    (second,) = torch.autograd.grad(total, cell.hidden_3HH)
    assert torch.equal(first, second)


def test_encoder_equals_torchs_with_packing():
    torch.manual_seed(3)
    encoder = with_random_biases(BidirectionalEncoder(5, 7, deviation=0.01))
    twin = nn.GRU(5, 7, batch_first=True, bidirectional=True).double()
    copied(encoder.forward_cell, twin, "_l0")
    copied(encoder.backward_cell, twin, "_l0_reverse")
    lengths = torch.tensor([4, 6, 1, 3])
    mask_BS = torch.arange(6) < lengths[:, None]
    x_BSI = torch.randn(4, 6, 5, dtype=torch.float64, requires_grad=True)

    packed, _ = twin(pack_padded_sequence(x_BSI, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    got = encoder(x_BSI, mask_BS)
    torch.testing.assert_close(got[mask_BS], expected[mask_BS], **EXACT)

    weights = torch.randn_like(expected[mask_BS])
    (expected_gradient,) = torch.autograd.grad((expected[mask_BS] * weights).sum(), x_BSI)
    (gradient,) = torch.autograd.grad((got[mask_BS] * weights).sum(), x_BSI)
    torch.testing.assert_close(gradient, expected_gradient, **EXACT)


@pytest.fixture
def attended():
    """Attention of three sentences of 6, 2 and 4 words."""
    torch.manual_seed(4)
    attention = with_random_biases(AdditiveAttention(7, 10, 9, deviation=0.01))
    states_BSC = torch.randn(3, 6, 10, dtype=torch.float64, requires_grad=True)
    mask_BS = torch.arange(6) < torch.tensor([[6], [2], [4]])
    return attention, states_BSC, mask_BS


def context(attention, query_I, states_SC):
    """The equation for one query."""
    scores = [
        attention.score.weight[0] @ torch.tanh(attention.query_AI @ query_I + attention.key(state))
        + attention.score.bias[0]
        for state in states_SC
    ]
    return torch.softmax(torch.stack(scores), 0) @ states_SC


@pytest.mark.parametrize("at_once", [1, 2 * 6 * 9, 2**20], ids=["one", "two", "all"])
@pytest.mark.parametrize("scale", [1.0, 60.0], ids=["usual", "saturated"])
def test_attention_and_its_gradients(scale, at_once, attended, monkeypatch):
    """Several steps on one memory, as in a loop over target positions, some sentences at a time.

    Saturated: tanh is +-1 nearly everywhere.
    """
    monkeypatch.setitem(ENERGIES_AT_ONCE, "cpu", at_once)
    attention, states_BSC, mask_BS = attended
    queries_TBI = torch.randn(3, 3, 7, dtype=torch.float64) * scale
    queries_TBI.requires_grad_()
    weights_TBC = torch.randn(3, 3, 10, dtype=torch.float64)
    variables = [queries_TBI, states_BSC, *attention.parameters()]

    attend = attention.unroll(attention.project_memory(states_BSC, mask_BS))
    ours = torch.stack([attend(query_BI) for query_BI in queries_TBI])
    theirs = torch.stack(
        [
            torch.stack([context(attention, query_I, states_BSC[b, mask_BS[b]]) for b, query_I in enumerate(query_BI)])
            for query_BI in queries_TBI
        ]
    )
    torch.testing.assert_close(ours, theirs, **EXACT)
    got = torch.autograd.grad((ours * weights_TBC).sum(), variables)
    expected = torch.autograd.grad((theirs * weights_TBC).sum(), variables)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11 * scale)
    assert (got[1][~mask_BS] == 0).all()


def test_gradients_in_bfloat16_surroundings():
    """Witness: the same module in float64, whose gradients are torch's (above).

    Products round to 8 bits, three times in a row over two steps: 2^-5 of a gradient's norm. The rest is float32.
    """
    gradients = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(7)
        cell = with_random_biases(GruCell(5, 7, deviation=0.01, bias="hidden"))
        attention = with_random_biases(AdditiveAttention(7, 10, 9, deviation=0.01))
        h_BH, x_BI, states_BSC = (
            torch.randn(shape).to(dtype).requires_grad_() for shape in ((3, 7), (3, 5), (3, 6, 10))
        )
        cell, attention = cell.to(dtype), attention.to(dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            memory = attention.project_memory(states_BSC, torch.arange(6) < torch.tensor([[6], [2], [4]]))
            step, attend = cell.unroll(), attention.unroll(memory)
            first_BH = step(step.project(x_BI), h_BH)
            second_BH = step(step.project(x_BI), first_BH)
            total = attend(first_BH).square().sum() + 2 * attend(second_BH).square().sum()
        variables = [h_BH, x_BI, states_BSC, *cell.parameters(), attention.query_AI, *attention.key.parameters()]
        gradients.append(torch.autograd.grad(total, [*variables, attention.score.weight]))
    for ours, theirs in zip(*gradients, strict=True):
        assert ours.dtype == torch.float32
        assert float((ours - theirs).norm()) < 2**-5 * float(theirs.norm())


def assert_orthogonal(block):
    torch.testing.assert_close(block @ block.T, torch.eye(len(block)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("deviation", [0.01, 0.1])
def test_initial_weights_have_dl4mts_distributions(deviation):
    torch.manual_seed(6)
    cell, square = GruCell(20, 30, deviation=deviation), GruCell(30, 30, deviation=deviation, bias="hidden")
    for block in (*cell.hidden_3HH.chunk(3), *square.hidden_3HH.chunk(3), *square.input_3HI.chunk(3)):
        assert_orthogonal(block)
    settings = Dl4mtModel(family="dl4mt", embedding=40, initial_deviation=deviation)
    readout = Readout(settings, 30, 40)
    assert_orthogonal(readout.weights[1])
    attention = AdditiveAttention(30, 60, 60, deviation=deviation)
    assert_orthogonal(attention.key.weight)
    vectors = RecurrentEmbedding(settings, 70, zero=1)
    assert (vectors.table_VE[1] == 0).all()
    # 600 draws or more determine the standard deviation to about 3 %; five times that is allowed.
    for weight in (*cell.input_3HI.chunk(3), readout.weights[0], attention.query_AI, vectors.table_VE):
        assert abs(float(weight.detach().std()) / deviation - 1) < 0.15
    for module in (cell, square, readout, attention):
        assert all((parameter == 0).all() for parameter in module.parameters() if parameter.ndim == 1)
