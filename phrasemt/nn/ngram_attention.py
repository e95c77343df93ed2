"""Multi-head attention to n-grams of keys, of all orders at once (phrasal attention, ICLR 2020 submission).

For n = 1..N, with the n-gram of the keys j-n+1..j standing at its last token j (head index left out):
    A_n[i, j] = sum over t < n of Q_n[i, t] . K[j-n+1+t] / sqrt(n E)      score query_kernel
    A_n[i, j] = Q[i] . K_n[j] / sqrt(E),  K_n made as V_n is              score static
    V_n[j] = sum over t < n of x[j-n+1+t] Wv_n[t]
    output = (softmax over all (n, j) of A) V Wo
N = 1 is plain attention, with the same parameters.

Letters: B sentences, T query positions, S key positions, D model width, h heads, E = d/h head width, N longest n-gram,
K hypotheses, L entries of a search's past, G = B*h, R = 1 or N rows of queries per position, Q = 1 or N rows of keys,
W their width.

All scores are one product: a query has one row per order, N*E wide, and a key is the window of the N tokens that end
with it; where an order is shorter than the window, its row begins with zeros. So scores [T*N, S] are scores [T, N*S],
and the softmax needs no joining. With static scores keys have the rows instead: [T, E] times [N*S, E].

Masks are those of plain attention, over tokens: an n-gram may be used where its last token may. Padding stands at the
end, so the other tokens are real, too. n-grams that would begin before the sentence never may.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.nn.attention import Projected, heads_first
from phrasemt.nn.beams import BeamCache
from phrasemt.nn.dropout import dropout
from phrasemt.nn.init import xavier_blocks
from phrasemt.nn.precision import normalised_dtype

Score = Literal["query_kernel", "static"]


@dataclass(frozen=True)
class Layout:
    """Where the blocks of a fused projection [B, S, blocks*D] go: a tensor [B, h, rows, W] of slots [S, E] per head.

    moves: (block, slot, shift): what stands at position j of the block is added to the slot at position j + shift.
    row: slots that stand side by side in a row. All slots of a position are then before those of the next; with one
    slot per row, all positions of a slot are before those of the next slot.
    """

    slots: int
    moves: tuple[tuple[int, int, int], ...]
    row: int = 1

    def after(self, blocks: int) -> Layout:
        """The same for a projection that has other blocks in front."""
        return replace(self, moves=tuple((block + blocks, slot, shift) for block, slot, shift in self.moves))

    def shape(self, blocks_XBhSE: Tensor) -> tuple[int, int, int, int]:
        """[B, h, rows, W]."""
        _, sentences, heads, positions, head_width = blocks_XBhSE.shape
        return sentences, heads, positions * self.slots // self.row, self.row * head_width

    def by_slot(self, arranged_BhXW: Tensor) -> Tensor:
        """[slots, B, h, S, E]."""
        sentences, heads, _, width = arranged_BhXW.shape
        if self.row == 1:
            return arranged_BhXW.view(sentences, heads, self.slots, -1, width).permute(2, 0, 1, 3, 4)
        return arranged_BhXW.view(sentences, heads, -1, self.slots, width // self.row).permute(3, 0, 1, 2, 4)


def shift(source_XBhSE: Tensor, target_XBhSE: Tensor, moves: Iterable[tuple[int, int, int]]) -> None:
    """Fill the target with what the moves (from, to, shift) add up to, and with zeros elsewhere."""
    positions = source_XBhSE.shape[3]
    filled = set()
    for origin, place, distance in sorted(moves, key=lambda move: abs(move[2])):
        overlap, start, skipped = max(positions - abs(distance), 0), max(distance, 0), max(-distance, 0)
        moved_BhSE = source_XBhSE[origin, :, :, skipped : skipped + overlap]
        target_BhSE = target_XBhSE[place]
        if place in filled:
            target_BhSE[:, :, start : start + overlap] += moved_BhSE
        else:
            target_BhSE[:, :, start : start + overlap] = moved_BhSE
            target_BhSE[:, :, :start] = 0
            target_BhSE[:, :, start + overlap :] = 0
            filled.add(place)
    for place in set(range(len(target_XBhSE))) - filled:
        target_XBhSE[place] = 0


class _Arrange(torch.autograd.Function):
    """Each block is copied once into each slot it goes to, and back; autograd's own slices would copy much more."""

    @staticmethod
    def forward(ctx: Any, projection_BSX: Tensor, heads: int, width: int, *layouts: Layout) -> tuple[Tensor, ...]:
        ctx.shape, ctx.sizes, ctx.layouts = projection_BSX.shape, (heads, width), layouts
        blocks_XBhSE = heads_first(projection_BSX, heads, width)
        arranged = [projection_BSX.new_empty(layout.shape(blocks_XBhSE)) for layout in layouts]
        for layout, arranged_BhXW in zip(layouts, arranged, strict=True):
            shift(blocks_XBhSE, layout.by_slot(arranged_BhXW), layout.moves)
        return tuple(arranged)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients_BhXW: Tensor) -> tuple[Tensor | None, ...]:
        d_projection_BSX = gradients_BhXW[0].new_empty(ctx.shape)
        d_blocks_XBhSE = heads_first(d_projection_BSX, *ctx.sizes)
        for layout, gradient_BhXW in zip(ctx.layouts, gradients_BhXW, strict=True):
            blocks = {block for block, _, _ in layout.moves}
            first, last = min(blocks), max(blocks)
            back = [(slot, block - first, -distance) for block, slot, distance in layout.moves]
            shift(layout.by_slot(gradient_BhXW.contiguous()), d_blocks_XBhSE[first : last + 1], back)
        return d_projection_BSX, None, None, *(None for _ in ctx.layouts)


def ngram_mask(mask_XS: Tensor | None, orders: int, keys: int, device: torch.device, at_once: int = 1) -> Tensor:
    """Tokens that may be used -> n-grams that may be: [..., S] -> [..., N*S].

    at_once: keys that stand at the same position, one after the other: the hypotheses in the past of a search.
    """
    positions_S = torch.arange(keys, device=device) // at_once
    complete_NS = positions_S >= torch.arange(orders, device=device)[:, None]
    return (complete_NS if mask_XS is None else mask_XS[..., None, :] & complete_NS).flatten(-2)


def ngram_scores(queries_BhXW: Tensor, keys_BhXW: Tensor, mask: Tensor, scales: tuple[float, ...]) -> Tensor:
    """A [G, T, N*S] in float32, -inf where the mask is False; `scales` has one for each of the R rows of a query."""
    sentences, heads = queries_BhXW.shape[:2]
    products_GXY = torch.bmm(queries_BhXW.flatten(0, 1), keys_BhXW.flatten(0, 1).transpose(1, 2))
    scores_GXY = products_GXY.to(normalised_dtype(products_GXY))
    _scale_rows(scores_GXY, scales)
    scores_BhTX = scores_GXY.view(sentences, heads, -1, mask.shape[-1]).masked_fill_(~mask, -torch.inf)
    return scores_BhTX.flatten(0, 1)


def _scale_rows(scores_GXY: Tensor, scales: tuple[float, ...]) -> None:
    by_row_XRY = scores_GXY.view(-1, len(scales), scores_GXY.shape[-1])
    for row, scale in enumerate(scales):
        by_row_XRY[:, row].mul_(scale)


def ngram_attend(
    queries_BhXW: Tensor,
    keys_BhXW: Tensor,
    values_BhNSE: Tensor,
    *,
    mask: Tensor,
    scales: tuple[float, ...],
    probability: float,
) -> Tensor:
    """softmax(A) V, heads side by side: [B, T, D]. mask: [B, 1, 1, N*S], [B, 1, T, N*S] or [T, N*S]."""
    scores_GTX = ngram_scores(queries_BhXW, keys_BhXW, mask, scales)
    weights_GTX = torch.softmax(scores_GTX, dim=-1)
    if probability > 0:
        weights_GTX = dropout(weights_GTX, probability)
    values_GXE = values_BhNSE.flatten(2, 3).flatten(0, 1)
    attended_GTE = torch.bmm(weights_GTX.to(values_GXE.dtype), values_GXE)
    return attended_GTE.view(*queries_BhXW.shape[:2], *attended_GTE.shape[1:]).transpose(1, 2).flatten(2)


@dataclass(frozen=True, kw_only=True)
class NgramCache:
    """What a search keeps of the past: n-grams of all hypotheses, each at its last token, and their newest tokens.

    entries: keys and values of all orders side by side, each N*E wide.
    newest_LBKPX: projections of the last P = N-1 tokens of each hypothesis in each of L layers, 0 before the first:
    n-grams begin there. Other hypotheses share the entries of the past, but not its end.
    """

    entries: BeamCache
    newest_LBKPX: Tensor

    @property
    def steps(self) -> int:
        return self.entries.steps

    def grown(self) -> NgramCache:
        return replace(self, entries=self.entries.grown())

    def reordered(self, parents_BK: Tensor) -> NgramCache:
        sentences, beams = parents_BK.shape
        rows_BK = torch.arange(sentences, device=parents_BK.device)[:, None] * beams + parents_BK
        newest_LBKPX = self.newest_LBKPX.flatten(1, 2).index_select(1, rows_BK.flatten()).view_as(self.newest_LBKPX)
        return NgramCache(entries=self.entries.reordered(parents_BK), newest_LBKPX=newest_LBKPX)

    def select_sentences(self, sentences: Tensor) -> NgramCache:
        return NgramCache(
            entries=self.entries.select_sentences(sentences), newest_LBKPX=self.newest_LBKPX.index_select(1, sentences)
        )


class _NgramAttention(nn.Module):
    """What both attentions to n-grams have in common: their matrices, and where the projections by them go."""

    def __init__(self, width: int, heads: int, dropout: float, *, ngrams: int, score: Score) -> None:
        super().__init__()
        self.width, self.heads, self.dropout, self.orders, self.score = width, heads, dropout, ngrams, score
        head_width = width // heads
        tokens = [(n, t) for n in range(1, ngrams + 1) for t in range(n)]  # a block for each token of each order
        convolution = Layout(ngrams, tuple((block, n - 1, n - 1 - t) for block, (n, t) in enumerate(tokens)))
        if score == "query_kernel":
            ends_of_rows = tuple((block, n * ngrams - n + t, 0) for block, (n, t) in enumerate(tokens))
            window = tuple((0, slot, ngrams - 1 - slot) for slot in range(ngrams))
            self.query_layout = Layout(ngrams * ngrams, ends_of_rows, row=ngrams)
            self.key_layout = Layout(ngrams, window, row=ngrams)
            self.scales = tuple((n * head_width) ** -0.5 for n in range(1, ngrams + 1))
            self.query_blocks, key_blocks = len(tokens), 1
        else:
            self.query_layout = Layout(1, ((0, 0, 0),))
            self.key_layout = convolution
            self.scales = (head_width**-0.5,)
            self.query_blocks, key_blocks = 1, len(tokens)
        self.value_layout = convolution.after(key_blocks)
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def query_matrices(self) -> Tensor:
        """Wq, or those of all orders one below the other."""
        return xavier_blocks(self.width, self.width, blocks=self.query_blocks).detach()

    def key_value_matrices(self) -> Tensor:
        """Wk or those of all orders, and Wv of all orders."""
        one_key = self.score == "query_kernel"
        keys = xavier_blocks(self.width, self.width).detach() if one_key else self.convolution_matrices()
        return torch.cat((keys, self.convolution_matrices()))

    def convolution_matrices(self) -> Tensor:
        """n matrices for each order n. The sum of n projections is to vary like one of them."""
        orders = range(1, self.orders + 1)
        return torch.cat([xavier_blocks(self.width, self.width, blocks=n).detach() * n**-0.5 for n in orders])

    def arrange(self, projection_BSX: Tensor, *layouts: Layout) -> tuple[Tensor, ...]:
        return _Arrange.apply(projection_BSX, self.heads, self.width, *layouts)  # type: ignore[no-untyped-call, no-any-return]

    def by_order(self, values_BhXE: Tensor) -> Tensor:
        """[B, h, N*S, E] -> [B, h, N, S, E]."""
        return values_BhXE.view(*values_BhXE.shape[:2], self.orders, -1, values_BhXE.shape[-1])

    def attend(self, queries_BhXW: Tensor, keys_BhXW: Tensor, values_BhNSE: Tensor, mask: Tensor) -> Tensor:
        """Attention and the output projection: [B, T, D]."""
        attended_BTD = ngram_attend(
            queries_BhXW,
            keys_BhXW,
            values_BhNSE,
            mask=mask,
            scales=self.scales,
            probability=self.dropout if self.training else 0.0,
        )
        return F.linear(attended_BTD, self.output)

    def mass(self, queries_BhXW: Tensor, keys_BhXW: Tensor, mask: Tensor) -> Tensor:
        """How much of each query's attention lies on each order, the mean of all heads: [B, T, N]."""
        weights_GTX = torch.softmax(ngram_scores(queries_BhXW, keys_BhXW, mask, self.scales), dim=-1)
        weights_BhTNS = weights_GTX.view(
            -1, self.heads, weights_GTX.shape[1], self.orders, mask.shape[-1] // self.orders
        )
        return weights_BhTNS.sum(-1).mean(1)


class NgramSelfAttention(_NgramAttention):
    """Attention of x to the n-grams of x: all projections from one multiplication with [Wq_n; Wk; Wv_n]."""

    def __init__(self, width: int, heads: int, dropout: float, *, ngrams: int, score: Score) -> None:
        super().__init__(width, heads, dropout, ngrams=ngrams, score=score)
        self.query_key_value = nn.Parameter(torch.cat((self.query_matrices(), self.key_value_matrices())))

    def arranged(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values."""
        layouts = (layout.after(self.query_blocks) for layout in (self.key_layout, self.value_layout))
        return self.arrange(F.linear(x_BTD, self.query_key_value), self.query_layout, *layouts)

    def forward(self, x_BTD: Tensor, mask: Tensor | None) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        queries_BhXW, keys_BhXW, values_BhXE = self.arranged(x_BTD)
        ngrams = ngram_mask(mask, self.orders, x_BTD.shape[1], x_BTD.device)
        return self.attend(queries_BhXW, keys_BhXW, self.by_order(values_BhXE), ngrams)

    def mass_of_orders(self, x_BTD: Tensor, mask: Tensor | None) -> Tensor:
        """[B, T, N]: what `forward` gives to n-grams of each order."""
        queries_BhXW, keys_BhXW, _ = self.arranged(x_BTD)
        return self.mass(queries_BhXW, keys_BhXW, ngram_mask(mask, self.orders, x_BTD.shape[1], x_BTD.device))

    def cache(self, *, layers: int, beams: int, like_BXD: Tensor) -> NgramCache:
        """What a search keeps of the past in all layers, for as many sentences and of the type of `like_BXD`."""
        sentences = like_BXD.shape[0]
        like_BXX = like_BXD.new_empty(sentences, 0, self.orders * self.width)
        blocks = len(self.query_key_value) - self.query_blocks * self.width
        return NgramCache(
            entries=BeamCache.empty(layers=layers, beams=beams, heads=self.heads, like_BXD=like_BXX),
            newest_LBKPX=like_BXD.new_zeros(layers, sentences, beams, self.orders - 1, blocks),
        )

    def step(self, x_BKD: Tensor, cache: NgramCache, layer: int) -> Tensor:
        """The newest position of K hypotheses, which are the queries of a sentence here: [B, K, D] -> [B, K, D]."""
        sentences, beams, _ = x_BKD.shape
        projection_BKX = F.linear(x_BKD, self.query_key_value)
        queries_BKX, newest_BKX = projection_BKX.tensor_split([self.query_blocks * self.width], dim=-1)
        (queries_BhXW,) = self.arrange(queries_BKX, self.query_layout)

        last_BKNX = torch.cat((cache.newest_LBKPX[layer], newest_BKX[:, :, None]), dim=2)
        cache.newest_LBKPX[layer] = last_BKNX[:, :, 1:]
        layouts = self.key_layout, self.value_layout
        new_BhKX = []
        for layout, arranged in zip(layouts, self.arrange(last_BKNX.flatten(0, 1), *layouts), strict=True):
            ending_here_XGhE = layout.by_slot(arranged)[:, :, :, -1]
            new_BhKX.append(
                ending_here_XGhE.permute(1, 2, 0, 3).reshape(sentences, beams, self.heads, -1).transpose(1, 2)
            )
        keys_values_2BhLX = cache.entries.add(layer, *new_BhKX)

        keys_BhLX, values_BhLX = keys_values_2BhLX
        entries = keys_BhLX.shape[:3]
        keys_BhXW = keys_BhLX.view(*entries, -1, queries_BhXW.shape[-1]).transpose(2, 3).flatten(2, 3)
        values_BhNLE = values_BhLX.view(*entries, self.orders, -1).transpose(2, 3)
        mask = ngram_mask(cache.entries.mask_B1KL, self.orders, entries[2], x_BKD.device, at_once=beams)
        return self.attend(queries_BhXW, keys_BhXW, values_BhNLE, mask)


class NgramKeyValueAttention(_NgramAttention):
    """Attention of x to the n-grams of a memory, whose keys and values a search makes once per sentence."""

    def __init__(self, width: int, heads: int, dropout: float, *, ngrams: int, score: Score) -> None:
        super().__init__(width, heads, dropout, ngrams=ngrams, score=score)
        self.query = nn.Parameter(self.query_matrices())
        self.key_value = nn.Parameter(self.key_value_matrices())

    def project_memory(self, memory_BSD: Tensor) -> Projected:
        """Keys and values of the n-grams: ([1, B, h, S or N*S, W], [1, B, h, N*S, E])."""
        keys_BhXW, values_BhXE = self.arrange(F.linear(memory_BSD, self.key_value), self.key_layout, self.value_layout)
        return keys_BhXW[None], values_BhXE[None]

    def forward(self, x_BTD: Tensor, keys_values: Projected, mask: Tensor | None) -> Tensor:
        """[B, T, D] -> [B, T, D]; T may as well be the hypotheses of a sentence."""
        (keys_BhXW,), (values_BhXE,) = keys_values
        (queries_BhXW,) = self.arrange(F.linear(x_BTD, self.query), self.query_layout)
        values_BhNSE = self.by_order(values_BhXE)
        ngrams = ngram_mask(mask, self.orders, values_BhNSE.shape[3], x_BTD.device)
        return self.attend(queries_BhXW, keys_BhXW, values_BhNSE, ngrams)

    def mass_of_orders(self, x_BTD: Tensor, keys_values: Projected, mask: Tensor | None) -> Tensor:
        """[B, T, N]: what `forward` gives to n-grams of each order."""
        (keys_BhXW,), (values_BhXE,) = keys_values
        (queries_BhXW,) = self.arrange(F.linear(x_BTD, self.query), self.query_layout)
        return self.mass(
            queries_BhXW, keys_BhXW, ngram_mask(mask, self.orders, values_BhXE.shape[2] // self.orders, x_BTD.device)
        )
