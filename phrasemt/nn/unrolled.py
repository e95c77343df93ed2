"""Operations that use the same weights at every step of a loop over positions.

One large product costs less than many small ones. A state depends on the state before it, but the gradients of weights
do not depend on an order: each step notes the two factors of its share, and after the last step one product computes
the sum of all shares. Weights are converted to the type of products once. tanh(keys + query) is the largest tensor here
and is never kept: the backward pass computes it again, for a few sentences at a time, which fit into the caches of a
CPU.

The weights enter the graph through a node that returns only a token. The token is an input of all steps, so the
gradient reaches this node last, after all steps have noted their factors.

Letters: B sentences, K hypotheses of each, N = B * K rows, S source positions, I and O widths of input and output, H
state width, A width of attention, C width of the source states; X any axes in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from phrasemt.nn.losses import slices
from phrasemt.nn.precision import matmul_dtype, normalised_dtype
from phrasemt.nn.recording import Record

# Number of elements of tanh(keys + query) that are computed at a time, by type of device.
ENERGIES_AT_ONCE = {"cpu": 2**18, "cuda": 2**28}


class _Token(torch.autograd.Function):
    """The node before all steps.

    gradients: a function that returns one gradient, or None, for each parameter, after all steps have noted factors.
    """

    @staticmethod
    def forward(ctx: Any, gradients: Callable[[], tuple[Tensor | None, ...]], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return parameters[0].new_empty(0)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients()


class Notes:
    """A pair of factors for each step. A step that is differentiated again replaces its pair."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Tensor, Tensor] | None] = []

    def place(self) -> int:
        """Return the place where the next step will note its pair."""
        self._pairs.append(None)
        return len(self._pairs) - 1

    def note(self, place: int, one: Tensor, other: Tensor) -> None:
        self._pairs[place] = one.detach(), other.detach()

    def joined(self, dim: int) -> tuple[Tensor, Tensor]:
        """Return the first factors of all pairs, concatenated along an axis, and the second ones; forget all pairs."""
        ones, others = zip(*(pair for pair in self._pairs if pair is not None), strict=True)
        self._pairs = [None] * len(self._pairs)
        return torch.cat(ones, dim), torch.cat(others, dim)


class _Product:
    """The product x W^T + b of each step."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        self.dtype, self.exact = matmul_dtype(weight_OI), weight_OI.dtype
        self.weight_OI = weight_OI.detach().to(self.dtype)
        self.bias_O = None if bias_O is None else bias_O.detach().to(self.dtype)
        self.notes = Notes()

    def forward(self, x_NI: Tensor) -> tuple[Tensor, Tensor]:
        """Return the product, and the rows in its type, for `backward`."""
        rows_NI = x_NI.to(self.dtype)
        return F.linear(rows_NI, self.weight_OI, self.bias_O), rows_NI

    def backward(self, place: int, rows_NI: Tensor, gradient_NO: Tensor) -> Tensor:
        """Return the gradient of x in the exact type."""
        gradient_fast_NO = gradient_NO.to(self.dtype)
        self.notes.note(place, gradient_fast_NO, rows_NI)
        return (gradient_fast_NO @ self.weight_OI).to(self.exact)

    def gradients(self) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of weight and bias."""
        gradients_NO, rows_NI = self.notes.joined(0)
        bias_O = None if self.bias_O is None else gradients_NO.sum(0, dtype=self.exact)
        return (gradients_NO.T @ rows_NI).to(self.exact), bias_O


class _LinearStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_XI: Tensor, token: Tensor, product: _Product) -> Tensor:
        y_NO, rows_NI = product.forward(x_XI.reshape(-1, x_XI.shape[-1]))
        ctx.save_for_backward(rows_NI)
        ctx.product, ctx.place = product, product.notes.place()
        return y_NO.view(*x_XI.shape[:-1], -1)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_XO: Tensor) -> tuple[Tensor | None, ...]:
        (rows_NI,) = ctx.saved_tensors
        d_x_NI = ctx.product.backward(ctx.place, rows_NI, gradient_XO.reshape(-1, gradient_XO.shape[-1]))
        return d_x_NI.view(*gradient_XO.shape[:-1], -1), None, None


class LinearSteps:
    """A linear map [..., I] -> [..., O] whose inputs become known step by step."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        self._product = _Product(weight_OI, bias_O)
        self._token = _Token.apply(self._product.gradients, weight_OI, bias_O)  # type: ignore[no-untyped-call]

    def __call__(self, x_XI: Tensor) -> Tensor:
        y_XO: Tensor = _LinearStep.apply(x_XI, self._token, self._product)  # type: ignore[no-untyped-call]
        return y_XO


class _GruStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected_X3H: Tensor, h_XH: Tensor, token: Tensor, product: _Product) -> Tensor:
        width = h_XH.shape[-1]
        x_N3H, h_NH = projected_X3H.reshape(-1, 3 * width), h_XH.reshape(-1, width)
        gates_N3H, rows_NH = product.forward(h_NH)
        gates_N3H = gates_N3H.to(h_NH.dtype)
        gates_N3H[:, : 2 * width].add_(x_N3H[:, : 2 * width]).sigmoid_()
        reset_NH, update_NH, recurrent_NH = gates_N3H.chunk(3, dim=1)
        candidate_NH = torch.addcmul(x_N3H[:, 2 * width :].to(h_NH.dtype), reset_NH, recurrent_NH).tanh_()
        ctx.save_for_backward(h_NH, gates_N3H, candidate_NH, rows_NH)
        ctx.product, ctx.place, ctx.shape, ctx.x_dtype = (
            product,
            product.notes.place(),
            projected_X3H.shape,
            projected_X3H.dtype,
        )
        return torch.lerp(candidate_NH, h_NH, update_NH).view(h_XH.shape)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_XH: Tensor) -> tuple[Tensor | None, ...]:
        h_NH, gates_N3H, candidate_NH, rows_NH = ctx.saved_tensors
        width = h_NH.shape[1]
        reset_NH, update_NH, recurrent_NH = gates_N3H.chunk(3, dim=1)
        gradient_NH = gradient_XH.reshape(-1, width)
        d_x_N3H, d_h_N3H = torch.empty_like(gates_N3H), torch.empty_like(gates_N3H)
        kept_NH = gradient_NH * update_NH
        d_candidate_NH = torch.ops.aten.tanh_backward(gradient_NH - kept_NH, candidate_NH)
        d_reset_NH = torch.ops.aten.sigmoid_backward(d_candidate_NH * recurrent_NH, reset_NH)
        d_update_NH = torch.ops.aten.sigmoid_backward(gradient_NH * (h_NH - candidate_NH), update_NH)
        torch.cat((d_reset_NH, d_update_NH, d_candidate_NH), dim=1, out=d_x_N3H)
        torch.cat((d_reset_NH, d_update_NH, d_candidate_NH * reset_NH), dim=1, out=d_h_N3H)
        d_h_NH = ctx.product.backward(ctx.place, rows_NH, d_h_N3H).add_(kept_NH)
        return d_x_N3H.to(ctx.x_dtype).view(ctx.shape), d_h_NH.view(gradient_XH.shape), None, None


class GruSteps:
    """The steps of a `GruCell` along one sequence."""

    def __init__(
        self,
        input_3HI: Tensor,
        input_bias_3H: Tensor | None,
        hidden_3HH: Tensor,
        hidden_bias_3H: Tensor | None,
    ) -> None:
        self._input = input_3HI, input_bias_3H
        self._product = _Product(hidden_3HH, hidden_bias_3H)
        self._token = _Token.apply(self._product.gradients, hidden_3HH, hidden_bias_3H)  # type: ignore[no-untyped-call]

    @cached_property
    def project(self) -> LinearSteps:
        """The projection of inputs, [..., I] -> [..., 3H]. Inputs known before the loop belong to `GruCell.project`."""
        return LinearSteps(*self._input)

    def __call__(self, projected_X3H: Tensor, h_XH: Tensor) -> Tensor:
        """Return the next state [..., H] for a projected input [..., 3H] and the last state [..., H]."""
        next_XH: Tensor = _GruStep.apply(projected_X3H, h_XH, self._token, self._product)  # type: ignore[no-untyped-call]
        return next_XH


class _Reading:
    """The keys and states to which the queries of all steps attend."""

    def __init__(
        self, keys_BSA: Tensor, states_BSC: Tensor, mask_BS: Tensor, score_A: Tensor, record: Record | None
    ) -> None:
        exact = normalised_dtype(states_BSC)
        self.keys_BSA, self.states_BSC, self.score_A = (
            tensor.detach().to(exact) for tensor in (keys_BSA, states_BSC, score_A)
        )
        self.unused_B1S = ~mask_BS[:, None]
        self.dtypes = keys_BSA.dtype, states_BSC.dtype, score_A.dtype
        self.record = record
        self.notes = Notes()
        self.d_keys_BSA: Tensor | None = None  # without the factor v, which is equal in all steps
        self.d_score_A = torch.zeros_like(self.score_A)

    def energies(self, query_BKA: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield tanh(keys + query) [b, K, S, A] for some sentences at a time, always in the same memory."""
        shape = torch.Size((*query_BKA.shape[:2], *self.keys_BSA.shape[1:]))
        parts = slices(shape[0], ENERGIES_AT_ONCE[query_BKA.device.type] // shape[1:].numel())
        place_bKSA = self.keys_BSA.new_empty(parts[0].stop, *shape[1:])
        for some in parts:
            energies_bKSA = place_bKSA[: some.stop - some.start]
            torch.add(self.keys_BSA[some, None], query_BKA[some, :, None], out=energies_bKSA)
            yield some, energies_bKSA.tanh_()

    def weights(self, query_BKA: Tensor) -> Tensor:
        """Return softmax_j(v . tanh(q + k_j)) [B, K, S]."""
        scores_BKS = query_BKA.new_empty(*query_BKA.shape[:2], self.keys_BSA.shape[1])
        for some, energies_bKSA in self.energies(query_BKA):
            scores_BKS[some] = energies_bKSA @ self.score_A
        return torch.softmax(scores_BKS.masked_fill_(self.unused_B1S, -torch.inf), dim=-1)

    def backward(self, query_BKA: Tensor, d_scores_BKS: Tensor) -> Tensor:
        """Return the gradient of the queries, and add to the gradients of keys and v."""
        if self.d_keys_BSA is None:
            self.d_keys_BSA = torch.zeros_like(self.keys_BSA)
        d_query_BKA = torch.empty_like(query_BKA)
        one = query_BKA.new_ones(())
        for some, energies_bKSA in self.energies(query_BKA):
            d_scores_bKS = d_scores_BKS[some]
            self.d_score_A += d_scores_bKS.flatten() @ energies_bKSA.flatten(0, 2)
            slopes_bKSA = torch.addcmul(one, energies_bKSA, energies_bKSA, value=-1, out=energies_bKSA)
            d_query_BKA[some] = (d_scores_bKS[:, :, None] @ slopes_bKSA).squeeze(2)
            for d_scores_bS, slopes_bSA in zip(d_scores_bKS.unbind(1), slopes_bKSA.unbind(1), strict=True):
                self.d_keys_BSA[some].addcmul_(d_scores_bS[..., None], slopes_bSA)
        return d_query_BKA.mul_(self.score_A)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients of keys, states, v and c; the gradient of c is 0, because softmax ignores a constant."""
        weights_BNS, d_contexts_BNC = self.notes.joined(1)
        d_states_BSC = weights_BNS.transpose(1, 2) @ d_contexts_BNC
        assert self.d_keys_BSA is not None
        gradients = self.d_keys_BSA.mul_(self.score_A), d_states_BSC, self.d_score_A
        self.d_keys_BSA, self.d_score_A = None, torch.zeros_like(self.score_A)
        keys, states, score = (g.to(dtype) for g, dtype in zip(gradients, self.dtypes, strict=True))
        return keys, states, score[None], score.new_zeros(1)


class _AttentionStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_BKA: Tensor, token: Tensor, reading: _Reading) -> Tensor:
        exact_BKA = query_BKA.to(reading.keys_BSA.dtype)
        with torch.autocast(query_BKA.device.type, enabled=False):
            weights_BKS = reading.weights(exact_BKA)
            if reading.record is not None:
                reading.record(weights_BKS[:, None, :, None])
            context_BKC = weights_BKS @ reading.states_BSC
        ctx.save_for_backward(exact_BKA, weights_BKS)
        ctx.reading, ctx.place, ctx.dtype = reading, reading.notes.place(), query_BKA.dtype
        return context_BKC

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, d_context_BKC: Tensor) -> tuple[Tensor | None, ...]:
        exact_BKA, weights_BKS = ctx.saved_tensors
        reading: _Reading = ctx.reading
        reading.notes.note(ctx.place, weights_BKS, d_context_BKC)
        shares_BKS = (d_context_BKC @ reading.states_BSC.transpose(1, 2)) * weights_BKS
        d_scores_BKS = torch.addcmul(shares_BKS, weights_BKS, shares_BKS.sum(-1, keepdim=True), value=-1)
        return reading.backward(exact_BKA, d_scores_BKS).to(ctx.dtype), None, None


class AttentionSteps:
    """sum_j alpha_j h_j with alpha = softmax_j(v . tanh(W q + k_j) + c), for queries that become known step by step.

    W, v and c are query_AI, score_1A and bias_1; mask_BS is True at positions that may be attended to. record: takes
    the weights of each step, [B, 1, K, 1, S].
    """

    def __init__(
        self,
        query_AI: Tensor,
        keys_BSA: Tensor,
        states_BSC: Tensor,
        mask_BS: Tensor,
        score_1A: Tensor,
        bias_1: Tensor,
        record: Record | None = None,
    ) -> None:
        self._query = LinearSteps(query_AI)
        self._reading = _Reading(keys_BSA, states_BSC, mask_BS, score_1A.squeeze(0), record)
        self._token = _Token.apply(self._reading.gradients, keys_BSA, states_BSC, score_1A, bias_1)  # type: ignore[no-untyped-call]

    def __call__(self, query_BXI: Tensor) -> Tensor:
        """Return the contexts of one query per sentence, [B, I] -> [B, C], or of K queries, [B, K, I] -> [B, K, C]."""
        query_BXA = self._query(query_BXI)
        query_BKA = query_BXA if query_BXA.ndim == 3 else query_BXA[:, None]
        context_BKC: Tensor = _AttentionStep.apply(query_BKA, self._token, self._reading)  # type: ignore[no-untyped-call]
        return context_BKC.view(*query_BXI.shape[:-1], -1)
