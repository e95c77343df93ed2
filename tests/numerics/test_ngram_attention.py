"""Witness: phrasal attention as loops over queries, orders, n-grams and their tokens, straight from the equations.

The reference is numpy in float64, one sentence and head at a time, without masks and padding; n-grams stand at their
first token there, as in the paper. It sums the same numbers in another order: 1e-10.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
import torch
from pretended_cuda import GPU, PretendedGpu
from small_systems import NO_DROPOUT, SMALL, SMALL_LM

from phrasemt.decoding.forced import force
from phrasemt.files.attention import AXES
from phrasemt.models.transformer import Transformer
from phrasemt.nn.attention import recording
from phrasemt.nn.layers import causal_mask, key_mask
from phrasemt.nn.ngram_attention import NgramKeyValueAttention, NgramSelfAttention
from phrasemt.study.architectures import LanguageModel, PhraseRepresentationModel, TransformerModel

D, HEADS, E = 6, 3, 2
ORDERS, SCORES = [1, 2, 3, 4], ["query_kernel", "static", "last_token"]
LENGTHS = [5, 1, 2, 3]  # sources of 1, 2 and 3 positions have no n-grams of some orders


def reference(x, memory, weights, orders, score, *, causal=False):
    """Return the outputs [T, D] and, for each query, the share of n-grams of two and more tokens, mean over heads."""
    blocks = [block.detach().numpy() for block in torch.cat(weights[:-1]).split(D)]
    tokens = [(n, t) for n in range(1, orders + 1) for t in range(n)]
    if score != "static":
        w_q = dict(zip(tokens, blocks, strict=False))
        w_k = blocks[len(tokens)]
    else:
        w_q = blocks[0]
        w_k = dict(zip(tokens, blocks[1:], strict=False))
    w_v = dict(zip(tokens, blocks[-len(tokens) :], strict=True))
    w_o = weights[-1].detach().numpy()
    outputs, masses = [], []
    for i in range(len(x)):
        joined, mass = [], 0.0
        for head in range(HEADS):
            rows = slice(head * E, (head + 1) * E)
            scores, values = {}, {}
            for n in range(1, orders + 1):
                for j in range(len(memory) - n + 1):
                    if causal and j + n - 1 > i:
                        continue
                    score_nj, value_nj = 0.0, np.zeros(E)
                    for t in range(n):
                        if score == "query_kernel":
                            score_nj += (w_q[n, t][rows] @ x[i]) @ (w_k[rows] @ memory[j + t]) / math.sqrt(n * E)
                        elif score == "last_token":
                            last_key = w_k[rows] @ memory[j + n - 1]
                            score_nj += (w_q[n, t][rows] @ x[i]) @ last_key / math.sqrt(n * E)
                        else:
                            score_nj += (w_q[rows] @ x[i]) @ (w_k[n, t][rows] @ memory[j + t]) / math.sqrt(E)
                        value_nj += w_v[n, t][rows] @ memory[j + t]
                    scores[n, j], values[n, j] = score_nj, value_nj
            total = sum(math.exp(s) for s in scores.values())
            joined.append(sum(math.exp(s) / total * values[nj] for nj, s in scores.items()))
            mass += sum(math.exp(s) / total for (n, _), s in scores.items() if n > 1) / HEADS
        outputs.append(w_o @ np.concatenate(joined))
        masses.append(mass)
    return np.array(outputs), np.array(masses)


@pytest.fixture
def sentences():
    """Return a batch whose padding has numbers as large as the real positions."""
    torch.manual_seed(2)
    x_BSD = torch.randn(len(LENGTHS), max(LENGTHS), D, dtype=torch.float64)
    mask_BS = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return x_BSD, mask_BS


def self_attention(ngrams, score, dropout=0.0):
    torch.manual_seed(3)
    return NgramSelfAttention(D, HEADS, dropout, ngrams=ngrams, score=score).double()


def key_value_attention(ngrams, score):
    torch.manual_seed(4)
    return NgramKeyValueAttention(D, HEADS, 0.0, ngrams=ngrams, score=score).double()


def recorded_mass(attention, *inputs):
    """The result of an attention, and the share of attention of each order as mean over the heads [B, T, N]."""
    with recording([attention]) as recorded:
        got = attention(*inputs)
    return got, recorded()[0].sum(-1).mean(1)


@pytest.mark.parametrize("grad", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("ngrams", ORDERS)
def test_self_attention_equals_the_loops(ngrams, score, grad, sentences):
    x_BSD, mask_BS = sentences
    attention = self_attention(ngrams, score)
    weights = attention.query_key_value, attention.output
    for causal in (False, True):
        mask = causal_mask(x_BSD.shape[1], x_BSD.device) if causal else key_mask(mask_BS)
        with torch.set_grad_enabled(grad):
            got, mass = recorded_mass(attention, x_BSD, mask)
        for row, length in enumerate(LENGTHS):
            x = x_BSD[row, :length].numpy()
            expected, phrases = reference(x, x, weights, ngrams, score, causal=causal)
            np.testing.assert_allclose(got[row, :length].detach().numpy(), expected, rtol=0, atol=1e-10)
            np.testing.assert_allclose(mass[row, :length, 1:].sum(-1).detach().numpy(), phrases, rtol=0, atol=1e-10)


@pytest.mark.parametrize("grad", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("ngrams", ORDERS)
def test_attention_to_a_memory_equals_the_loops(ngrams, score, grad, sentences):
    memory_BSD, mask_BS = sentences
    x_BTD = torch.randn(len(LENGTHS), 4, D, dtype=torch.float64)
    attention = key_value_attention(ngrams, score)
    weights = attention.query, attention.key_value, attention.output
    with torch.set_grad_enabled(grad):
        projected = attention.project_memory(memory_BSD)
        got, mass = recorded_mass(attention, x_BTD, projected, key_mask(mask_BS))
    assert all(tensor.shape[1] == len(LENGTHS) for tensor in projected)
    for row, length in enumerate(LENGTHS):
        expected, phrases = reference(x_BTD[row].numpy(), memory_BSD[row, :length].numpy(), weights, ngrams, score)
        np.testing.assert_allclose(got[row].detach().numpy(), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(mass[row, :, 1:].sum(-1).detach().numpy(), phrases, rtol=0, atol=1e-10)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("ngrams", [2, 4])
def test_gradient_equals_finite_differences(ngrams, score, sentences):
    x_BSD, mask_BS = sentences
    x_BSD = x_BSD[:2].requires_grad_()  # 5 positions, and 1 of 5
    of_itself, of_memory = self_attention(ngrams, score), key_value_attention(ngrams, score)
    mask = key_mask(mask_BS[:2])
    assert torch.autograd.gradcheck(lambda x: of_itself(x, mask), x_BSD)
    queries = torch.randn(2, 2, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, x: of_memory(q, of_memory.project_memory(x), mask), (queries, x_BSD))


def test_gradient_with_dropout_equals_finite_differences():
    attention, x = self_attention(2, "query_kernel", 0.4), torch.randn(1, 3, D, dtype=torch.float64, requires_grad=True)

    def same_draws(x):
        torch.manual_seed(8)
        return attention(x, causal_mask(3, x.device))

    assert torch.autograd.gradcheck(same_draws, x)


def test_scores_of_the_last_token_equal_the_papers_where_the_tokens_are_equal():
    """And they have no gradient to the keys of other tokens, while all matrices have one."""
    x = torch.randn(1, 1, D, dtype=torch.float64).expand(1, 5, D).contiguous()
    everything = key_mask(torch.ones(1, 5, dtype=torch.bool))
    ours, papers = self_attention(3, "last_token"), self_attention(3, "query_kernel")
    assert ours.state_dict().keys() == papers.state_dict().keys()
    torch.testing.assert_close(ours(x, everything), papers(x, everything), rtol=0, atol=1e-14)
    x = torch.randn(1, 5, D, dtype=torch.float64, requires_grad=True)
    for attention, sees_others in ((ours, False), (papers, True)):
        queries_BhXW, keys_BhXW, _ = attention.arranged(x)
        trigram_query = queries_BhXW[0, 0, 2].detach()  # the third row of the first position
        (gradient,) = torch.autograd.grad(trigram_query @ keys_BhXW[0, 0, 4], x)
        assert (gradient[0] != 0).any(1).tolist() == [False, False, sees_others, sees_others, True]
    ours(x, everything).square().sum().backward()
    blocks = ours.query_key_value.grad.split(D)
    assert all((block != 0).any(1).all() for block in blocks)


@pytest.mark.parametrize("orders", ORDERS)
def test_one_copy_arranges_all_queries_of_an_order(orders):
    """The matrices of an order are neighbours, and so are their places, for which one kernel of a GPU is enough."""
    attention = NgramKeyValueAttention(D, HEADS, 0.0, ngrams=orders, score="query_kernel")
    with PretendedGpu() as gpu:
        x = torch.randn(2, 5, attention.query_blocks * D, requires_grad=True).to(GPU)
        gpu.reset()
        (queries,) = attention.arrange(x, attention.query_layout)
        queries.sum().backward()
        assert gpu.kernels["copy_"] <= 2 * orders


@pytest.mark.parametrize("score", SCORES)
def test_ngrams_of_all_orders_begin_with_values_of_the_same_variance(score):
    """The variance is 1 for inputs of variance 1. 64 * 64 random weights estimate it: 6 % is four standard errors."""
    torch.manual_seed(1)
    attention = NgramKeyValueAttention(64, 2, 0.0, ngrams=4, score=score)
    _, (values_BhXE,) = attention.project_memory(torch.randn(1, 2000, 64))
    by_order = attention.by_order(values_BhXE)[0, :, :, 3:]  # where every order has its n-gram
    variances = by_order.transpose(0, 1).flatten(1).var(1)
    torch.testing.assert_close(variances, torch.ones(4), rtol=0.06, atol=0)


def test_bfloat16_stays_near_float32():
    """bfloat16 has 8 bits. Products have errors of 2^-8, which the weights average: 0.05 for values near 1."""
    torch.manual_seed(3)
    attention = NgramSelfAttention(24, 3, 0.0, ngrams=3, score="query_kernel")
    x = torch.randn(4, 7, 24, requires_grad=True)
    exact = attention(x, causal_mask(7, x.device))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = attention(x, causal_mask(7, x.device))
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=0, atol=0.05)
    variables = [x, *attention.parameters()]
    found = torch.autograd.grad(rounded.float().square().sum(), variables)
    attention, x = attention.double(), x.detach().double().requires_grad_()
    output = attention(x, causal_mask(7, x.device))
    expected = torch.autograd.grad(output.square().sum(), [x, *attention.parameters()])
    for ours, theirs in zip(found, expected, strict=True):  # some eight roundings of 2^-9
        assert float((ours - theirs).norm()) < 2**-5 * float(theirs.norm())


SOURCES, TARGETS = [4, 0, 1, 7], [5, 2, 0, 3]


@torch.no_grad()
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_unigrams_alone_are_the_transformer(norm, make_model, make_batch):
    settings = TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams", norm=norm, ngrams=1)
    ours, plain = make_model(settings).double(), make_model(TransformerModel(**SMALL, **NO_DROPOUT, norm=norm)).double()
    assert type(plain) is Transformer
    plain.load_state_dict(ours.state_dict())
    batch = make_batch(settings, SOURCES, TARGETS)
    torch.testing.assert_close(ours.log_probs(batch), plain.log_probs(batch), rtol=0, atol=1e-12)
    assert ours.measure([batch])[1] == {"phrase_mass_enc_self": 0, "phrase_mass_dec_self": 0, "phrase_mass_cross": 0}


@pytest.mark.parametrize("family", [TransformerModel, PhraseRepresentationModel, LanguageModel])
def test_phrase_mass_is_that_of_the_recorded_weights(family, make_model, make_batch):
    """The mean over heads, real queries and layers of each place; the loops above witness the weights."""
    settings = family(**(SMALL_LM if family is LanguageModel else SMALL), **NO_DROPOUT, attention="ngrams", ngrams=3)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    masses = defaultdict(list)
    for attention, weights_BhQNK in force(model, batch).attentions:
        if weights_BhQNK.shape[3] == 3:  # attention to phrases has one order
            of_queries_BQ = weights_BhQNK[:, :, :, 1:].sum((-1, -2)).mean(1)
            masses[attention.place] += of_queries_BQ[batch.masks[AXES[attention.place][0]]].tolist()
    with torch.no_grad():
        _, measured = model.measure([batch])
    expected = {f"phrase_mass_{place}": sum(of_place) / len(of_place) for place, of_place in masses.items()}
    assert len(expected) == (3 if settings.translates else 1)
    assert {name: measured[name] for name in measured if name.startswith("phrase_mass")} == pytest.approx(
        expected, abs=1e-10
    )


@torch.no_grad()
def test_phrase_mass_is_the_mean_over_all_queries_of_all_batches(make_model, make_batch):
    """Each sentence alone, in batches of unequal length, has the mass of one batch of all."""
    settings = TransformerModel(**SMALL, **NO_DROPOUT, attention="ngrams")
    model = make_model(settings).double()
    _, together = model.measure([make_batch(settings, SOURCES, TARGETS)])
    _, alone = model.measure([make_batch(settings, SOURCES, TARGETS, only=row) for row in range(len(SOURCES))])
    assert alone == pytest.approx(together, abs=1e-12)
