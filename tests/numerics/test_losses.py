"""Witness: torch.nn.functional.cross_entropy, whose label_smoothing=a puts a/V on every word, in float64.

1-e on the reference and e/(V-1) elsewhere is the same with a = e*V/(V-1). Tolerance: rounding of sums, 1e-12 relative.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from phrasemt.nn import losses
from phrasemt.nn.losses import log_probabilities, reference_log_probabilities, smoothed_cross_entropy

TOKENS, WIDTH, VOCABULARY = 7, 5, 11


@pytest.fixture(params=["all at once", "some at a time"])
def pieces(request, monkeypatch):
    """Tokens are worked off in pieces; no piece size may matter."""
    if request.param == "some at a time":
        monkeypatch.setitem(losses.LOGITS_AT_ONCE, "cpu", 2 * VOCABULARY)
        monkeypatch.setitem(losses.PROBABILITIES_AT_ONCE, "cpu", 3 * VOCABULARY)


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


def test_smoothed_distribution_written_out(example):
    """-sum_v q_v log p_v with q = 1-e on the reference and e/(V-1) on each other word."""
    states, table, bias, references = example
    log_probs = torch.log_softmax(states @ table.T + bias, dim=-1).detach()
    expected = 0.0
    for token in range(TOKENS):
        for word in range(VOCABULARY):
            share = 0.9 if word == references[token] else 0.1 / (VOCABULARY - 1)
            expected -= share * float(log_probs[token, word])
    ours = smoothed_cross_entropy(states, table, bias, references, 0.1).objective
    assert float(ours.detach()) == pytest.approx(expected, rel=1e-12)


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
    """Probabilities below the smallest float32 must not become log 0."""
    states, table, bias, references = (tensor.detach() for tensor in example)
    loss = smoothed_cross_entropy(states.float() * 1000, table.float(), bias.float(), references, 0.1)
    assert torch.isfinite(loss.objective)
    assert loss.nll > 1000


def test_float32_sums_in_bfloat16_surroundings(example):
    """Products have 8 bits then: 2^-8 of logits of size about 5. The sums are float32 and so are the gradients."""
    states, table, bias, references = (t.detach().float() if t.is_floating_point() else t for t in example)
    table.requires_grad_()
    exact = smoothed_cross_entropy(states, table, bias, references, 0.1)
    (expected_gradient,) = torch.autograd.grad(exact.objective, table)
    with torch.autocast("cpu", torch.bfloat16):
        loss = smoothed_cross_entropy(states, table, bias, references, 0.1)
    assert loss.objective.dtype == loss.nll.dtype == torch.float32
    torch.testing.assert_close(loss.objective, exact.objective, rtol=0.02, atol=0)
    (gradient,) = torch.autograd.grad(loss.objective, table)
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=0.05)


def test_no_gradient_is_made_when_none_is_wanted(example):
    with torch.no_grad():
        loss = smoothed_cross_entropy(*example, 0.1)
    assert not loss.objective.requires_grad
    assert torch.isfinite(loss.objective)
