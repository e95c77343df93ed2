"""Witness: the equations of dl4mt and dl4mt-2 as plain loops over sentences, words and numbers, in float64.

The reference reads nothing but the weights and the equations, one sentence at a time, without
masks and padding. It sums the same numbers in another order: 1e-10.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_systems import SMALL_RECURRENT

from phrasemt.study.architectures import Dl4mtModel
from phrasemt.symbols import BOS

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

    def gru(self, x, h, name):
        """torch.nn.GRUCell's equations with one bias: b stands with W x in most cells, with U h in others."""
        w_r, w_z, w_n = np.split(self[f"{name}.input_3HI"], 3)
        u_r, u_z, u_n = np.split(self[f"{name}.hidden_3HH"], 3)
        none = np.zeros(3 * len(h))
        b_r, b_z, b_n = np.split(self.weights.get(f"{name}.input_bias_3H", none), 3)
        d_r, d_z, d_n = np.split(self.weights.get(f"{name}.hidden_bias_3H", none), 3)
        r = sigmoid(w_r @ x + b_r + u_r @ h + d_r)
        z = sigmoid(w_z @ x + b_z + u_z @ h + d_z)
        n = np.tanh(w_n @ x + b_n + r * (u_n @ h + d_n))
        return z * h + (1 - z) * n

    def encode(self, source):
        e = [self["embeddings.source_embedding.table_VE"][word] for word in source]
        h = np.zeros(self.settings.hidden)
        forwards, backwards = [], []
        for e_j in e:
            h = self.gru(e_j, h, "encoder.forward_cell")
            forwards.append(h)
        h = np.zeros(self.settings.hidden)
        for e_j in reversed(e):
            h = self.gru(e_j, h, "encoder.backward_cell")
            backwards.insert(0, h)
        return [np.concatenate(sides) for sides in zip(forwards, backwards, strict=True)]

    def initial(self, h, name):
        return np.tanh(self[f"{name}.linear.weight"] @ (sum(h) / len(h)) + self[f"{name}.linear.bias"])

    def attend(self, u, h):
        query, key, b = self["attention.query_AI"], self["attention.key.weight"], self["attention.key.bias"]
        v, c = self["attention.score.weight"][0], self["attention.score.bias"][0]
        alpha = softmax([v @ np.tanh(query @ u + key @ h_j + b) + c for h_j in h])
        return sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))

    def readout(self, s, e, c):
        r = self["readout.bias"] + sum(self[f"readout.weights.{i}"] @ x for i, x in enumerate((s, e, c)))
        if self.settings.readout == "tanh":
            return np.tanh(r)
        return np.array([max(r[2 * i], r[2 * i + 1]) for i in range(len(r) // 2)])

    def log_probs(self, source, inputs, outputs):
        h = self.encode(source)
        s, upper = self.initial(h, "initial"), None
        if self.settings.decoder_layers == 2:
            upper = self.initial(h, "upper.initial")
        scores = []
        for last, word in zip(inputs, outputs, strict=True):
            e = np.zeros(self.settings.embedding) if last == BOS else self["embeddings.target_embedding.table_VE"][last]
            u = self.gru(e, s, "first_cell")
            c = self.attend(u, h)
            s = self.gru(c, u, "second_cell")
            if upper is not None:
                upper = self.gru(np.concatenate((s, c)), upper, "upper.cell")
            r = self.readout(s if upper is None else upper, e, c)
            logits = self["embeddings.output_table_VE"] @ r + self["embeddings.output_bias_V"]
            scores.append(logits[word] - logits.max() - math.log(np.exp(logits - logits.max()).sum()))
        return scores


@pytest.mark.parametrize("readout", [{}, {"readout": "maxout"}, {"readout": "maxout", "readout_width": 4}])
@pytest.mark.parametrize("decoder_layers", [1, 2])
def test_log_probabilities(decoder_layers, readout, make_model, make_batch):
    settings = Dl4mtModel(family="dl4mt", **SMALL_RECURRENT, decoder_layers=decoder_layers, **readout)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    reference = Reference(model, settings)
    got = model.log_probs(batch)
    for row in range(len(SOURCES)):
        source = batch.source.ids_BS[row, : SOURCES[row] + 1].tolist()
        length = TARGETS[row] + 1
        inputs, outputs = (ids[row, :length].tolist() for ids in (batch.target.inputs_BT, batch.target.outputs_BT))
        expected = torch.tensor(reference.log_probs(source, inputs, outputs), dtype=torch.float64)
        torch.testing.assert_close(got[row, :length], expected, rtol=0, atol=1e-10)


def test_the_first_input_is_zero_and_gets_no_gradient(make_model, make_batch):
    settings = Dl4mtModel(family="dl4mt", **SMALL_RECURRENT)
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    assert (model.embeddings.target_embedding(batch.target.inputs_BT)[:, 0] == 0).all()
    model.loss(batch, label_smoothing=0.1).objective.backward()
    assert (model.embeddings.target_embedding.table_VE.grad[BOS] == 0).all()
