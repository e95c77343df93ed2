"""Statistics of attention, worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from phrasemt.decoding.attention import AttentionStatistics, evenly
from phrasemt.nn.recording import Attention


def test_means_over_real_queries() -> None:
    """Two heads, tokens and bigrams over two keys; the second query of the second sentence is padding.

    Head 1 divides its weight equally over all four keys, head 2 gives all of it to one bigram.
    """
    equal, decided = torch.full((2, 2), 0.25), torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    weights_BhQNK = torch.stack([equal, decided]).unsqueeze(1).expand(2, 2, 2, 2, 2).clone()
    weights_BhQNK[1, :, 1] = 9.0
    statistics = AttentionStatistics(Attention(place="cross", layer=3, module=nn.Identity()))
    statistics.add(weights_BhQNK[:1], torch.tensor([[True, True]]))
    statistics.add(weights_BhQNK[1:], torch.tensor([[True, False]]))
    found = statistics.means()
    assert (found.place, found.layer) == ("cross", 3)
    assert found.heads == [[0.5, 0.5], [0.0, 1.0]]
    assert found.mass == [0.25, 0.75]
    assert found.entropy == pytest.approx(math.log(4) / 2)
    assert found.keys == 2.5
    assert found.even == pytest.approx([0.4, 0.6])  # of 1 token and 1.5 bigrams with a weight, mean over the heads


@pytest.mark.parametrize(("count", "wanted", "chosen"), [(10, 3, [0, 3, 6]), (2, 5, [0, 1]), (5, 0, [])])
def test_kept_sentences_are_spread_evenly(count: int, wanted: int, chosen: list[int]) -> None:
    assert evenly(count, wanted) == chosen
