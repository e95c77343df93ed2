"""Witness: properties that the equations imply for every system, whatever its weights are.

Exact zeros are compared exactly. Two orders of the same float64 sums differ by rounding: 1e-10. In float32, as training
and search run, 1e-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from phrasemt.batching.batch import Batch, Chunks, Phrases, Source, Target
from phrasemt.symbols import BOS, CHUNK_LABELS, EOS

SOURCES, TARGETS = [3, 0, 9, 1, 20], [6, 2, 0, 11, 4]


@contextmanager
def embeddings_of(model, side: str) -> Iterator[list[Tensor]]:
    """Collect the embeddings of one side as the model computes them, with their gradients."""
    seen: list[Tensor] = []

    def keep(_module, _inputs, output):
        output.retain_grad()
        seen.append(output)

    handle = getattr(model.embeddings, f"{side}_embedding").register_forward_hook(keep)
    yield seen
    handle.remove()


def _places(mask_BT: Tensor) -> Tensor:
    return mask_BT.flatten().nonzero().squeeze(1)


def padded_with_junk(batch: Batch) -> Batch:
    """The same sentences with more padding, which is filled with real words and real positions."""

    def widen(ids: Tensor, mask: Tensor, by: int) -> tuple[Tensor, Tensor]:
        mask = F.pad(mask, (0, by), value=False)
        junk = torch.arange(mask.numel()).view(mask.shape) % 20 + 4
        return torch.where(mask, F.pad(ids, (0, by)), junk), mask

    source_ids, source_mask = widen(batch.source.ids_BS, batch.source.mask_BS, 4)
    inputs, target_mask = widen(batch.target.inputs_BT, batch.target.mask_BT, 3)
    outputs, _ = widen(batch.target.outputs_BT, batch.target.mask_BT, 3)
    phrases = batch.source.phrases
    if phrases is not None:
        token_mask = F.pad(phrases.token_mask_BPM, (0, 1, 0, 2), value=False)
        index = F.pad(phrases.token_index_BPM, (0, 1, 0, 2))
        index = torch.where(token_mask, index, torch.arange(index.numel()).view(index.shape) % source_ids.shape[1])
        longest, slots = phrases.token_mask_BPM.shape[2], F.pad(phrases.slot_BS, (0, 4), value=-1)
        slots = torch.where(slots < 0, -1, slots + slots // longest)  # a place more in each phrase
        phrases = Phrases(
            token_index_BPM=index,
            token_mask_BPM=token_mask,
            phrase_mask_BP=F.pad(phrases.phrase_mask_BP, (0, 2)),
            slot_BS=slots,
        )
    chunks = batch.target.chunks
    if chunks is not None:
        labels, _ = widen(chunks.labels_BT, batch.target.mask_BT, 3)
        starts = torch.where(target_mask, F.pad(chunks.starts_BT, (0, 3)), labels % 2 == 0)
        labels = torch.where(target_mask, labels, labels % len(CHUNK_LABELS))
        chunks = Chunks(starts_BT=starts, labels_BT=labels, begins_M=_places(target_mask & starts))
    return Batch(
        rows=batch.rows,
        source=Source(ids_BS=source_ids, mask_BS=source_mask, phrases=phrases),
        target=Target(
            inputs_BT=inputs, outputs_BT=outputs, mask_BT=target_mask, real_N=_places(target_mask), chunks=chunks
        ),
    )


def test_padding_changes_nothing(settings, make_model, make_batch):
    model, batch = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS)
    junk = padded_with_junk(batch)
    expected, got = model.log_probs(batch), model.log_probs(junk)
    torch.testing.assert_close(got[:, : expected.shape[1]], expected, rtol=0, atol=1e-10)
    assert (got[~junk.target.mask_BT] == 0).all()
    loss, loss_junk = (model.loss(b, label_smoothing=0.1) for b in (batch, junk))
    assert loss.tokens == loss_junk.tokens == sum(TARGETS) + len(TARGETS)
    torch.testing.assert_close(loss_junk.objective, loss.objective, rtol=1e-12, atol=0)


def test_padding_gets_no_gradient(settings, make_model, make_batch):
    model, batch = make_model(settings).double(), padded_with_junk(make_batch(settings, SOURCES, TARGETS))
    with embeddings_of(model, "source") as sources, embeddings_of(model, "target") as targets:
        model.loss(batch, label_smoothing=0.1).objective.backward()
    assert len(sources) == settings.translates  # a language model reads no source
    masks = [batch.source.mask_BS] * settings.translates + [batch.target.mask_BT]
    for embedded, mask in zip(sources + targets, masks, strict=True):
        assert embedded.grad is not None
        assert (embedded.grad[~mask] == 0).all()
        assert (embedded.grad[mask] != 0).any(-1).all()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_the_other_sentences_of_a_batch_change_nothing(settings, make_model, make_batch):
    """A sentence scored alone and in a batch with others of other lengths."""
    model = make_model(settings)
    with torch.no_grad():
        together = model.log_probs(make_batch(settings, SOURCES, TARGETS))
        for row, length in enumerate(TARGETS):
            alone = model.log_probs(make_batch(settings, SOURCES, TARGETS, only=row))
            assert alone.shape == (1, length + 1)
            torch.testing.assert_close(together[row, : length + 1], alone[0], rtol=0, atol=1e-5)


def test_no_target_position_depends_on_later_words(settings, make_model, make_batch):
    model, batch = make_model(settings).double(), make_batch(settings, [5], [6])
    length = batch.target.inputs_BT.shape[1]
    for position in range(length):
        with embeddings_of(model, "target") as embedded:
            states = model.decode(model.encode(batch.source), batch.target)
        states[0, position, 0].backward()
        gradient = embedded[0].grad
        assert gradient is not None
        assert (gradient[0, position + 1 :] == 0).all()
        assert (gradient[0, : position + 1] != 0).any(-1).all()


def test_every_target_position_depends_on_the_whole_source(settings, make_model, make_batch):
    if not settings.translates:
        pytest.skip("a language model reads no source")
    model, batch = make_model(settings).double(), make_batch(settings, [7], [4])
    with embeddings_of(model, "source") as embedded:
        model.decode(model.encode(batch.source), batch.target)[0, 0, 0].backward()
    assert (embedded[0].grad[0] != 0).any(-1).all()


@pytest.mark.parametrize("length", [0, 1, 2])
def test_shortest_sentences(length, settings, make_model, make_batch):
    """`</s>` alone, and with one and two words."""
    model, batch = make_model(settings), make_batch(settings, [length], [length])
    assert batch.source.ids_BS.shape == (1, settings.source_begins_with_bos + length + 1)
    loss = model.loss(batch, label_smoothing=0.1)
    loss.objective.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    with torch.no_grad():
        memory = model.encode(batch.source)
        log_probs, _ = model.step(memory, model.start(memory, 2), torch.full((1, 2), BOS))
    if not settings.reads_chunks:  # their scores have decisions, too
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(1, 2))


def full_log_probs(model, source: Source, inputs_BT: Tensor) -> Tensor:
    """Log-probabilities of all words after each prefix, by teacher forcing."""
    mask_BT = torch.ones_like(inputs_BT, dtype=torch.bool)
    target = Target(inputs_BT=inputs_BT, outputs_BT=inputs_BT, mask_BT=mask_BT, real_N=_places(mask_BT))
    return model.embeddings.output.next_log_probs(model.decode(model.encode(source), target))


def repeated(source: Source, times: int) -> Source:
    """Repeat each sentence."""
    phrases = source.phrases
    if phrases is not None:
        phrases = phrases.map(lambda x, _: x.repeat_interleave(times, dim=0))
    return Source(
        ids_BS=source.ids_BS.repeat_interleave(times, dim=0),
        mask_BS=source.mask_BS.repeat_interleave(times, dim=0),
        phrases=phrases,
    )


@torch.no_grad()
def test_search_steps_equal_teacher_forcing(settings, make_model, make_batch):
    """With one, two, then three hypotheses, reordered, for more steps than the initial capacity of the cache."""
    model, source = make_model(settings).double(), make_batch(settings, SOURCES, TARGETS).source
    sentences = len(SOURCES)
    generator = torch.Generator().manual_seed(9)
    memory = model.encode(source)
    state = model.start(memory, 1)
    prefixes = torch.full((sentences, 1, 1), BOS)
    for step in range(20):
        beams, next_beams = min(step + 1, 3), min(step + 2, 3)
        log_probs, state = model.step(memory, state, prefixes[:, :, -1])
        if settings.reads_chunks:  # the scores of a hypothesis have the decision about its chunk, equal for all words
            log_probs = log_probs.log_softmax(-1)
        if step in (0, 1, 2, 15, 16, 19):
            expected = full_log_probs(model, repeated(source, beams), prefixes.flatten(0, 1))[:, -1]
            torch.testing.assert_close(log_probs.flatten(0, 1), expected, rtol=0, atol=1e-10)
        parents = torch.randint(beams, (sentences, next_beams), generator=generator)
        words = torch.randint(4, 29, (sentences, next_beams, 1), generator=generator)
        state = state.reordered(parents)
        prefixes = torch.cat((prefixes.gather(1, parents[:, :, None].expand(-1, -1, step + 1)), words), dim=2)


@torch.no_grad()
def test_removing_finished_sentences_changes_nothing(settings, make_model, make_batch):
    model, source = make_model(settings), make_batch(settings, SOURCES, TARGETS).source
    beams, kept = 2, torch.tensor([0, 2, 4])
    memory = model.encode(source)
    words = torch.randint(4, 29, (5, len(SOURCES), beams), generator=torch.Generator().manual_seed(1))
    all_state, some_state, some_memory = model.start(memory, beams), model.start(memory, beams), memory
    for step, last in enumerate(words):
        log_probs, all_state = model.step(memory, all_state, last)
        some_log_probs, some_state = model.step(some_memory, some_state, last if step < 2 else last[kept])
        if step == 1:
            some_memory, some_state = some_memory.select_sentences(kept), some_state.select_sentences(kept)
    torch.testing.assert_close(some_log_probs, log_probs[kept], rtol=0, atol=1e-5)


def test_loss_and_log_probs_agree(settings, make_model, make_batch):
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    assert (batch.target.outputs_BT[batch.target.mask_BT] == EOS).sum() == len(TARGETS)
    loss = model.loss(batch, label_smoothing=0.0)
    torch.testing.assert_close(loss.nll, -model.log_probs(batch).sum(), rtol=1e-5, atol=0)
    # The further parts of a family's objective have weight 1 here.
    objective = sum(loss.parts.values(), start=loss.nll)
    torch.testing.assert_close(loss.objective.detach(), objective, rtol=1e-6, atol=0)
    assert not objective.requires_grad


def test_dropout_only_acts_in_training(settings, make_model, make_batch):
    settings = settings.model_copy(update={"dropout": 0.2, "attn_dropout": 0.2, "act_dropout": 0.2})
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    assert torch.equal(model.log_probs(batch), model.log_probs(batch))
    model.train()
    torch.manual_seed(1)
    first = model.loss(batch, label_smoothing=0.1).objective
    second = model.loss(batch, label_smoothing=0.1).objective
    torch.manual_seed(1)
    assert torch.equal(model.loss(batch, label_smoothing=0.1).objective, first)
    assert first != second


def test_bfloat16_is_near_float32(settings, make_model, make_batch):
    """Products have 8 bits, sums and the loss are float32. Losses of untrained models change by less than 2 %."""
    model, batch = make_model(settings), make_batch(settings, SOURCES, TARGETS)
    exact = model.loss(batch, label_smoothing=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model.loss(batch, label_smoothing=0.1)
        log_probs = model.log_probs(batch)
    assert rounded.objective.dtype == log_probs.dtype == torch.float32
    torch.testing.assert_close(rounded.objective, exact.objective, rtol=0.02, atol=0)
    rounded.objective.backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
