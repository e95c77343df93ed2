"""Witness: torch.nn.functional.cross_entropy, whose label_smoothing=a puts a/V on every word, in float64.

1-e on the reference and e/(V-1) elsewhere is the same with a = e*V/(V-1). Tolerance: rounding of sums, 1e-12 relative.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from pretended_cuda import PretendedGpu

from phrasemt.nn import losses
from phrasemt.nn.losses import log_probabilities, reference_log_probabilities, smoothed_cross_entropy

TOKENS, WIDTH, VOCABULARY = 7, 5, 11


@pytest.fixture(params=["all at once", "some at a time"])
def pieces(request, monkeypatch):
    """The loss is computed in slices of tokens. The size of the slices must not change the result."""
    if request.param == "some at a time":
        monkeypatch.setitem(losses.LOGITS_AT_ONCE, "cpu", 2 * VOCABULARY)


@pytest.fixture
def example():
    torch.manual_seed(2)
    states = torch.randn(TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    table = torch.randn(VOCABULARY, WIDTH, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(VOCABULARY, dtype=torch.float64, requires_grad=True)
    return states, table, bias, torch.randint(VOCABULARY, (TOKENS,))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("with_bias", [True, False])
def test_value_and_gradients(example, smoothing, with_bias):
    states, table, bias, references = example
    leaves = [states, table, bias] if with_bias else [states, table]
    ours = smoothed_cross_entropy(states, table, bias if with_bias else None, references, smoothing)
    logits = F.linear(states, table, bias if with_bias else None)
    spread = smoothing * VOCABULARY / (VOCABULARY - 1)
    theirs = F.cross_entropy(logits, references, label_smoothing=spread, reduction="sum")
    torch.testing.assert_close(ours.objective, theirs, rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.nll, F.cross_entropy(logits, references, reduction="sum"), rtol=1e-12, atol=0)
    for our_gradient, their_gradient in zip(
        torch.autograd.grad(3 * ours.objective, leaves), torch.autograd.grad(3 * theirs, leaves), strict=True
    ):
        torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("pieces")
def test_log_probabilities(example):
    states, table, bias, references = example
    expected = torch.log_softmax(states @ table.T + bias, dim=-1)
    torch.testing.assert_close(log_probabilities(states, table, bias), expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(
        reference_log_probabilities(states, table, bias, references),
        expected[torch.arange(TOKENS), references],
        rtol=0,
        atol=1e-13,
    )


def test_a_hopeless_reference_has_a_finite_loss(example):
    """The logarithm of a probability below the smallest float32 stays finite."""
    states, table, bias, references = (tensor.detach() for tensor in example)
    loss = smoothed_cross_entropy(states.float() * 1000, table.float(), bias.float(), references, 0.1)
    assert torch.isfinite(loss.objective)
    assert loss.nll > 1000


MANY, WIDE, WORDS = 1300, 16, 300


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
# The share of references to which the model gives a high probability: none, most, all.
@pytest.mark.parametrize("certainty", [0.0, 8.0, 14.0])
def test_in_bfloat16_surroundings(monkeypatch, certainty, smoothing, with_bias):
    """The last slice is smaller than the others. Witness: float64 on logits that are rounded to 8 bits.

    The relative error of each probability is 2^-9, and so is the relative error of the gradients as vectors.
    """
    monkeypatch.setitem(losses.LOGITS_AT_ONCE, "cpu", 500 * WORDS)
    torch.manual_seed(1)
    references = torch.randint(WORDS, (MANY,))
    table, bias = torch.randn(WORDS, WIDE).bfloat16(), (torch.randn(WORDS) - 10 * with_bias).bfloat16()
    states = torch.randn(MANY, WIDE) + certainty * table[references].float() / WIDE
    leaves = [states.bfloat16().float(), table.float(), *([bias.float()] if with_bias else [])]
    for leaf in leaves:
        leaf.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        ours = smoothed_cross_entropy(leaves[0], leaves[1], leaves[2] if with_bias else None, references, smoothing)
    assert ours.objective.dtype == ours.nll.dtype == torch.float32
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    logits = F.linear(*exact)
    # The values of rounded logits with the gradient of exact logits.
    logits = logits + (logits.detach().bfloat16().double() - logits.detach())
    spread = smoothing * WORDS / (WORDS - 1)
    objective = F.cross_entropy(logits, references, label_smoothing=spread, reduction="sum")
    nll = F.cross_entropy(logits, references, reduction="sum")
    assert float(ours.objective.detach()) == pytest.approx(float(objective.detach()), rel=2**-8, abs=1e-3)
    assert float(ours.nll) == pytest.approx(float(nll.detach()), rel=2**-8)
    found, expected = torch.autograd.grad(3 * ours.objective, leaves), torch.autograd.grad(3 * objective, exact)
    for ours_, theirs in zip(found, expected, strict=True):
        assert ours_.dtype == torch.float32
        assert float((ours_ - theirs).norm()) < 2**-7 * float(theirs.norm())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_hopeless_reference_in_bfloat16_surroundings(device):
    """The probability underflows in bfloat16. Its logarithm is as exact as the logits; a GPU waits for nothing."""
    torch.manual_seed(1)
    states, table = torch.randn(300, 8).bfloat16().float() * 100, torch.randn(11, 8).bfloat16().float()
    references = (states @ table.T).argmin(1)
    references[::3] = 4  # some probabilities do not underflow
    with PretendedGpu() as gpu, torch.autocast(device, torch.bfloat16):
        inputs = [x.to(device) for x in (states, table)]
        gpu.reset()
        ours = smoothed_cross_entropy(*inputs, None, references.to(device, non_blocking=True), 0.1).nll
        assert not gpu.waits
    ours = torch.as_tensor(ours.numpy())
    theirs = F.cross_entropy((states.double() @ table.double().T), references, reduction="sum")
    assert float(theirs) > 200 * 87
    assert float(ours) == pytest.approx(float(theirs), rel=2**-7)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_no_tokens(precision):
    states, table = torch.empty(0, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        loss = smoothed_cross_entropy(states, table, None, torch.empty(0, dtype=torch.int64), 0.1)
    assert (float(loss.objective.detach()), float(loss.nll)) == (0, 0)
    _, gradient = torch.autograd.grad(loss.objective, [states, table])
    assert (gradient == 0).all()


def test_no_gradient_is_made_when_none_is_wanted(example):
    with torch.no_grad():
        loss = smoothed_cross_entropy(*example, 0.1)
    assert not loss.objective.requires_grad
    assert torch.isfinite(loss.objective)
