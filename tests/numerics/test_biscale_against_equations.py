"""Witness: the bi-scale decoder as plain loops over sentences, words and source positions, in float64.

The reference reads nothing but the weights and the equations (decisions C1-C12), one sentence at a time, without masks
and padding, and it takes decisions with `if`. It sums the same numbers in another order: 1e-10.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from small_systems import SMALL_BISCALE, SOURCE_VOCABULARY, TARGET_VOCABULARY
from test_dl4mt import Reference as RecurrentReference

from phrasemt.batching.batch import Batch, Chunks, Source
from phrasemt.decoding.beam import beam_search
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import BiscaleModel
from phrasemt.study.schema import Decoding
from phrasemt.symbols import BOS, EOS, UNK

SOURCES, TARGETS = [3, 0, 9, 1], [6, 2, 0, 5]
VARIANTS = {
    "paper": {},
    "p+c": {"word_inputs": "p+c"},
    "as coded": {"ctx_update": "every_step", "word_inputs": "p+c"},
    "p_prev": {"chunk_query": "p_prev"},
    "p_prev, as coded": {"chunk_query": "p_prev", "ctx_update": "every_step", "word_inputs": "p+c"},
    "word attention": {"attention": "word"},
}


def settings_of(variant="paper", **options):
    return BiscaleModel(**SMALL_BISCALE, **VARIANTS[variant], **options)


@pytest.fixture
def make_model():
    """A model whose decisions differ between words. With the small initial weights all decisions are equal."""

    def make(settings, source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=TARGET_VOCABULARY):
        torch.manual_seed(2)
        model = build_model(settings, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.7)
            model.embeddings.target_embedding.table_VE[BOS] = 0
            model.boundary.output.bias.zero_()
        return model.eval()

    return make


def log_softmax(logits):
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


class Reference(RecurrentReference):
    """The equations in phrasemt/models/biscale.py. A state is (s, p, pe, c, u at the chunk's start)."""

    def start(self, h):
        settings = self.settings
        s, p = self.initial(h, "word_initial"), self.initial(h, "chunk_initial")
        return s, p, np.zeros(settings.chunk_embedding), np.zeros(2 * settings.hidden), np.zeros(settings.hidden)

    def classify(self, name, *inputs):
        hidden = self[f"{name}.bias"] + sum(self[f"{name}.weights.{i}"] @ x for i, x in enumerate(inputs))
        return log_softmax(self[f"{name}.output.weight"] @ np.tanh(hidden) + self[f"{name}.output.bias"])

    def first_half(self, state, last):
        """1. and 2.: the last word's vector, u_t, log p(b_t)."""
        e = np.zeros(self.settings.embedding) if last == BOS else self["embeddings.target_embedding.table_VE"][last]
        u = self.gru(e, state[0], "word_first")
        return e, u, self.classify("boundary", e, u)

    def second_half(self, h, state, e, u, b):
        """3. to 6.: the next state, log p(y_t) of all words, log p(l_t) of all labels."""
        settings = self.settings
        _, p, ep, c, mark = state
        if settings.attention == "word":
            c = self.attend(u, h)
            if b:
                ep = self["chunk_map_QH"] @ (u - mark)
                p = self.gru(c, self.gru(ep, p, "chunk_first"), "chunk_second")
        elif b or settings.ctx_update == "every_step":
            ep = self["chunk_map_QH"] @ (u - mark)
            v = self.gru(ep, p, "chunk_first")
            c = self.attend(v if settings.chunk_query == "v" else p, h)
            if b:
                p = self.gru(c, v, "chunk_second")
        if b:
            mark = u
        with_context = settings.attention == "word" or settings.word_inputs == "p+c"
        s = self.gru(np.concatenate((c, p)) if with_context else p, u, "word_second")
        r = self.readout(s, e, c if with_context else p)
        words = log_softmax(self["embeddings.output_table_VE"] @ r + self["embeddings.output_bias_V"])
        return (s, p, ep, c, mark), words, self.classify("label", p, ep, c)

    def run(self, source, inputs, starts=None):
        """For each position: log p(b_t), b_t, log p(y_t), log p(l_t), the state; without starts the model decides."""
        h = self.encode(source)
        state, positions = self.start(h), []
        for t, last in enumerate(inputs):
            e, u, boundary = self.first_half(state, last)
            b = t == 0 or boundary[1] > boundary[0] if starts is None else starts[t]
            state, words, labels = self.second_half(h, state, e, u, b)
            positions.append((boundary, b, words, labels, state))
        return positions


def sentence(batch: Batch, row: int) -> dict[str, list]:
    """One sentence of a batch, without padding."""
    chunks, mask = batch.target.chunks, batch.target.mask_BT[row]
    real = {"inputs": batch.target.inputs_BT, "outputs": batch.target.outputs_BT}
    real |= {"starts": chunks.starts_BT, "labels": chunks.labels_BT} if chunks else {}
    source = batch.source.ids_BS[row][batch.source.mask_BS[row]].tolist()
    return {"source": source, **{name: tensor[row][mask].tolist() for name, tensor in real.items()}}


def without_chunks(batch: Batch) -> Batch:
    return dataclasses.replace(batch, target=dataclasses.replace(batch.target, chunks=None))


def with_starts(batch: Batch, starts_BT: torch.Tensor) -> Batch:
    chunks = Chunks(starts_BT=starts_BT, labels_BT=batch.target.chunks.labels_BT)
    return dataclasses.replace(batch, target=dataclasses.replace(batch.target, chunks=chunks))


@pytest.mark.parametrize("given", [True, False], ids=["given chunks", "own chunks"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_log_probabilities(variant, given, make_model, make_batch):
    settings = settings_of(variant)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    reference = Reference(model, settings)
    got = model.log_probs(batch if given else without_chunks(batch))
    decided = []
    for row in range(len(SOURCES)):
        pair = sentence(batch, row)
        positions = reference.run(pair["source"], pair["inputs"], pair["starts"] if given else None)
        expected = [words[word] for (_, _, words, *_), word in zip(positions, pair["outputs"], strict=True)]
        torch.testing.assert_close(got[row, : len(expected)].tolist(), expected, rtol=0, atol=1e-10)
        decided += [b for _, b, *_ in positions[1:]]
    assert 0 < sum(decided) < len(decided)  # both decisions occur


@pytest.mark.parametrize("variant", VARIANTS)
def test_losses(variant, make_model, make_batch):
    settings = settings_of(variant, readout="maxout", readout_width=3)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    reference = Reference(model, settings)
    smoothing, vocabulary = 0.2, model.embeddings.output_bias_V.numel()
    nll = smoothed = boundary_nll = label_nll = 0.0
    for row in range(len(SOURCES)):
        pair = sentence(batch, row)
        positions = reference.run(pair["source"], pair["inputs"], pair["starts"])
        for (boundary, b, words, labels, _), word, label in zip(
            positions, pair["outputs"], pair["labels"], strict=True
        ):
            nll -= words[word]
            smoothed -= (1 - smoothing) * words[word]
            smoothed -= smoothing / (vocabulary - 1) * (words.sum() - words[word])
            boundary_nll -= boundary[int(b)]
            label_nll -= labels[label] if b else 0.0
    loss = model.loss(batch, label_smoothing=smoothing)
    objective = smoothed + boundary_nll + label_nll
    got = loss.nll, loss.parts["boundary_nll"], loss.parts["label_nll"], loss.objective
    expected = nll, boundary_nll, label_nll, objective
    torch.testing.assert_close([x.item() for x in got], list(expected), rtol=1e-12, atol=0)
    assert set(loss.parts) == {"boundary_nll", "label_nll"}
    assert not any(part.requires_grad for part in loss.parts.values())


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_perplexity_with_own_chunks(variant, make_model, make_batch):
    """Of all words of all batches together, without what the chunks of the reference tell."""
    settings = settings_of(variant)
    model, batches = (
        make_model(settings).double(),
        [make_batch(settings, *sides) for sides in ((SOURCES, TARGETS), ([2], [4]))],
    )
    reference, log_probs = Reference(model, settings), []
    for batch in batches:
        for row in range(len(batch.target.mask_BT)):
            pair = sentence(batch, row)
            positions = reference.run(pair["source"], pair["inputs"])
            log_probs += [words[word] for (_, _, words, *_), word in zip(positions, pair["outputs"], strict=True)]
    losses, values = model.measure(batches)
    assert values == {"perplexity_own_chunks": pytest.approx(np.exp(-np.mean(log_probs)), rel=1e-9)}
    assert losses.nll != pytest.approx(-sum(log_probs), rel=1e-3)  # given chunks


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_decisions_given_words_and_chunks(variant, make_model, make_batch):
    """At all positions, the first included. The decisions do not influence later positions: gold chunks are given."""
    settings = settings_of(variant)
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    reference, decisions = Reference(model, settings), model.chunk_log_probs(batch).likeliest
    for row in range(len(SOURCES)):
        pair = sentence(batch, row)
        positions = reference.run(pair["source"], pair["inputs"], pair["starts"])
        got = sentence(dataclasses.replace(batch, target=dataclasses.replace(batch.target, chunks=decisions)), row)
        assert got["starts"] == [boundary[1] > boundary[0] for boundary, *_ in positions]
        assert got["labels"] == [labels.argmax() for _, _, _, labels, _ in positions]


@torch.no_grad()
def test_equal_probabilities_mean_no_boundary(make_model, make_batch):
    settings = settings_of()
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    model.boundary.output.weight.zero_()
    model.boundary.output.bias.zero_()
    assert not model.chunk_log_probs(batch).likeliest.starts_BT.any()
    only_first = torch.zeros_like(batch.target.mask_BT)
    only_first[:, 0] = True
    expected = model.log_probs(with_starts(batch, only_first))
    assert torch.equal(model.log_probs(without_chunks(batch)), expected)


def test_a_new_context_at_each_word_needs_words_that_read_it(make_model, make_batch):
    """Without word_inputs: p+c the loss and all gradients are the same, so settings refuse the combination."""
    gradients = []
    for settings in (settings_of(), settings_of().model_copy(update={"ctx_update": "every_step"})):
        model = make_model(settings).double()
        model.loss(make_batch(settings, SOURCES, TARGETS), label_smoothing=0.1).objective.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValidationError, match="ctx_update: every_step has no effect with word_inputs: p"):
        settings_of(ctx_update="every_step")


WORDS, LONGEST = [UNK, 4, 5], 3


def brute_force(reference, source):
    """The scores of all strings of at most LONGEST WORDS and `</s>`, and all decisions after the first."""
    h = reference.encode(source)
    decisions = []

    def score(string):
        state, total = reference.start(h), 0.0
        for t, (last, word) in enumerate(itertools.pairwise([BOS, *string, EOS])):
            e, u, boundary = reference.first_half(state, last)
            b = int(t == 0 or boundary[1] > boundary[0])
            state, words, labels = reference.second_half(h, state, e, u, b)
            total += words[word] + boundary[b] + (labels.max() if b else 0.0)
            decisions.extend([b] * (t > 0))
        return total

    strings = itertools.chain.from_iterable(itertools.product(WORDS, repeat=n) for n in range(LONGEST + 1))
    return {string: score(string) for string in strings}, decisions


@pytest.mark.parametrize("variant", ["paper", "as coded", "word attention"])
def test_search_equals_enumeration(variant, make_model):
    """A beam with room for all strings finds all of them with their scores, for two sentences at once."""
    settings = settings_of(variant)
    model = make_model(settings, source_vocabulary=9, target_vocabulary=6).double()
    ids = torch.tensor([[4, 7, 8, EOS], [5, EOS, 0, 0]])
    source = Source(ids_BS=ids, mask_BS=ids != 0)
    by_length = {"length_penalty": 1.0, "length_penalty_form": "length"}
    decoding = Decoding(beam=50, n_best=50, max_length_factor=0.0, max_length_extra=LONGEST, **by_length)
    found = beam_search(model, source, decoding)
    reference = Reference(model, settings)
    for row, hypotheses in enumerate(found):
        expected, decisions = brute_force(reference, ids[row][source.mask_BS[row]].tolist())
        got = {hypothesis.tokens: hypothesis.log_prob for hypothesis in hypotheses}
        assert len(got) == len(hypotheses) == len(expected) == 40
        assert got == pytest.approx(expected, rel=0, abs=1e-5)  # a search adds up in float32
        best = max(expected, key=lambda string: expected[string] / (len(string) + 1))
        assert hypotheses[0].tokens == best
        assert 0 < sum(decisions) < len(decisions)  # both occur
