"""Forced decoding of all systems: log-probabilities and recorded attention weights against slow plain references."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from small_systems import NO_DROPOUT, SHORT_PHRASES, SMALL, SMALL_BISCALE, SYSTEMS

from phrasemt.artefacts.columns import Vocabularies, Vocabulary
from phrasemt.decoding.beam import beam_search
from phrasemt.decoding.forced import force, forced_sentences
from phrasemt.errors import DamagedFileError
from phrasemt.files.attention import AXES, read_forced, write_forced
from phrasemt.nn.attention import KeyValueAttention, SelfAttention, recording
from phrasemt.nn.layers import causal_mask
from phrasemt.nn.losses import Loss
from phrasemt.study.architectures import BiscaleModel, PhraseRepresentationModel, PhraseSegmentation
from phrasemt.study.schema import Decoding
from phrasemt.symbols import EOS

SOURCES, TARGETS = [6, 1, 4], [5, 7, 1]


def words(size: int = 40) -> Vocabulary:
    return Vocabulary(["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(4, size))], digest="")


def test_log_probs_sum_to_the_loss_and_recording_changes_nothing(settings, make_model, make_batch) -> None:
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    forced = force(model, batch)
    with torch.inference_mode():
        loss = model.loss(batch, label_smoothing=0.0)
        plain_BT = model.log_probs(batch)
    # float32: the recorded attention adds in another order than the fused one.
    assert float(forced.log_probs_BT.sum()) == pytest.approx(-float(loss.nll), rel=1e-5)
    torch.testing.assert_close(forced.log_probs_BT, plain_BT, rtol=1e-5, atol=1e-5)
    assert all(attention.module.record is None for attention, _ in forced.attentions)


def test_weights_sum_to_one_over_real_keys(settings, make_model, make_batch) -> None:
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    masks = batch.masks
    forced = force(model, batch)
    assert forced.attentions
    for attention, weights_BhQNK in forced.attentions:
        queries_BQ, keys_BK = (masks[axis] for axis in AXES[attention.place])
        assert weights_BhQNK.shape[2] == queries_BQ.shape[1]
        assert weights_BhQNK.shape[4] == keys_BK.shape[1]
        real = weights_BhQNK.permute(0, 2, 1, 3, 4)[queries_BQ]
        torch.testing.assert_close(real.sum((-1, -2)), torch.ones(real.shape[:2]), rtol=0, atol=1e-5)
        for row, (queries, keys) in enumerate(zip(queries_BQ.sum(1).tolist(), keys_BK.sum(1).tolist(), strict=True)):
            assert not weights_BhQNK[row, :, :queries, :, keys:].any()
        orders = torch.arange(weights_BhQNK.shape[3])
        unfinished_NK = torch.arange(weights_BhQNK.shape[4]) < orders[:, None]  # would begin before the sentence
        assert not weights_BhQNK[..., unfinished_NK].any()
        if attention.place == "dec_self":
            future_TT = causal_mask(weights_BhQNK.shape[2], weights_BhQNK.device).forbidden_XS
            assert not weights_BhQNK.transpose(2, 3)[..., future_TT].any()


def test_no_attention_is_left_out(settings, make_model) -> None:
    model = make_model(settings)
    named = {id(one.module) for one in model.attentions()}
    recordable = {name: id(module) for name, module in model.named_modules() if hasattr(module, "record")}
    if not getattr(model, "reads_phrases", True):  # attention to phrases is idle
        recordable = {name: module for name, module in recordable.items() if "combination" not in name}
    assert named == {*recordable.values()}
    assert len(named) == len(model.attentions())


def test_sentences_do_not_depend_on_their_batch(settings, make_model, make_batch) -> None:
    model = make_model(settings)
    arguments = {"words": Vocabularies(words(), words())}
    together = make_batch(settings, SOURCES, TARGETS)
    all_of_them = forced_sentences(force(model, together), together, rows=[0, 1, 2], **arguments)
    for row, whole in enumerate(all_of_them):
        alone = make_batch(settings, SOURCES, TARGETS, only=row)
        (one,) = forced_sentences(force(model, alone), alone, rows=[row], **arguments)
        assert (one.source, one.target, one.phrase_ends) == (whole.source, whole.target, whole.phrase_ends)
        assert (one.chunk_starts, one.chunk_labels) == (whole.chunk_starts, whole.chunk_labels)
        np.testing.assert_allclose(one.log_probs, whole.log_probs, atol=1e-5)
        for here, there in zip(one.attentions, whole.attentions, strict=True):
            assert (here.place, here.layer) == (there.place, there.layer)
            np.testing.assert_allclose(here.weights_hTNS, there.weights_hTNS, atol=1e-5)


def test_weights_equal_a_softmax_in_loops() -> None:
    torch.manual_seed(1)
    width, heads, positions = 6, 2, 4
    attention = SelfAttention(width, heads, 0.0).double()
    x = torch.randn(1, positions, width, dtype=torch.float64)
    with recording([attention]) as recorded, torch.no_grad():
        attention(x, causal_mask(positions, x.device))
    (weights_BhTNS,) = recorded()
    query, key, _ = attention.query_key_value.detach().chunk(3)
    each = width // heads
    for head in range(heads):
        rows = slice(head * each, (head + 1) * each)
        for i in range(positions):
            q = query[rows] @ x[0, i]
            scores = [math.exp(float(q @ (key[rows] @ x[0, j])) / math.sqrt(each)) for j in range(i + 1)]
            expected = [score / sum(scores) for score in scores] + [0.0] * (positions - i - 1)
            np.testing.assert_allclose(weights_BhTNS[0, head, i, 0].numpy(), expected, atol=1e-12)


def test_the_record_ends_with_an_error() -> None:
    attention = KeyValueAttention(6, 2, 0.0)
    with pytest.raises(ZeroDivisionError), recording([attention]):
        raise ZeroDivisionError
    assert attention.record is None


def test_nested_records_get_the_same_weights() -> None:
    attention, x = SelfAttention(6, 2, 0.0), torch.randn(1, 4, 6)
    with recording([attention]) as outer, torch.no_grad():
        with recording([attention]) as inner:
            attention(x, None)
        assert torch.equal(inner()[0], outer()[0])
        attention(x, None)
    assert inner()[0].shape[2] == 4
    assert outer()[0].shape[2] == 8


@torch.inference_mode()
def test_measurements_take_their_values_from_the_pass_of_forced_decoding(
    settings, make_model, make_batch, monkeypatch
) -> None:
    """Each batch is decoded once, and once more for each perplexity without phrases or with the model's own chunks."""
    model, batches = make_model(settings), [make_batch(settings, SOURCES, TARGETS), make_batch(settings, [3], [2])]
    alone, plain = model.measure(batches)
    decoded, recorded = [], []
    loss = type(model).log_probs
    monkeypatch.setattr(type(model), "log_probs", lambda self, batch: decoded.append(batch) or loss(self, batch))
    monkeypatch.setattr(
        model, "plain_loss", lambda batch: decoded.append(batch) or model.loss(batch, label_smoothing=0)
    )

    def forced_loss(batch):
        recorded.append(force(model, batch))
        nll = -recorded[-1].log_probs_BT.sum()
        return Loss(objective=nll, nll=nll, tokens=int(batch.target.mask_BT.sum()))

    losses, values = model.measure(batches, forced_loss)
    assert len(recorded) == len(batches)
    passes = 1 + sum(name.startswith("perplexity_") for name in plain)
    assert len(decoded) == len(batches) * passes
    # float32: the recorded attention adds in another order than the fused one.
    assert (losses.nll, losses.tokens) == pytest.approx((alone.nll, alone.tokens), rel=1e-5)
    assert values == pytest.approx(plain, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("system", ["transformer", "+Max+Attn+TA", "phrasal 1-2", "dl4mt", "relative positions"])
def test_the_score_of_a_translation_is_its_score_by_forced_decoding(system, make_model, make_batch) -> None:
    settings = SYSTEMS[system]
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    found = beam_search(model, batch.source, Decoding(beam=3, n_best=3, length_penalty=0, max_length_extra=5))
    _compare(model, batch, found, lambda sentence: sentence.log_prob)


@pytest.mark.parametrize("attention", ["chunk", "word"])
def test_the_joint_score_of_a_translation_is_its_score_by_forced_decoding(attention, make_model, make_batch) -> None:
    """The decoder decides about boundaries by itself in both."""
    settings = BiscaleModel(**SMALL_BISCALE, attention=attention)
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    found = beam_search(model, batch.source, Decoding(beam=3, n_best=3, length_penalty=0, max_length_extra=5))
    _compare(model, batch, found, _joint_log_prob)


def _joint_log_prob(sentence) -> float:
    """Words, decisions about chunks, and labels where a chunk starts."""
    decisions = zip(
        sentence.chunk_starts, sentence.copy_log_probs, sentence.update_log_probs, sentence.label_log_probs, strict=True
    )
    return sentence.log_prob + sum(update + label if starts else copy for starts, copy, update, label in decisions)


def _compare(model, batch, found, score_of) -> None:
    from phrasemt.batching.batch import Batch, collate_target

    for number in range(3):
        hypotheses = [hypotheses[number] for hypotheses in found]
        target = collate_target([np.array(one.tokens, dtype=np.int32) for one in hypotheses])
        chosen = Batch(rows=batch.rows, source=batch.source, target=target)
        sentences = forced_sentences(
            force(model, chosen), chosen, rows=batch.rows, words=Vocabularies(words(), words())
        )
        for sentence, one in zip(sentences, hypotheses, strict=True):
            assert sentence.target[-1] == "</s>"
            assert EOS not in one.tokens
            assert score_of(sentence) == pytest.approx(one.score, rel=1e-4)


def test_within_a_chunk_the_attention_is_that_of_its_first_word(make_model, make_batch) -> None:
    settings = SYSTEMS["bi-scale"]
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    forced = force(model, batch)
    ((_, weights_BhTNS),) = forced.attentions
    starts_BT = batch.target.chunks.starts_BT
    assert not starts_BT[batch.target.mask_BT].all()
    for row, length in enumerate(batch.target.mask_BT.sum(1).tolist()):
        for t in range(length):
            first = max(u for u in range(t + 1) if starts_BT[row, u])
            assert torch.equal(weights_BhTNS[row, :, t], weights_BhTNS[row, :, first])
    # With the context that the model itself computes: sum_j alpha_j h_j is the context of its chunk state.
    with torch.no_grad():
        memory = model.encode(batch.source)
        unrolled = model.unroll(memory, batch.target)
    contexts_BTC = weights_BhTNS[:, 0, :, 0] @ memory.states_BSC
    real = batch.target.mask_BT
    torch.testing.assert_close(contexts_BTC[real], unrolled.states.c_XC[real], rtol=0, atol=1e-5)


def test_a_file_returns_what_was_written(make_model, make_batch, tmp_path: Path) -> None:
    sentences = []
    for name in ("+Max", "bi-scale", "phrasal 1-2", "language model"):
        batch = make_batch(SYSTEMS[name], SOURCES, TARGETS)
        forced = force(make_model(SYSTEMS[name]), batch)
        sentences += forced_sentences(forced, batch, rows=[3, 9, 4], words=Vocabularies(words(), words()))
    path = tmp_path / "forced.arrow"
    assert write_forced(path, sentences) == len(sentences)
    for written, read in zip(sentences, read_forced(path), strict=True):
        for field in ("row", "source", "target", "phrase_ends", "chunk_starts", "chunk_labels"):
            assert getattr(read, field) == getattr(written, field)
        np.testing.assert_array_equal(np.float32(read.log_probs), np.float32(written.log_probs))
        for one, other in zip(written.attentions, read.attentions, strict=True):
            assert (one.place, one.layer) == (other.place, other.layer)
            np.testing.assert_array_equal(one.weights_hTNS, other.weights_hTNS)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFileError, match="not a file of forced decoding"):
        read_forced(path)


def test_phrase_ends_are_those_of_the_segmentation(make_model, make_batch) -> None:
    """Phrases of ceil(7/3) = 3 tokens for six words and `</s>`; a sentence of one word has one phrase."""
    segmentation = PhraseSegmentation(ntok_div=3, ntok_min=2, ntok_max=3)
    assert segmentation == SHORT_PHRASES
    settings = PhraseRepresentationModel(**SMALL, **NO_DROPOUT, phrase=segmentation)
    batch = make_batch(settings, [6, 1], [2, 2])
    forced = force(make_model(settings), batch)
    ends = [
        sentence.phrase_ends
        for sentence in forced_sentences(forced, batch, rows=[0, 1], words=Vocabularies(words(), words()))
    ]
    assert ends == [[3, 6, 7], [2]]
