"""Witness: Shaw et al. (2018) as loops over sentences, heads, queries and keys, in float64.

The loops sum the same numbers in another order: 1e-10.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_systems import NO_DROPOUT, SMALL

from phrasemt.nn.layers import Mask, causal_mask, key_mask
from phrasemt.nn.relative_attention import RelativeSelfAttention
from phrasemt.study.architectures import TransformerModel

WIDTH, HEADS = 6, 3
MASKS = {
    "none": None,
    "keys": key_mask(torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]], dtype=torch.bool)),
    "causal": causal_mask(7, torch.device("cpu")),
}


def attention(rel_k: int) -> RelativeSelfAttention:
    torch.manual_seed(3)
    return RelativeSelfAttention(WIDTH, HEADS, 0.0, rel_k=rel_k).double()


def inputs(positions: int) -> torch.Tensor:
    return torch.randn(2, positions, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def clip(distance, k):
    return max(-k, min(k, distance))


def loops(module, x, mask):
    """Eqs. (3) and (4) of the paper for one query, one head, one key after the other."""
    w_q, w_k, w_v = np.split(module.query_key_value.detach().numpy(), 3)
    a_k, a_v = module.distance_keys.detach().numpy(), module.distance_values.detach().numpy()
    e, k = WIDTH // HEADS, module.rel_k
    result = np.zeros(x.shape)
    for b, sentence in enumerate(x.numpy()):
        for i, x_i in enumerate(sentence):
            joined = []
            for head in range(HEADS):
                rows = slice(head * e, (head + 1) * e)
                usable = [j for j in range(len(sentence)) if mask is None or mask[b, 0, i, j]]
                scores = {
                    j: (w_q[rows] @ x_i) @ (w_k[rows] @ sentence[j] + a_k[clip(j - i, k) + k]) / math.sqrt(e)
                    for j in usable
                }
                total = sum(math.exp(score) for score in scores.values())
                joined.append(
                    sum(
                        math.exp(scores[j]) / total * (w_v[rows] @ sentence[j] + a_v[clip(j - i, k) + k])
                        for j in usable
                    )
                )
            result[b, i] = module.output.detach().numpy() @ np.concatenate(joined)
    return torch.from_numpy(result)


@pytest.mark.parametrize("rel_k", [1, 2, 6, 16], ids=lambda k: f"k={k}")
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_equals_the_loops(mask, rel_k):
    """With distances beyond k, up to k and below it."""
    module, x = attention(rel_k), inputs(7)
    expected = loops(module, x, None if mask is None else mask.allowed_XS.expand(2, 1, 7, 7))
    torch.testing.assert_close(module(x, mask), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", [1, 2])
def test_shortest_sentences_equal_the_loops(positions):
    module, x = attention(2), inputs(positions)
    torch.testing.assert_close(module(x, None), loops(module, x, None), rtol=0, atol=1e-10)


def test_gradients_equal_finite_differences():
    module, x = attention(2), inputs(4).requires_grad_()
    names = ["query_key_value", "distance_keys", "distance_values", "output"]

    mask = Mask(MASKS["keys"].allowed_XS[..., :4])

    def output(x, *weights):
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x, mask))

    assert torch.autograd.gradcheck(output, (x, *(getattr(module, name) for name in names)))


def test_whole_model_with_zero_tables_is_a_transformer_without_positions(make_model, make_batch):
    relative = make_model(TransformerModel(**SMALL, **NO_DROPOUT, attention="relative", rel_k=2)).double()
    plain = make_model(TransformerModel(**SMALL, **NO_DROPOUT)).double()
    missing, unexpected = plain.load_state_dict(relative.state_dict(), strict=False)
    assert not missing
    assert len(unexpected) == 2 * (2 + 3)  # in the self-attention of encoder and decoder
    for module in relative.modules():
        if isinstance(module, RelativeSelfAttention):
            torch.nn.init.zeros_(module.distance_keys)
            torch.nn.init.zeros_(module.distance_values)
    batch = make_batch(TransformerModel(attention="relative"), [3, 0, 9], [6, 2, 11])
    assert not torch.allclose(relative.log_probs(batch), plain.log_probs(batch))
    for side in (plain.embeddings.source_embedding, plain.embeddings.target_embedding):
        side.positions = None
    torch.testing.assert_close(relative.log_probs(batch), plain.log_probs(batch), rtol=0, atol=1e-12)
