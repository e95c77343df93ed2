"""Several pairs in a row train as each pair in a row of its own: every Transformer, dropout 0, float64, 1e-12."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_pairs import drawn_reader
from small_systems import PAIRWISE, SOURCE_VOCABULARY, SYSTEMS, TARGET_VOCABULARY, random_model, slow_except

from phrasemt.batching.reader import RankReader

PACKABLE = {name: settings for name, settings in SYSTEMS.items() if random_model(settings).positions_in_row}
PAIRS, ROWS_OF = 60, (24, 64)


def reader_of(settings, *, pairs=PAIRS, parses=False):
    """Pairs of 1 to 60 subwords. parses: phrases as irregular as those of trees, also of a single token."""
    vocabulary = min(SOURCE_VOCABULARY, TARGET_VOCABULARY)
    reader = drawn_reader(settings.model_inputs, pairs=pairs, vocabulary=vocabulary, median=10, longest=60)
    if parses:

        def ends(lengths, positions, segmentation):
            return [
                np.unique([*np.random.default_rng(position).integers(1, length, length // 2), length])
                if length > 1
                else np.array([1])
                for length, position in zip(lengths, positions, strict=True)
            ]

        reader._collate_source._ends = ends
    return reader


def loss_and_gradients(model, batches):
    model.zero_grad()
    losses = [model.loss(batch, label_smoothing=0.1) for batch in batches]
    sum(loss.objective for loss in losses).backward()
    found = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return sum(loss.tokens for loss in losses), torch.stack([loss.nll for loss in losses]).sum(), found


@pytest.mark.parametrize("name", slow_except(PAIRWISE, PACKABLE))
@pytest.mark.parametrize("parses", [False, True])
def test_packed_rows_train_as_padded_ones(name, parses):
    if parses and not PACKABLE[name].source_phrases:
        pytest.skip("reads no phrases")
    model, reader = random_model(PACKABLE[name]).double().train(), reader_of(PACKABLE[name], parses=parses)
    sides_N2 = reader.sides(np.arange(PAIRS))
    rows_of = (
        int(np.sort(sides_N2[sides_N2[:, 1] == sides_N2.max(1), 1])[-5]),
        64,
    )  # a pair fills a row; some are longer
    everything = RankReader(reader, "cpu", rows_of=rows_of).read(np.arange(PAIRS), 10**6).batches
    assert [batch.target.inputs_BT.shape[1] for batch in everything] == [*rows_of]
    assert (everything[0].target.pairs.number_BS == 0).all(1).any()
    padded, packed = (loss_and_gradients(model, batches) for batches in ([reader(range(PAIRS))], everything))
    torch.testing.assert_close(packed, padded, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("capacity", [64, 24 * 5, 10**6])
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_pair_is_in_one_row_of_one_process_within_the_capacity(capacity, ranks):
    rank_reader = RankReader(reader_of(SYSTEMS["transformer"]), "cpu", ranks=ranks, rows_of=ROWS_OF)
    parts = [replace(rank_reader, rank=rank).read(np.arange(PAIRS), capacity).batches for rank in range(ranks)]
    batches = [batch for of_rank in parts for batch in of_rank]
    assert sorted(row for batch in batches for row in batch.rows) == [*range(PAIRS)]
    shapes = [batch.source.ids_BS.shape for batch in batches]
    assert all(rows == 1 or rows * positions <= capacity for rows, positions in shapes)
    loads = [sum(batch.target.mask_BT.sum() for batch in of_rank) for of_rank in parts]
    assert max(loads) <= 1.1 * sum(loads) / ranks


def test_few_positions_of_packed_rows_are_padding():
    """Of an update of a paper's size, at most an eighth on either side."""
    reader = drawn_reader(SYSTEMS["transformer"].model_inputs, pairs=900, vocabulary=TARGET_VOCABULARY)
    batch, *longer = RankReader(reader, "cpu", rows_of=(128,)).read(np.arange(900), 10**6).batches
    assert not longer
    assert all(side.float().mean() > 7 / 8 for side in (batch.source.mask_BS, batch.target.mask_BT))
