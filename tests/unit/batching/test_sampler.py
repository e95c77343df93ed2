"""The plan of updates is complete and deterministic, has little padding, and does not depend on the capacity."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemt.batching import sampler
from phrasemt.batching.sampler import UpdatePlan, micro_batches
from phrasemt.errors import DataError


def plan_of(lengths, *, tokens_per_update=500, max_length=256, seed=1):
    source = np.array([source for source, _ in lengths], dtype=np.int32)
    target = np.array([target for _, target in lengths], dtype=np.int32)
    return UpdatePlan(
        source_lengths=source, target_lengths=target, update_size=tokens_per_update, max_length=max_length, seed=seed
    )


def natural_lengths(count, seed=3):
    random = np.random.default_rng(seed)
    target = np.clip(random.lognormal(2.5, 0.5, count).astype(int), 1, 99)
    source = np.clip(target + random.integers(-3, 4, count), 1, 99)
    return list(zip(source.tolist(), target.tolist(), strict=True))


pair_lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=300)


@given(pair_lengths, st.integers(1, 4000), st.integers(0, 5), st.integers(0, 3))
def test_every_epoch_has_every_row_once(lengths, tokens_per_update, seed, epoch):
    plan = plan_of(lengths, tokens_per_update=tokens_per_update, seed=seed)
    updates = list(plan.epoch(epoch))
    assert sorted(np.concatenate(updates).tolist()) == list(range(len(lengths)))
    assert all(len(update) for update in updates)


@pytest.mark.parametrize("count", [1600, 1601, 1610, 1639, 29_000])
def test_updates_by_sentences_have_80_to_120_sentences(count):
    lengths = natural_lengths(count)
    plan = replace(plan_of(lengths, tokens_per_update=80), by_sentences=True)
    for epoch in range(3):
        sizes = [len(rows) for rows in plan.epoch(epoch)]
        assert sum(sizes) == count
        assert min(sizes) >= 80
        assert max(sizes) < 120 + 1


def test_epochs_and_seeds_change_the_plan_and_repeat_it():
    lengths = natural_lengths(2_000)
    first, again = list(plan_of(lengths).epoch(0)), list(plan_of(lengths).epoch(0))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(np.concatenate(first), np.concatenate(list(plan_of(lengths).epoch(1))))
    assert not np.array_equal(np.concatenate(first), np.concatenate(list(plan_of(lengths, seed=2).epoch(0))))


def test_long_pairs_are_left_out_and_an_empty_plan_is_an_error():
    plan = plan_of([(3, 3), (10, 3), (3, 10)], max_length=10)
    assert plan.pairs == 3
    assert sorted(np.concatenate(list(plan.epoch(0)))) == [0, 1, 2]
    shorter = plan_of([(3, 3), (11, 3), (3, 11)], max_length=10)
    assert shorter.pairs == 1
    assert [rows.tolist() for rows in shorter.epoch(0)] == [[0]]
    with pytest.raises(DataError, match="no training pair is short enough"):
        plan_of([(11, 3)], max_length=10)


@pytest.fixture
def small_pools(monkeypatch):
    """Pools of about 400 rows, so that a small corpus has many."""
    monkeypatch.setattr(sampler, "POOL_ROWS", 400)


@pytest.mark.usefixtures("small_pools")
def test_a_corpus_of_many_pools():
    lengths = natural_lengths(10_003)
    plan = plan_of(lengths, max_length=60)
    short = [row for row, pair in enumerate(lengths) if max(pair) <= 60]
    assert plan.pairs == len(short) < len(lengths)
    epochs = [list(plan.epoch(epoch)) for epoch in range(2)]
    for updates in epochs:
        assert sorted(np.concatenate(updates).tolist()) == short
        assert abs(len(updates) - plan.updates_per_epoch) <= len(updates) // 20
        sizes = [int(plan.target_lengths[rows].sum()) + len(rows) for rows in updates]
        assert abs(np.mean(sizes) - 500) < 25
    # The first tenth of an epoch has rows from all parts of the corpus, and other rows in each epoch.
    first, second = (set(np.concatenate(updates[: len(updates) // 10]).tolist()) for updates in epochs)
    assert len(first & second) < 0.4 * len(first)
    assert all(np.histogram(list(rows), bins=3, range=(0, len(lengths)))[0].min() > 0 for rows in (first, second))


@pytest.mark.usefixtures("small_pools")
def test_resuming_within_a_later_pool_gives_the_rest_of_the_plan():
    plan = plan_of(natural_lengths(3_000))
    whole = list(itertools.islice(plan.updates(), plan.updates_per_epoch + 20))
    epoch, position, _ = whole[60]
    assert position > plan.updates_per_epoch / 2
    rest = plan.updates(first_epoch=epoch, first_update=position + 1)
    for expected, found in zip(whole[61:], rest, strict=False):
        assert expected[:2] == found[:2]
        assert np.array_equal(expected[2], found[2])


@pytest.mark.usefixtures("small_pools")
def test_the_longest_rows_of_all_pools():
    lengths = natural_lengths(3_000)
    rows, positions = plan_of(lengths, max_length=50).longest(100)
    expected = sorted((max(pair) + 1 for pair in lengths if max(pair) <= 50), reverse=True)[:100]
    assert [max(lengths[row]) + 1 for row in rows] == expected
    assert positions == expected[0]


@pytest.mark.parametrize("capacity", [4_096, 2**18])
def test_padding_stays_below_five_percent(capacity):
    plan = plan_of(natural_lengths(30_000), tokens_per_update=25_000)
    real = padded = 0
    for update in plan.epoch(0):
        for rows in micro_batches(update, plan.source_lengths, plan.target_lengths, capacity=capacity, device="cpu"):
            real += int(plan.target_lengths[rows].sum()) + len(rows)
            padded += (int(plan.target_lengths[rows].max()) + 1) * len(rows)
    assert 1 - real / padded < 0.05


def of_rank(plan, rows, capacity, rank, ranks, device="cpu"):
    lengths = plan.source_lengths, plan.target_lengths
    return micro_batches(rows, *lengths, capacity=capacity, device=device, rank=rank, ranks=ranks)


@given(pair_lengths, st.integers(1, 2000), st.integers(1, 9), st.sampled_from(["cpu", "cuda"]))
def test_processes_together_have_each_row_once_within_the_capacity(lengths, capacity, ranks, device):
    plan = plan_of(lengths)
    rows = np.arange(len(lengths))
    parts = [part for rank in range(ranks) for part in of_rank(plan, rows, capacity, rank, ranks, device)]
    assert sorted(np.concatenate(parts).tolist()) == rows.tolist()
    longest = np.maximum(plan.source_lengths, plan.target_lengths) + 1
    assert all(len(part) == 1 or len(part) * longest[part].max() <= capacity for part in parts)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("capacity", [1024, 4096, 1_000_000])
def test_processes_have_about_equally_many_positions(ranks, capacity):
    """In an update of a paper's size no process has more than 1.1 times the mean number of positions."""
    plan = plan_of(natural_lengths(20_000), tokens_per_update=25_000)
    longest = np.maximum(plan.source_lengths, plan.target_lengths) + 1
    for rows in itertools.islice(plan.epoch(0), 5):
        parts = [of_rank(plan, rows, capacity, rank, ranks) for rank in range(ranks)]
        loads = [sum(len(part) * int(longest[part].max()) for part in of_one) for of_one in parts]
        assert max(loads) <= 1.1 * sum(loads) / ranks
