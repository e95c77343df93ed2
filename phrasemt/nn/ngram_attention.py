"""Phrasal attention: multi-head attention to n-grams of keys, of all orders up to 2, 3 or 4 together.

Nguyen, Joty, Nguyen (2019): Enhancing Attention with Explicit Phrasal Alignments. Submission to ICLR 2020.

Notation
    paper       here                       shape
    d           width, D                   512 (base)
    h           heads, h                   8
    n           1..N = ngrams              orders of n-grams; key and value of an n-gram stand at its last token
    l_q, l_k    T, S                       numbers of queries and keys
    W_q (of n)  query                      [n*D, D] for each n, one below the other
    W_k         key                        [D, D], one for all n (score static: [n*D, D] for each n)
    W_v (of n)  value                      [n*D, D] for each n, one below the other
    A           scores                     [B, h, T, N*S]

Equations
    Eq. (1)  attention: softmax over the keys
    Eq. (4)  convolution over n tokens: values of n-grams (score static: also their keys)
    Eq. (5)  query as kernel: the score of an n-gram is a sum of one product for each of its tokens
    Eqs. (7-12)  heads, and one softmax over the n-grams of all orders

Deviations and choices (docs/decisions.md, N1-N9)
    Eq. (4), (5)  without padding S keys have S-n+1 n-grams (N1). A query may use an n-gram if it may use the n-gram's
                  last token; the paper does not say which n-grams the decoder may use (N3)
    Eq. (5)       divided by sqrt(n d/h) in each head (N2)
    Places: all three attentions, because only this gives the paper's numbers of parameters (N4)
    norm: pre, tie: all, no softmax bias, dropout in four places: as tensor2tensor, in preset nguyen2020-paper (N7, N8)
    Initial values: the n matrices of W_v are Xavier-uniform, divided by sqrt(n): equal variance of values for all n.

The n-gram of the keys j-n+1..j has the position of its last token j. For n = 1..N, without the index of the head:
    A_n[i, j] = sum over t < n of Q_n[i, t] . K[j-n+1+t] / sqrt(n E)      score query_kernel
    A_n[i, j] = Q[i] . K_n[j] / sqrt(E),  K_n computed like V_n           score static
    A_n[i, j] = sum over t < n of Q_n[i, t] . K[j] / sqrt(n E)            score last_token
    V_n[j] = sum over t < n of x[j-n+1+t] Wv_n[t]
    output = (softmax over all (n, j) of A) V Wo
N = 1 is plain attention, with the same parameters.

Score last_token is ours, a control: values are those of the paper, but the score of an n-gram depends on its last token
alone. It has the parameters of query_kernel, trains all of them, and its scores start with the same variance; where the
tokens of an n-gram have one key, the two scores are equal. The n matrices of an order act as their sum, so it has n
times the parameters of W_q that such scores need. What query_kernel gains over it comes from attention to phrases, what
it gains over the Transformer from the composition of values and from the softmax over n-grams.

Letters: B sentences, T query positions, S key positions, D model width, h heads, E = d/h head width, N longest n-gram,
K hypotheses, L past entries of a search, G = B*h, R = 1 or N rows of queries per position, Q = 1 or N rows of keys,
W width of a row.

One product computes all scores. A query has one row for each order, N*E wide. A key is the window of N tokens that ends
at its position; the row of a shorter order begins with zeros. Scores [T*N, S] are therefore scores [T, N*S], and the
softmax needs no concatenation. With static scores the keys have one row for each order: [T, E] times [N*S, E].

Masks are the masks of plain attention, over tokens: a query may use an n-gram if it may use its last token. Padding
follows the sentence, so the other tokens of the n-gram are real, too. No query may use an n-gram that would begin
before the sentence. With scores of the last token, the window repeats this token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.nn.attention import Projected, RecordableAttention, heads_first
from phrasemt.nn.beams import BeamCache
from phrasemt.nn.layers import Mask, dropout, xavier_blocks
from phrasemt.nn.precision import normalised_dtype

Score = Literal["query_kernel", "static", "last_token"]
# A block, a slot, and a shift of positions; backwards a slot, a block, and a shift.
Move = tuple[int, int, int]


@dataclass(frozen=True)
class Layout:
    """The places of the blocks of a fused projection [B, S, blocks*D] in a tensor [B, h, rows, W] of slots [S, E].

    slots: number of places for a block, each with all positions; a slot without a block is 0.
    moves: (block, slot, shift): position j of the block is added to position j + shift of the slot.
    row: number of slots in a row. With several slots per row, all slots of a position come before the next position;
    with one slot per row, all positions of a slot come before the next slot.

    The layouts for N = 2 and score query_kernel, for two positions of one head. a1 is block a at position 1; each line
    on the right is one row of the arranged tensor, with its slots from left to right:

                           queries: slots=4, row=2   keys: slots=2, row=2     values: slots=2, row=1
        blocks             a, b, c = Q_1, Q_2, Q_2   a = K                    a, b, c = V_1, V_2, V_2
        moves              (0,1,0) (1,2,0) (2,3,0)   (0,0,1) (0,1,0)          (0,0,0) (1,1,1) (2,1,0)

        position 0         slots 0, 1:   0   a0      slots 0, 1:   0   a0     slot 0:   a0
        a0  b0  c0         slots 2, 3:   b0  c0                    a0  a1               a1
        position 1         slots 0, 1:   0   a1                               slot 1:   c0
        a1  b1  c1         slots 2, 3:   b1  c1                                         b0 + c1

    A row of queries times a row of keys is the score of an n-gram: (0, a1) of order 1, (b1, c1) of order 2.
    """

    slots: int
    moves: tuple[Move, ...]
    row: int = 1

    def after(self, blocks: int) -> Layout:
        """Return the layout for a projection with this number of other blocks in front."""
        return replace(self, moves=tuple((block + blocks, slot, shift) for block, slot, shift in self.moves))

    def shape(self, blocks_XBhSE: Tensor) -> tuple[int, int, int, int]:
        """Return the shape [B, h, rows, W] of the arranged tensor."""
        _, sentences, heads, positions, head_width = blocks_XBhSE.shape
        return sentences, heads, positions * self.slots // self.row, self.row * head_width

    def by_slot(self, arranged_BhXW: Tensor) -> Tensor:
        """Return an arranged tensor [B, h, rows, W] as a view [slots, B, h, S, E]."""
        sentences, heads, _, width = arranged_BhXW.shape
        if self.row == 1:
            return arranged_BhXW.view(sentences, heads, self.slots, -1, width).permute(2, 0, 1, 3, 4)
        return arranged_BhXW.view(sentences, heads, -1, self.slots, width // self.row).permute(3, 0, 1, 2, 4)


def shift(source_XBhSE: Tensor, target_XBhSE: Tensor, moves: Iterable[Move]) -> None:
    """Fill the target with the sums of the moves (from, to, shift), and with zeros elsewhere."""
    positions = source_XBhSE.shape[3]
    empty = set(range(len(target_XBhSE)))
    for origins, places, distance, adds in _runs(moves):
        overlap, start, skipped = max(positions - abs(distance), 0), max(distance, 0), max(-distance, 0)
        target_NBhSE = target_XBhSE[places]
        moved_NBhSE = source_XBhSE[origins, :, :, skipped : skipped + overlap]
        moved_to_NBhSE = target_NBhSE[:, :, :, start : start + overlap]
        if adds:
            moved_to_NBhSE.add_(moved_NBhSE)  # += would copy the sum to its own place once more
            continue
        moved_to_NBhSE.copy_(moved_NBhSE)
        empty.difference_update(range(places.start, places.stop))
        if start:
            target_NBhSE[:, :, :, :start] = 0
        if skipped:
            target_NBhSE[:, :, :, overlap:] = 0
    for place in empty:
        target_XBhSE[place] = 0


def _runs(moves: Iterable[Move]) -> list[tuple[slice, slice, int, bool]]:
    """Join moves of neighbours to neighbours by the same shift, for which one operation is enough.

    Returns (from, to, shift, whether the places have numbers already, to which these are added), short shifts first.
    """
    runs: list[tuple[slice, slice, int, bool]] = []
    filled: set[int] = set()
    for origin, place, distance in sorted(moves, key=lambda move: abs(move[2])):
        adds = place in filled
        filled.add(place)
        if runs and (runs[-1][0].stop, runs[-1][1].stop, *runs[-1][2:]) == (origin, place, distance, adds):
            runs[-1] = slice(runs[-1][0].start, origin + 1), slice(runs[-1][1].start, place + 1), distance, adds
        else:
            runs.append((slice(origin, origin + 1), slice(place, place + 1), distance, adds))
    return runs


class _Arrange(torch.autograd.Function):
    """Copies each block once into each of its slots, and gradients back. autograd's own slices would copy much more."""

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


def _in_plain_operations(blocks_XBhSE: Tensor, layout: Layout) -> Tensor:
    """What `_Arrange` returns for a layout. A compiler makes one kernel of it each way."""
    blank_BhSE, positions = torch.zeros_like(blocks_XBhSE[0]), blocks_XBhSE.shape[3]
    slots = [blank_BhSE] * layout.slots
    for block, slot, distance in layout.moves:
        distance = min(distance, positions)
        moved_BhSE = F.pad(blocks_XBhSE[block], (0, 0, distance, -distance))
        slots[slot] = moved_BhSE if slots[slot] is blank_BhSE else slots[slot] + moved_BhSE
    return torch.stack(slots, dim=2 if layout.row == 1 else 3).reshape(layout.shape(blocks_XBhSE))


def ngram_mask(mask: Mask, orders: int, at_once: int = 1) -> Mask:
    """Return the mask of n-grams [..., N*S], given where a query may use a token [..., S].

    at_once: number of neighbouring keys with the same position, such as the hypotheses in the cache of a search.
    """
    keys, device = mask.allowed_XS.shape[-1], mask.allowed_XS.device
    first_N1 = torch.arange(0, orders * at_once, at_once, device=device)[:, None]  # the first key that ends an n-gram
    if mask.places_BS is None:
        complete_XNS = torch.arange(keys, device=device) >= first_N1
    else:
        complete_XNS = (mask.places_BS[:, None] >= first_N1)[:, None, None]
    return Mask((mask.allowed_XS[..., None, :] & complete_XNS).flatten(-2))


@dataclass(frozen=True, kw_only=True)
class NgramCache(BeamCache):
    """The past of a search: the n-grams of all hypotheses, each at its last token, and the newest tokens.

    Keys and values of all orders stand side by side, each N*E wide. Hypotheses share them.
    newest_LBKPW: projections of the last P = N-1 tokens of each hypothesis in each of L layers, 0 before the first
    token. The next n-grams begin with these tokens. Each hypothesis has its own.
    """

    newest_LBKPW: Tensor


class _NgramAttention(RecordableAttention):
    """Base of both attentions to n-grams: their matrices, and the layouts of the projections."""

    over_ngrams = True

    def __init__(self, width: int, heads: int, dropout: float, *, ngrams: int, score: Score) -> None:
        super().__init__()
        self.width, self.heads, self.dropout, self.orders, self.score = width, heads, dropout, ngrams, score
        tokens = [(n, t) for n in range(1, ngrams + 1) for t in range(n)]  # one block for each token of each order
        convolution = Layout(ngrams, tuple((block, n - 1, n - 1 - t) for block, (n, t) in enumerate(tokens)))  # Eq. (4)
        if score != "static":
            ends_of_rows = tuple((block, n * ngrams - n + t, 0) for block, (n, t) in enumerate(tokens))
            is_kernel = score == "query_kernel"
            window = tuple((0, slot, ngrams - 1 - slot if is_kernel else 0) for slot in range(ngrams))
            self.query_layout = Layout(ngrams * ngrams, ends_of_rows, row=ngrams)
            self.key_layout = Layout(ngrams, window, row=ngrams)
            self.query_rows, self.query_blocks, self.key_orders = ngrams, len(tokens), range(1, 2)
        else:
            self.query_layout = Layout(1, ((0, 0, 0),))
            self.key_layout = convolution
            self.query_rows, self.query_blocks, self.key_orders = 1, 1, range(1, ngrams + 1)
        self.value_layout = convolution.after(sum(self.key_orders))
        self.output = xavier_blocks(width, width)  # Wo [D, D]

    def query_matrices(self) -> Tensor:
        """Return Wq, or the Wq_n of all orders one below the other."""
        return xavier_blocks(self.width, self.width, blocks=self.query_blocks).detach()

    def key_value_matrices(self) -> Tensor:
        """Return Wk, or the Wk_n of all orders, and the Wv_n of all orders, one below the other.

        The n matrices of an order n are scaled so that the sum of n projections varies like one projection.
        """
        orders = (*self.key_orders, *range(1, self.orders + 1))
        return torch.cat([xavier_blocks(self.width, self.width, blocks=n).detach() * n**-0.5 for n in orders])

    def arrange(self, projection_BSX: Tensor, *layouts: Layout) -> tuple[Tensor, ...]:
        if torch.compiler.is_compiling():
            blocks_XBhSE = heads_first(projection_BSX, self.heads, self.width)
            return tuple(_in_plain_operations(blocks_XBhSE, layout) for layout in layouts)
        return _Arrange.apply(projection_BSX, self.heads, self.width, *layouts)  # type: ignore[no-untyped-call, no-any-return]

    def by_order(self, values_BhXE: Tensor) -> Tensor:
        """Return values [B, h, N*S, E] as a view [B, h, N, S, E]."""
        return values_BhXE.view(*values_BhXE.shape[:2], self.orders, -1, values_BhXE.shape[-1])

    def attend(self, queries_BhXW: Tensor, keys_BhXW: Tensor, values_BhNSE: Tensor, mask: Mask) -> Tensor:
        """Return softmax(A) V Wo: [B, T, D]. mask: of n-grams."""
        sentences, heads, orders, keys, head_width = values_BhNSE.shape
        scores_GXY = torch.bmm(queries_BhXW.flatten(0, 1), keys_BhXW.flatten(0, 1).transpose(1, 2))  # Eq. (5)
        scores_BhTRY = scores_GXY.view(sentences, heads, -1, self.query_rows, orders * keys // self.query_rows)
        widths_R = torch.arange(1, self.query_rows + 1, dtype=torch.float64, device=scores_GXY.device) * head_width
        # Not in place: the gradient of a change of a view copies all of it several times.
        scores_BhTRY = scores_BhTRY * widths_R.rsqrt().to(normalised_dtype(scores_GXY))[:, None]
        scores_BhTX = scores_BhTRY.flatten(3).masked_fill(mask.forbidden_XS, -torch.inf)
        weights_GTX = torch.softmax(scores_BhTX.flatten(0, 1), dim=-1)  # Eq. (1), Eqs. (7-12)
        if self.record is not None:
            self.record(weights_GTX.view(sentences, heads, -1, orders, keys))
        if self.training and self.dropout > 0:
            weights_GTX = dropout(weights_GTX, self.dropout)
        values_GXE = values_BhNSE.flatten(2, 3).flatten(0, 1)
        attended_BhTE = torch.bmm(weights_GTX.to(values_GXE.dtype), values_GXE).view(
            sentences, heads, -1, values_GXE.shape[-1]
        )
        return F.linear(attended_BhTE.transpose(1, 2).flatten(2), self.output)


class NgramSelfAttention(_NgramAttention):
    """Attention of x to the n-grams of x. One multiplication with [Wq_n; Wk; Wv_n] computes all projections."""

    def __init__(self, width: int, heads: int, dropout: float, *, ngrams: int, score: Score) -> None:
        super().__init__(width, heads, dropout, ngrams=ngrams, score=score)
        self.query_key_value = nn.Parameter(torch.cat((self.query_matrices(), self.key_value_matrices())))

    def arranged(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values in their layouts."""
        layouts = (layout.after(self.query_blocks) for layout in (self.key_layout, self.value_layout))
        return self.arrange(F.linear(x_BTD, self.query_key_value), self.query_layout, *layouts)

    def forward(self, x_BTD: Tensor, mask: Mask) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        queries_BhXW, keys_BhXW, values_BhXE = self.arranged(x_BTD)
        ngrams = mask.form(ngram_mask, self.orders)
        return self.attend(queries_BhXW, keys_BhXW, self.by_order(values_BhXE), ngrams)

    def cache(self, layers: int, *, sentences: int, beams: int, like: Tensor) -> NgramCache:
        """Return an empty cache for a search; `like` gives type and device."""
        blocks = len(self.query_key_value) - self.query_blocks * self.width
        newest_LBKPW = like.new_zeros(layers, sentences, beams, self.orders - 1, blocks)
        width = self.orders * self.width
        return NgramCache.empty(layers, sentences, beams, self.heads, width, like, newest_LBKPW=newest_LBKPW)

    def step(self, x_BKD: Tensor, cache: NgramCache, layer: int) -> Tensor:
        """Compute the newest position of K hypotheses, which take the place of the queries: [B, K, D] -> [B, K, D].

        Adds the n-grams that end at this position to the cache.
        """
        sentences, beams, _ = x_BKD.shape
        projection_BKX = F.linear(x_BKD, self.query_key_value)
        queries_BKX, newest_BKX = projection_BKX.tensor_split([self.query_blocks * self.width], dim=-1)
        (queries_BhXW,) = self.arrange(queries_BKX, self.query_layout)

        last_BKNX = torch.cat((cache.newest_LBKPW[layer], newest_BKX[:, :, None]), dim=2)
        cache.newest_LBKPW[layer] = last_BKNX[:, :, 1:]
        layouts = self.key_layout, self.value_layout
        new_BhKX = []
        for layout, arranged in zip(layouts, self.arrange(last_BKNX.flatten(0, 1), *layouts), strict=True):
            ending_here_XGhE = layout.by_slot(arranged)[:, :, :, -1]
            new_BhKX.append(
                ending_here_XGhE.permute(1, 2, 0, 3).reshape(sentences, beams, self.heads, -1).transpose(1, 2)
            )
        keys_values_2BhLX = cache.add(layer, *new_BhKX)

        keys_BhLX, values_BhLX = keys_values_2BhLX
        entries = keys_BhLX.shape[:3]
        keys_BhXW = keys_BhLX.view(*entries, -1, queries_BhXW.shape[-1]).transpose(2, 3).flatten(2, 3)
        values_BhNLE = values_BhLX.view(*entries, self.orders, -1).transpose(2, 3)
        mask = cache.mask.form(ngram_mask, self.orders, beams)
        return self.attend(queries_BhXW, keys_BhXW, values_BhNLE, mask)


class NgramKeyValueAttention(_NgramAttention):
    """Attention of x to the n-grams of a memory. A search computes their keys and values once per sentence."""

    def __init__(self, width: int, heads: int, dropout: float, *, ngrams: int, score: Score) -> None:
        super().__init__(width, heads, dropout, ngrams=ngrams, score=score)
        self.query = nn.Parameter(self.query_matrices())
        self.key_value = nn.Parameter(self.key_value_matrices())

    def project_memory(self, memory_BSD: Tensor) -> Projected:
        """Return keys and values of the n-grams: ([1, B, h, S or N*S, W], [1, B, h, N*S, E])."""
        keys_BhXW, values_BhXE = self.arrange(F.linear(memory_BSD, self.key_value), self.key_layout, self.value_layout)
        return keys_BhXW[None], values_BhXE[None]

    def forward(self, x_BTD: Tensor, keys_values: Projected, mask: Mask) -> Tensor:
        """[B, T, D] -> [B, T, D]. In a search, the hypotheses of a sentence take the place of the positions T."""
        (keys_BhXW,), (values_BhXE,) = keys_values
        (queries_BhXW,) = self.arrange(F.linear(x_BTD, self.query), self.query_layout)
        values_BhNSE = self.by_order(values_BhXE)
        ngrams = mask.form(ngram_mask, self.orders)
        return self.attend(queries_BhXW, keys_BhXW, values_BhNSE, ngrams)
