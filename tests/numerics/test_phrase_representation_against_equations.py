"""Witness: the equations of Xu et al. (2020) as plain loops over sentences, phrases, tokens and heads, in float64.

The reference reads nothing but the weights and the equations (docs, science 1.3), one sentence at a time, without masks
and padding. It sums the same numbers in another order: 1e-10.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_systems import NO_DROPOUT, SHORT_PHRASES, SMALL

from phrasemt.architectures import PhraseRepresentationModel
from phrasemt.batching.batch import Phrases
from phrasemt.models.phrase_representation import Memory, PhrasePooling

SOURCES, TARGETS = [3, 0, 9, 1], [6, 2, 0, 5]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(scores):
    exponentials = [math.exp(score - max(scores)) for score in scores]
    return [exponential / sum(exponentials) for exponential in exponentials]


class Reference:
    def __init__(self, model, settings):
        self.settings = settings
        self.weights = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def __getitem__(self, name):
        return self.weights[name]

    def embed(self, ids, table):
        d = self.settings.width
        vectors = []
        for position, word in enumerate(ids):
            angles = [position / 10000 ** (2 * (column // 2) / d) for column in range(d)]
            waves = [math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)]
            vectors.append(math.sqrt(d) * self[table][word] + np.float32(waves).astype(float))
        return vectors

    def layer_norm(self, x, name):
        normalised = (x - x.mean()) / math.sqrt(((x - x.mean()) ** 2).mean() + 1e-6)
        return normalised * self[f"{name}.norm.weight"] + self[f"{name}.norm.bias"]

    def attention(self, queries, memory, name, own, *, causal=False):
        """MHA, query by query, head by head, key by key."""
        d, heads = self.settings.width, self.settings.heads
        e = d // heads
        if own:
            w_q, w_k, w_v = np.split(self[f"{name}.query_key_value"], 3)
        else:
            w_q, (w_k, w_v) = self[f"{name}.query"], np.split(self[f"{name}.key_value"], 2)
        outputs = []
        for i, query in enumerate(queries):
            usable = memory[: i + 1] if causal else memory
            joined = []
            for head in range(heads):
                rows = slice(head * e, (head + 1) * e)
                weights = softmax([(w_q[rows] @ query) @ (w_k[rows] @ key) / math.sqrt(e) for key in usable])
                joined.append(sum(w * (w_v[rows] @ value) for w, value in zip(weights, usable, strict=True)))
            outputs.append(self[f"{name}.output"] @ np.concatenate(joined))
        return outputs

    def ffn(self, x, name):
        inner = np.maximum(0, self[f"{name}.inner.weight"] @ x + self[f"{name}.inner.bias"])
        return self[f"{name}.outer.weight"] @ inner + self[f"{name}.outer.bias"]

    def phrases(self, x):
        """Where phrases are: n_tok = max(min(ntok_max, ceil(L / ntok_div)), ntok_min) tokens each."""
        rule = self.settings.phrase
        n_tok = max(min(rule.ntok_max, math.ceil(len(x) / rule.ntok_div)), rule.ntok_min)
        return [x[first : first + n_tok] for first in range(0, len(x), n_tok)]

    def pool(self, x, name):
        represented = []
        for phrase in self.phrases(x):
            if self.settings.glance == "max":
                glance = np.array([max(token[c] for token in phrase) for c in range(self.settings.width)])  # (2)
            else:
                glance = sum(phrase) / len(phrase)
            if self.settings.pool == "glance":
                represented.append(glance)
                continue
            w1, b1 = self[f"{name}.hidden.weight"], self[f"{name}.hidden.bias"]
            w2, b2 = self[f"{name}.score.weight"][0], self[f"{name}.score.bias"][0]
            scores = [w2 @ sigmoid(w1 @ np.concatenate((token, glance)) + b1) + b2 for token in phrase]  # (3)
            weights = softmax(scores)  # (4)
            represented.append(sum(w * token for w, token in zip(weights, phrase, strict=True)))  # (5)
        return represented

    def combine(self, x, phrases, layer):
        attended = self.attention(x, phrases, f"{layer}.combination.attention", own=False)  # (7)
        combined = []
        for x_i, a_i in zip(x, attended, strict=True):
            w3, b3 = self[f"{layer}.combination.hidden.weight"], self[f"{layer}.combination.hidden.bias"]
            w4, b4 = self[f"{layer}.combination.output.weight"], self[f"{layer}.combination.output.bias"]
            o_i = w4 @ sigmoid(w3 @ np.concatenate((x_i, a_i)) + b3) + b4  # (8)
            combined.append(self.layer_norm(x_i + o_i, f"{layer}.around_combination"))
        return combined

    def residual(self, x, outputs, name):
        return [self.layer_norm(x_i + o_i, name) for x_i, o_i in zip(x, outputs, strict=True)]

    def log_probs(self, source, inputs, outputs):
        x = self.embed(source, "words.source_table_VD")
        levels = []
        for k in range(self.settings.encoder_layers):
            layer = f"encoder.{k}"
            levels.append(self.pool(x, f"{layer}.pooling"))
            x = self.combine(x, levels[-1], layer)
            x = self.residual(x, self.attention(x, x, f"{layer}.attention", own=True), f"{layer}.around_attention")
            x = self.residual(x, [self.ffn(x_i, f"{layer}.ffn") for x_i in x], f"{layer}.around_ffn")
        levels.append(self.pool(x, "last_pooling"))

        y = self.embed(inputs, "words.target_table_VD")
        for j in range(self.settings.decoder_layers):
            layer = f"decoder.{j}"
            phrases = levels[-1]
            if self.settings.ta == "on":
                mixture = softmax(list(self["transparent_attention.weights"][:, j]))  # (6)
                phrases = [sum(mixture[i] * levels[i][p] for i in range(len(levels))) for p in range(len(levels[0]))]
            past = self.attention(y, y, f"{layer}.attention", own=True, causal=True)
            y = self.residual(y, past, f"{layer}.around_attention")
            y = self.combine(y, phrases, layer)
            seen = self.attention(y, x, f"{layer}.source_attention", own=False)
            y = self.residual(y, seen, f"{layer}.around_source_attention")
            y = self.residual(y, [self.ffn(y_i, f"{layer}.ffn") for y_i in y], f"{layer}.around_ffn")
        scores = []
        for y_i, word in zip(y, outputs, strict=True):
            logits = self["words.target_table_VD"] @ y_i + self["words.softmax_bias_V"]
            scores.append(logits[word] - logits.max() - math.log(np.exp(logits - logits.max()).sum()))
        return scores


@pytest.mark.parametrize("ta", ["off", "on"])
@pytest.mark.parametrize("pool", ["glance", "attn"])
@pytest.mark.parametrize("glance", ["max", "mean"])
def test_log_probabilities(glance, pool, ta, make_model, make_batch):
    settings = PhraseRepresentationModel(
        **SMALL,
        **NO_DROPOUT,
        phrase=SHORT_PHRASES,
        glance=glance,
        pool=pool,
        ta=ta,
        combine_hidden=2.5,
        score_hidden=1.5 if pool == "attn" else 1.0,
    )
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    reference = Reference(model, settings)
    got = model.log_probs(batch)
    for row in range(len(SOURCES)):
        source = batch.source.ids_BS[row, : SOURCES[row] + 1].tolist()
        length = TARGETS[row] + 1
        inputs, outputs = (ids[row, :length].tolist() for ids in (batch.target.inputs_BT, batch.target.outputs_BT))
        expected = torch.tensor(reference.log_probs(source, inputs, outputs), dtype=torch.float64)
        torch.testing.assert_close(got[row, :length], expected, rtol=0, atol=1e-10)


def levels_and_memory(model, batch) -> tuple[list[torch.Tensor], Memory]:
    """The phrases of all encoder levels, read off the pooling modules."""
    levels: list[torch.Tensor] = []
    poolings = [layer.pooling for layer in model.encoder] + [model.last_pooling]
    handles = [pooling.register_forward_hook(lambda _m, _i, output: levels.append(output)) for pooling in poolings]
    memory = model.encode(batch.source)
    for handle in handles:
        handle.remove()
    return levels, memory


@torch.no_grad()
@pytest.mark.parametrize("level", [0, 1, 2])
def test_one_huge_weight_feeds_that_level(level, make_model, make_batch):
    settings = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=SHORT_PHRASES, ta="on")
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    model.transparent_attention.weights.zero_()[level] = 1e4
    levels, memory = levels_and_memory(model, batch)
    assert len(levels) == settings.encoder_layers + 1
    for phrases_BPD in memory.phrases_JBPD:
        assert torch.equal(phrases_BPD, levels[level])


@torch.no_grad()
def test_without_ta_is_ta_that_selects_the_last_level(make_model, make_batch):
    shape = {**SMALL, **NO_DROPOUT, "phrase": SHORT_PHRASES, "pool": "attn"}
    settings = PhraseRepresentationModel(**shape, ta="on")
    with_ta, without_ta = make_model(settings), make_model(PhraseRepresentationModel(**shape))
    with_ta.transparent_attention.weights.zero_()[-1] = 1e4
    unexpected = without_ta.load_state_dict(with_ta.state_dict(), strict=False).unexpected_keys
    assert unexpected == ["transparent_attention.weights"]
    batch = make_batch(settings, SOURCES, TARGETS)
    torch.testing.assert_close(with_ta.log_probs(batch), without_ta.log_probs(batch), rtol=0, atol=1e-6)


@pytest.fixture
def pooled():
    """Two sentences: phrases of 2, 3 and 1 tokens, and one of 2 with two that only fill."""
    torch.manual_seed(4)
    x_BSD = torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[1, 1, 0], [1, 1, 1], [1, 0, 0]], [[1, 1, 0], [0, 0, 0], [0, 0, 0]]], dtype=torch.bool)
    index = torch.tensor([[[0, 1, 0], [2, 3, 4], [5, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]]])
    return x_BSD, Phrases(token_index_BPM=index, token_mask_BPM=mask, phrase_mask_BP=mask.any(-1))


def test_attention_with_zero_weights_is_the_mean(pooled):
    """The mean needs only equal scores: W1 = 0 and w2 = 0."""
    shape = {**SMALL, **NO_DROPOUT}
    attentive = PhrasePooling(PhraseRepresentationModel(**shape, pool="attn")).double()
    mean = PhrasePooling(PhraseRepresentationModel(**shape, glance="mean")).double()
    torch.nn.init.zeros_(attentive.hidden.weight)
    torch.nn.init.zeros_(attentive.score.weight)
    torch.testing.assert_close(attentive(*pooled), mean(*pooled), rtol=0, atol=1e-14)


@pytest.mark.parametrize("pool", ["glance", "attn"])
@pytest.mark.parametrize("glance", ["max", "mean"])
def test_phrases_that_only_fill_are_zero_and_teach_nothing(glance, pool, pooled):
    x_BSD, phrases = pooled
    pooling = PhrasePooling(PhraseRepresentationModel(**SMALL, **NO_DROPOUT, glance=glance, pool=pool)).double()
    represented = pooling(x_BSD, phrases)
    assert represented.shape == (2, 3, 12)
    assert (represented[1, 1:] == 0).all()
    represented.square().sum().backward()
    assert torch.isfinite(x_BSD.grad).all()
    assert (x_BSD.grad[1, 2:] == 0).all()
    assert (x_BSD.grad[0] != 0).any(-1).all() or glance == "max"
    for parameter in pooling.parameters():
        assert torch.isfinite(parameter.grad).all()


def test_a_phrase_of_one_token_is_the_token(pooled):
    x_BSD, phrases = pooled
    for settings in (
        PhraseRepresentationModel(**SMALL, **NO_DROPOUT, glance="mean"),
        PhraseRepresentationModel(**SMALL, **NO_DROPOUT),
        PhraseRepresentationModel(**SMALL, **NO_DROPOUT, pool="attn"),
    ):
        torch.testing.assert_close(PhrasePooling(settings).double()(x_BSD, phrases)[0, 2], x_BSD[0, 5])
