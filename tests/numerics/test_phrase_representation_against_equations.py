"""Witness: the equations of Xu et al. (2020) as plain loops over sentences, phrases, tokens and heads, in float64.

The reference reads nothing but the weights and the equations (decisions X1-X13), one sentence at a time, without masks
and padding. It sums the same numbers in another order: 1e-10.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from small_systems import NEUTRON, NO_DROPOUT, SHORT_PHRASES, SMALL
from test_dl4mt import sigmoid, softmax
from test_ngram_attention import reference as to_ngrams
from test_relative_positions import loops as by_distance

from phrasemt.batching.batch import collate_phrases
from phrasemt.study.architectures import PhraseRepresentationModel, PhraseSegmentation
from phrasemt.symbols import BOS, EOS

SOURCES, TARGETS = [3, 0, 9, 1], [6, 2, 0, 5]


class Reference:
    def __init__(self, model, settings):
        self.model, self.settings = model, settings
        self.ends = None  # of the phrases of the sentence at hand; None: phrases of n_tok tokens
        self.weights = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def __getitem__(self, name):
        return self.weights[name]

    def embed(self, ids, side):
        d, table = self.settings.width, "target" if self.settings.tie == "all" else side
        vectors = []
        for position, word in enumerate(ids):
            angles = [position / 10000 ** (2 * (column // 2) / d) for column in range(d)]
            waves = [math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)]
            if self.settings.attention == "relative":
                waves = [0.0] * d
            vectors.append(math.sqrt(d) * self[f"embeddings.{table}_table_VD"][word] + np.float32(waves).astype(float))
        if self.settings.embed_ln:
            vectors = [self.layer_norm(vector, f"embeddings.{side}_embedding") for vector in vectors]
        return vectors

    def layer_norm(self, x, name):
        normalised = (x - x.mean()) / math.sqrt(((x - x.mean()) ** 2).mean() + 1e-6)
        return normalised * self[f"{name}.norm.weight"] + self[f"{name}.norm.bias"]

    def token_attention(self, queries, memory, name, place):
        """Attention to tokens, or what the settings have in its place; causal: in the decoder, to itself."""
        settings, causal = self.settings, place == "dec_self"
        module = self.model.get_submodule(name)
        if settings.attention == "ngrams":
            weights = [parameter for key, parameter in module.named_parameters() if key != "output"]
            numbers = settings.ngrams, settings.ngram_score
            return list(to_ngrams(queries, memory, (*weights, module.output), *numbers, causal=causal)[0])
        if settings.attention == "relative" and place != "cross":
            mask = np.tri(len(queries), dtype=bool)[None, None] if causal else None
            return list(by_distance(module, torch.tensor(np.array(queries))[None], mask)[0].numpy())
        return self.attention(queries, memory, name, own=place != "cross", causal=causal)

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
        """Where phrases are: n_tok = max(min(ntok_max, ceil(L / ntok_div)), ntok_min) tokens each, or as given."""
        if self.ends is not None:
            return [x[first:end] for first, end in pairwise([0, *self.ends])]
        rule = self.settings.phrase
        n_tok = max(min(rule.ntok_max, math.ceil(len(x) / rule.ntok_div)), rule.ntok_min)
        return [x[first : first + n_tok] for first in range(0, len(x), n_tok)]

    def bias(self, w, b):
        """The bias of the printed equation, which the centred units take up in part (X21)."""
        return b if self.settings.sigmoid == "plain" else b - w @ np.full(w.shape[-1], 0.5)

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
            if self.settings.score == "dot_product":
                scores = [token @ glance / math.sqrt(self.settings.width) for token in phrase]
            else:
                w1, b1 = self[f"{name}.hidden.weight"], self[f"{name}.hidden.bias"]
                w2, b2 = self[f"{name}.score.weight"][0], self[f"{name}.score.bias"][0]
                hidden = [sigmoid(w1 @ np.concatenate((token, glance)) + b1) for token in phrase]
                scores = [w2 @ h + self.bias(w2, b2) for h in hidden]  # (3)
            if self.settings.score_norm == "sigmoid_mix":
                gates = [sigmoid(score) / len(phrase) for score in scores]
                gated = sum(gate * token for gate, token in zip(gates, phrase, strict=True))
                represented.append(gated + (1 - sum(gates)) * glance)
                continue
            weights = softmax(scores)  # (4)
            represented.append(sum(w * token for w, token in zip(weights, phrase, strict=True)))  # (5)
        return represented

    def combine(self, x, phrases, layer):
        entering = self.enter(x, f"{layer}.around_combination")
        attended = self.attention(entering, phrases, f"{layer}.combination.attention", own=False)  # (7)
        w3, b3 = self[f"{layer}.combination.hidden.weight"], self[f"{layer}.combination.hidden.bias"]
        w4, b4 = self[f"{layer}.combination.output.weight"], self[f"{layer}.combination.output.bias"]
        outputs = []
        for x_i, a_i in zip(entering, attended, strict=True):
            o_i = w4 @ sigmoid(w3 @ np.concatenate((x_i, a_i)) + b3) + self.bias(w4, b4)  # (8)
            outputs.append(a_i + o_i if self.settings.combine_residual == "x+a" else o_i)
        return self.leave(x, outputs, f"{layer}.around_combination")

    def enter(self, x, name):
        return [self.layer_norm(x_i, name) for x_i in x] if self.settings.norm == "pre" else x

    def leave(self, x, outputs, name):
        sums = [x_i + o_i for x_i, o_i in zip(x, outputs, strict=True)]
        return sums if self.settings.norm == "pre" else [self.layer_norm(x_i, name) for x_i in sums]

    def around_attention(self, x, layer, place):
        own = self.enter(x, f"{layer}.around_attention")
        attended = self.token_attention(own, own, f"{layer}.attention", place)
        return self.leave(x, attended, f"{layer}.around_attention")

    def around_ffn(self, x, layer):
        outputs = [self.ffn(x_i, f"{layer}.ffn") for x_i in self.enter(x, f"{layer}.around_ffn")]
        return self.leave(x, outputs, f"{layer}.around_ffn")

    def last_norm(self, x, stack):
        if self.settings.norm == "post":
            return x
        weight, bias = self[f"{stack}_norm.weight"], self[f"{stack}_norm.bias"]
        return [(x_i - x_i.mean()) / math.sqrt(x_i.var() + 1e-6) * weight + bias for x_i in x]

    def mixed(self, levels, name, j):
        """(6), the same for phrases and for tokens."""
        mixture = softmax(list(self[f"{name}.weights"][:, j]))
        return [sum(mixture[i] * levels[i][p] for i in range(len(levels))) for p in range(len(levels[0]))]

    def log_probs(self, source, inputs, outputs):
        x = self.embed(source, "source")
        levels, token_levels = [], []
        for k in range(self.settings.encoder_layers):
            layer = f"encoder.{k}"
            token_levels.append(self.enter(x, f"{layer}.around_combination"))
            levels.append(self.pool(token_levels[-1], f"{layer}.pooling"))
            x = self.combine(x, levels[-1], layer)
            x = self.around_attention(x, layer, "enc_self")
            x = self.around_ffn(x, layer)
        token_levels.append(self.last_norm(x, "encoder"))
        levels.append(self.pool(token_levels[-1], "last_pooling"))

        y = self.embed(inputs, "target")
        for j in range(self.settings.decoder_layers):
            layer = f"decoder.{j}"
            phrases, tokens = levels[-1], token_levels[-1]
            if self.settings.ta == "on":
                phrases = self.mixed(levels, "transparent_attention", j)
            if self.settings.ta_tokens:
                tokens = self.mixed(token_levels, "transparent_token_attention", j)
            y = self.around_attention(y, layer, "dec_self")
            y = self.combine(y, phrases, layer)
            entering = self.enter(y, f"{layer}.around_source_attention")
            seen = self.token_attention(entering, tokens, f"{layer}.source_attention", "cross")
            y = self.leave(y, seen, f"{layer}.around_source_attention")
            y = self.around_ffn(y, layer)
        y = self.last_norm(y, "decoder")
        scores = []
        for y_i, word in zip(y, outputs, strict=True):
            logits = self["embeddings.target_table_VD"] @ y_i + self["embeddings.softmax_bias_V"]
            scores.append(logits[word] - logits.max() - math.log(np.exp(logits - logits.max()).sum()))
        return scores


@pytest.mark.parametrize("switches", [{}, {"glance": "mean"}, {"pool": "attn", "ta": "on"}], ids=str)
def test_phrases_of_any_lengths(switches, make_model, make_batch):
    """Phrases of uneven lengths as a parser gives them, also in sources of one, two and three positions."""
    settings = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, **switches)
    ends = [[1, 4, 5, 10], [1], [1, 2], [2, 3], [3], [1, 2, 3, 6]]
    model, batch = make_model(settings).double(), make_batch(settings, [of[-1] - 1 for of in ends], [3, 1, 2, 4, 0, 2])
    phrases = collate_phrases([np.array(of) for of in ends])
    batch = replace(batch, source=replace(batch.source, phrases=phrases))
    reference, got = Reference(model, settings), model.log_probs(batch)
    for row, reference.ends in enumerate(ends):
        length = int(batch.target.mask_BT[row].sum())
        ids = batch.source.ids_BS[row, : ends[row][-1]], batch.target.inputs_BT[row], batch.target.outputs_BT[row]
        source, inputs, outputs = (of.tolist() for of in ids)
        expected = reference.log_probs(source, inputs[:length], outputs[:length])
        torch.testing.assert_close(got[row, :length], torch.tensor(expected), rtol=0, atol=1e-10)


SHAPE = {**SMALL, **NO_DROPOUT, "phrase": SHORT_PHRASES}
ATTENTIVE = {"pool": "attn", "ta": "on"}


@pytest.mark.parametrize(
    "switches",
    [
        *(
            {"glance": glance, "pool": pool, "ta": ta, "combine_hidden": 2.5}
            for glance in ("max", "mean")
            for pool in ("glance", "attn")
            for ta in ("off", "on")
        ),
        {**ATTENTIVE, "score": "dot_product"},
        {**ATTENTIVE, "score": "dot_product", "glance": "mean", "norm": "pre"},
        {**ATTENTIVE, "score": "dot_product", "score_norm": "sigmoid_mix"},
        {**ATTENTIVE, "score_norm": "sigmoid_mix"},
        {**ATTENTIVE, "score_norm": "sigmoid_mix", "glance": "mean"},
        {**ATTENTIVE, "combine_residual": "x+a"},
        {**ATTENTIVE, "ta_tokens": True},
        {"ta_tokens": True},
        {"src_bos": True, "embed_ln": True},
        {**ATTENTIVE, "norm": "pre", "tie": "all"},
        {**ATTENTIVE, "width": 6, "attention": "relative", "rel_k": 2},
        {**ATTENTIVE, "width": 6, "attention": "ngrams", "ngrams": 3},
        {**NEUTRON, "width": 6, "attention": "ngrams", "ngram_score": "static"},
        NEUTRON,
        {**NEUTRON, "norm": "pre"},
    ],
    ids=lambda switches: ", ".join(f"{key} {value}" for key, value in switches.items()),
)
def test_log_probabilities(switches, make_model, make_batch):
    settings = PhraseRepresentationModel(**(SHAPE | switches))
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    reference = Reference(model, settings)
    got = model.log_probs(batch)
    for row in range(len(SOURCES)):
        source = batch.source.ids_BS[row, : SOURCES[row] + 1 + settings.src_bos].tolist()
        assert (source[0] == BOS) == settings.src_bos
        assert source[-1] == EOS
        length = TARGETS[row] + 1
        inputs, outputs = (ids[row, :length].tolist() for ids in (batch.target.inputs_BT, batch.target.outputs_BT))
        expected = torch.tensor(reference.log_probs(source, inputs, outputs), dtype=torch.float64)
        torch.testing.assert_close(got[row, :length], expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_phrases_by_the_length_of_the_batch_depend_on_the_other_sentences(make_model, make_batch):
    """ntok_scope: batch imitates Neutron, where the longest sentence of a batch decides about all phrases."""
    in_batch = SHORT_PHRASES.model_copy(update={"ntok_scope": "batch"})
    settings = PhraseRepresentationModel(**{**SHAPE, "phrase": in_batch})
    model, sources, targets = make_model(settings), [4, 12], [5, 5]
    together = model.log_probs(make_batch(settings, sources, targets))
    shorter, longer = (model.log_probs(make_batch(settings, sources, targets, only=row))[0] for row in (0, 1))
    torch.testing.assert_close(together[1], longer, rtol=0, atol=1e-5)
    assert (together[0] - shorter).abs().max() > 1e-3


@torch.no_grad()
def test_the_mixtures_are_those_of_equation_6(make_model):
    """Weights log(1 + i + 3j) of level i and layer j: a softmax of logarithms is a share. None without +TA."""
    model = make_model(PhraseRepresentationModel(**SHAPE, ta="on")).eval()
    weights = model.transparent_attention.weights
    shares = [[1.0 + i + 3 * j for j in range(weights.shape[1])] for i in range(weights.shape[0])]
    weights.copy_(torch.tensor(shares).log())
    found = model.mixtures()["phrases"].tolist()
    totals = [sum(column) for column in zip(*shares, strict=True)]
    for level, expected in zip(found, shares, strict=True):
        assert level == pytest.approx([share / total for share, total in zip(expected, totals, strict=True)])
    assert make_model(PhraseRepresentationModel(**SHAPE)).mixtures() == {}


class Twice(torch.nn.Module):
    """Replaces dropout and doubles its input, which has the same effect as doubling the weights before it."""

    def forward(self, x):
        return 2 * x


@torch.no_grad()
def test_places_of_dropout_on_scores_and_mixtures(make_model, make_batch):
    """Dropout acts before the sigmoid of Eq. (3) and before the softmax of Eq. (6)."""
    settings = PhraseRepresentationModel(**SHAPE, **ATTENTIVE, ta_tokens=True)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    poolings = [*(layer.pooling for layer in model.encoder), model.last_pooling]
    mixtures = [model.transparent_attention, model.transparent_token_attention]
    before = model.log_probs(batch)
    for module in (*poolings, *mixtures):
        module.dropout = Twice()
    dropped = model.log_probs(batch)
    assert (dropped - before).abs().max() > 1e-3
    for module in (*poolings, *mixtures):
        module.dropout = torch.nn.Identity()
    for pooling in poolings:
        pooling.hidden.weight.mul_(2)
        pooling.hidden.bias.mul_(2)
    for mixture in mixtures:
        mixture.weights.mul_(2)
    torch.testing.assert_close(dropped, model.log_probs(batch), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("switches", "of_scores", "of_mixtures", "of_combinations"),
    [
        ({"dropout": 0.3, "act_dropout": 0.3}, 0.0, 0.0, 0.0),  # the paper names none of these places
        ({"ta_dropout": 0.2, "score_dropout": 0.1, "combine_dropout": 0.3}, 0.1, 0.2, 0.3),
    ],
)
def test_rates_of_dropout(switches, of_scores, of_mixtures, of_combinations, make_model):
    model = make_model(PhraseRepresentationModel(**SMALL, **ATTENTIVE, ta_tokens=True, **switches))
    assert getattr(model.last_pooling.dropout, "probability", 0.0) == of_scores
    for mixture in (model.transparent_attention, model.transparent_token_attention):
        assert getattr(mixture.dropout, "probability", 0.0) == of_mixtures
    for layer in (*model.encoder, *model.decoder):
        assert layer.combination.dropout.probability == of_combinations


def test_centred_units_learn_slower_by_the_number_of_their_inputs(make_model):
    """W1 and W3 have 2d inputs; a plain sigmoid has one rate for all."""
    wide = {**SMALL, **NO_DROPOUT, "width": 48}
    model = make_model(PhraseRepresentationModel(**wide, **ATTENTIVE))
    factors = {name: model.rate_factors().get(weight) for name, weight in model.named_parameters()}
    slow = {name for name, factor in factors.items() if factor}
    assert slow == {name for name in factors if name.endswith(("combination.hidden.weight", "pooling.hidden.weight"))}
    assert {factors[name] for name in slow} == {25.6 / 96}
    assert not make_model(PhraseRepresentationModel(**wide, **ATTENTIVE, sigmoid="plain")).rate_factors()


@pytest.mark.parametrize("switches", [{}, ATTENTIVE, NEUTRON], ids=["+Max", "+Max+Attn+TA", "xu-code"])
def test_a_model_without_phrases_attends_to_zeros(switches, make_model, make_batch):
    """Witness: the same weights with phrases, where hooks replace the attended phrases by 0."""
    with_phrases = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, **switches, phrase=SHORT_PHRASES)
    without = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, **switches, phrase=PhraseSegmentation(mode="none"))
    model, expected = make_model(without).double(), make_model(with_phrases).double()
    for layer in (*expected.encoder, *expected.decoder):
        layer.combination.attention.register_forward_hook(lambda m, inputs, output: torch.zeros_like(output))
    batch = make_batch(without, SOURCES, TARGETS)
    assert batch.source.phrases is None
    log_probs = model.log_probs(batch)
    torch.testing.assert_close(log_probs, expected.log_probs(make_batch(with_phrases, SOURCES, TARGETS)))

    log_probs.sum().backward()
    for layer in (*model.encoder, *model.decoder):
        x_half, attended_half = layer.combination.hidden.weight.grad.chunk(2, dim=1)
        assert x_half.any()
        assert not attended_half.any()
    _, values = model.measure([batch], analysing=True)
    assert not [name for name in values if "scores" in name or "phrases" in name]
    assert values["perplexity_without_source_attention"] > 1


@torch.no_grad()
def test_diagnostics_are_statistics_over_the_real_positions_of_all_batches(make_model, make_batch):
    """Witness: the sentences of two padded batches, one by one, with hooks that keep every vector."""
    settings = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, **ATTENTIVE)
    model = make_model(settings).double()
    model.encoder[0].combination.hidden.bias.fill_(9)  # saturates its units
    pairs = [([3, 9], [6, 2], 0), ([1, 5], [5, 3], 1)]
    _, values = model.measure([make_batch(settings, *pair) for pair in pairs], analysing=True)

    alone = [make_batch(settings, *pair, only=row) for pair in pairs for row in (0, 1)]
    block = model.decoder[0].combination
    seen = {module: [] for module in (block.units, block.output)}
    blocks = [layer.combination for layer in (*model.encoder, *model.decoder)]
    of_source = [layer.source_attention for layer in model.decoder]
    seen |= {attention: [] for attention in (*(block.attention for block in blocks), *of_source)}
    for module, vectors in seen.items():
        module.register_forward_hook(lambda m, inputs, output, vectors=vectors: vectors.extend(output[0]))
    for batch in alone:
        model.log_probs(batch)
    units, outputs = torch.stack(seen[block.units]) + 0.5, torch.stack(seen[block.output])
    assert len(outputs) == sum(target + 1 for _, targets, _ in pairs for target in targets)
    assert values["decoder_1_unit"] == pytest.approx(float(units.mean()), abs=1e-12)
    assert values["decoder_1_saturated"] == float(((units < 0.02) | (units > 0.98)).double().mean())
    assert values["encoder_1_saturated"] > 0.99
    assert values["decoder_1_constant"] == pytest.approx(float(outputs.mean(0).square().mean().sqrt()), abs=1e-12)
    signal = (outputs - outputs.mean(0)).square().mean().sqrt()
    assert values["decoder_1_signal"] == pytest.approx(float(signal), abs=1e-12)
    assert {f"scores_{level}_saturated" for level in range(settings.encoder_layers + 1)} < values.keys()

    of_encoder, of_decoder = (
        [layer.combination.attention for layer in part] for part in (model.encoder, model.decoder)
    )
    means = {attention: torch.stack(seen[attention]).mean(0) for attention in (*of_encoder, *of_decoder, *of_source)}
    groups = {
        "phrases": [*of_encoder, *of_decoder],
        "encoder_phrases": of_encoder,
        "decoder_phrases": of_decoder,
        "source_attention": of_source,
    }
    for name, replaced in groups.items():
        hooks = [
            attention.register_forward_hook(lambda m, inputs, output: means[m].expand_as(output))
            for attention in replaced
        ]
        nll = -sum(float(model.log_probs(batch).sum()) for batch in alone)
        assert values[f"perplexity_without_{name}"] == pytest.approx(math.exp(nll / len(outputs)), rel=1e-6)
        for hook in hooks:
            hook.remove()


@torch.no_grad()
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda block: block.hidden.bias.fill_(20), r"100 % of its hidden units are saturated"),
        (lambda block: block.output.weight.zero_(), r"its output hardly depends on its input \(signal 0, constant 0"),
        (lambda block: block.output.bias.fill_(1e3), r"its output hardly depends on its input \(signal 0\.\d"),
    ],
    ids=["saturated", "zero", "constant"],
)
def test_a_dead_network_is_counted_and_named(make_model, make_batch, caplog, broken, reason):
    settings = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, **ATTENTIVE)
    model, batch = make_model(settings).double(), make_batch(settings, [3, 9], [6, 2])
    assert model.measure([batch])[1]["dead_networks"] == 0
    assert not caplog.messages
    broken(model.encoder[1].combination)
    assert model.measure([batch])[1]["dead_networks"] == 1
    (message,) = caplog.messages
    assert re.match(rf"encoder_2 is dead: {reason}", message)
