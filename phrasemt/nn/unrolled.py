"""Operations that use the same weights at every step of a loop over positions.

Three steps of y = x W^T, each of whose inputs depends on the output before:

                plain autograd                      here
    forward     y1 = x1 W^T                         y1 = x1 W^T
                y2 = x2 W^T                         y2 = x2 W^T
                y3 = x3 W^T                         y3 = x3 W^T
    backward    dx3 = dy3 W,  dW  = dy3^T x3        dx3 = dy3 W,  keep the pair (dy3, x3)
                dx2 = dy2 W,  dW += dy2^T x2        dx2 = dy2 W,  keep the pair (dy2, x2)
                dx1 = dy1 W,  dW += dy1^T x1        dx1 = dy1 W,  keep the pair (dy1, x1)
                                                    dW = [dy1; dy2; dy3]^T [x1; x2; x3]

dx must be computed step by step. dW must not: one large product costs less than three small ones, each of which reads
and writes all of dW. So W enters the graph through a node before all steps, which returns nothing but a token. The
token is an input of every step. autograd therefore calls that node after all steps have recorded their pairs, and it
returns dW. Weights are also converted to the type of products once, and not in each step.

`LinearSteps` is this example, `GruSteps` has it inside a cell, and for `AttentionSteps` the keys and states of the
source take the place of the weights. There tanh(keys + query) is the largest tensor and is never stored: the backward
pass computes it again, for a few sentences at a time, which fit into the caches of a CPU.

Letters: B sentences, K hypotheses of each, N = B * K rows, S source positions, I and O widths of input and output, H
state width, A width of attention, C width of the source states; X any axes in front.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from phrasemt.nn.attention import Record
from phrasemt.nn.losses import slices
from phrasemt.nn.precision import matmul_dtype, normalised_dtype

# Number of elements of tanh(keys + query) that are computed at a time, by type of device.
ENERGIES_AT_ONCE = {"cpu": 2**18, "cuda": 2**28}


class _Operation(ABC):
    """What the steps of a loop have in common: weights, and a pair of factors for each step, in the order of the steps.

    A step that is differentiated again replaces its pair. autograd converts gradients to the types of their tensors.
    """

    def __init__(self) -> None:
        self.pairs: list[tuple[Tensor, Tensor] | None] = []

    @abstractmethod
    def forward(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the output of a step, and the tensors that `backward` needs."""

    @abstractmethod
    def backward(self, step: int, gradient: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients of the inputs of a step, and keep its pair."""

    @abstractmethod
    def gradients(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of the parameters, after all steps have recorded their pairs."""

    def joined(self, dim: int) -> tuple[Tensor, Tensor]:
        """Return the first factors of all pairs, concatenated along an axis, and the second ones; forget all pairs."""
        ones, others = zip(*(pair for pair in self.pairs if pair is not None), strict=True)
        self.pairs = [None] * len(self.pairs)
        return torch.cat(ones, dim), torch.cat(others, dim)


class _BeforeAllSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradients: Callable[[], tuple[Tensor | None, ...]], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return parameters[0].new_empty(0)  # the token

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients()


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operation: _Operation, token: Tensor, *inputs: Tensor) -> Tensor:
        output, saved = operation.forward(*inputs)
        ctx.save_for_backward(*saved)
        ctx.operation, ctx.step = operation, len(operation.pairs)
        operation.pairs.append(None)
        return output

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.operation.backward(ctx.step, gradient, *ctx.saved_tensors)


class _Steps:
    """The function that computes one step. Nothing that it calls holds it, so a graph is freed without a collection."""

    def __init__(self, operation: _Operation, *parameters: Tensor | None) -> None:
        self._operation = operation
        self._token = _BeforeAllSteps.apply(operation.gradients, *parameters)  # type: ignore[no-untyped-call]

    def __call__(self, *inputs: Tensor) -> Tensor:
        output: Tensor = _Step.apply(self._operation, self._token, *inputs)  # type: ignore[no-untyped-call]
        return output


class _Linear(_Operation):
    """x W^T + b: [..., I] -> [..., O]."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        self.dtype, self.exact = matmul_dtype(weight_OI), weight_OI.dtype
        self.weight_OI = weight_OI.detach().to(self.dtype)
        self.bias_O = None if bias_O is None else bias_O.detach().to(self.dtype)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        (x_XI,) = inputs
        rows_NI = x_XI.reshape(-1, x_XI.shape[-1]).to(self.dtype)
        return F.linear(rows_NI, self.weight_OI, self.bias_O).view(*x_XI.shape[:-1], -1), (rows_NI,)

    def backward(self, step: int, gradient: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
        gradient_NO = gradient.reshape(-1, gradient.shape[-1]).to(self.dtype)
        self.pairs[step] = gradient_NO.detach(), saved[0].detach()
        return ((gradient_NO @ self.weight_OI).view(*gradient.shape[:-1], -1),)

    def gradients(self) -> tuple[Tensor | None, ...]:
        gradients_NO, rows_NI = self.joined(0)
        return gradients_NO.T @ rows_NI, None if self.bias_O is None else gradients_NO.sum(0, dtype=self.exact)


class LinearSteps(_Steps):
    """A linear map [..., I] -> [..., O] whose inputs become known step by step."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        super().__init__(_Linear(weight_OI, bias_O), weight_OI, bias_O)


def _gates(x_N3H: Tensor, recurrent_N3H: Tensor, h_NH: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The next state of a `GruCell` from W x, U h and h, in the type of h, and what the gradient needs."""
    width = h_NH.shape[-1]
    gates_N3H = recurrent_N3H.to(h_NH.dtype)
    gates_N3H[:, : 2 * width].add_(x_N3H[:, : 2 * width]).sigmoid_()
    reset_NH, update_NH, recurrent_NH = gates_N3H.chunk(3, dim=1)
    candidate_NH = torch.addcmul(x_N3H[:, 2 * width :].to(h_NH.dtype), reset_NH, recurrent_NH).tanh_()
    return torch.lerp(candidate_NH, h_NH, update_NH), (h_NH, gates_N3H, candidate_NH)


def _gates_backward(gradient_NH: Tensor, *saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of W x, of U h, and of h where the next state reads it directly."""
    h_NH, gates_N3H, candidate_NH = saved
    reset_NH, update_NH, recurrent_NH = gates_N3H.chunk(3, dim=1)
    d_h_NH = gradient_NH * update_NH
    d_candidate_NH = torch.ops.aten.tanh_backward(gradient_NH - d_h_NH, candidate_NH)
    d_reset_NH = torch.ops.aten.sigmoid_backward(d_candidate_NH * recurrent_NH, reset_NH)
    d_update_NH = torch.ops.aten.sigmoid_backward(gradient_NH * (h_NH - candidate_NH), update_NH)
    d_x_N3H = torch.cat((d_reset_NH, d_update_NH, d_candidate_NH), dim=1)
    d_recurrent_N3H = torch.cat((d_reset_NH, d_update_NH, d_candidate_NH * reset_NH), dim=1)
    return d_x_N3H, d_recurrent_N3H, d_h_NH


def _fused_gates(x_N3H: Tensor, recurrent_N3H: Tensor, h_NH: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """`_gates` in the one kernel that torch.nn.GRUCell has on a GPU."""
    with torch.autocast(h_NH.device.type, enabled=False):
        next_NH, kept_N5H = torch.ops.aten._thnn_fused_gru_cell(
            x_N3H.to(h_NH.dtype), recurrent_N3H.to(h_NH.dtype), h_NH
        )
    return next_NH, (kept_N5H,)


def _fused_gates_backward(gradient_NH: Tensor, *saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`_gates_backward` in one kernel."""
    d_x_N3H, d_recurrent_N3H, d_h_NH, *_ = torch.ops.aten._thnn_fused_gru_cell_backward(gradient_NH, *saved, False)
    return d_x_N3H, d_recurrent_N3H, d_h_NH


# What follows the products of a `GruCell`, and its gradients, by type of device.
GATES = {"cpu": (_gates, _gates_backward), "cuda": (_fused_gates, _fused_gates_backward)}


class _Gru(_Linear):
    """The step of a `GruCell`, which contains the product U h."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__(weight_OI, bias_O)
        self.gates, self.gates_backward = GATES[weight_OI.device.type]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        projected_X3H, h_XH = inputs
        h_NH = h_XH.reshape(-1, h_XH.shape[-1])
        recurrent_N3H, (rows_NH,) = super().forward(h_NH)
        next_NH, saved = self.gates(projected_X3H.reshape(recurrent_N3H.shape), recurrent_N3H, h_NH)
        return next_NH.view(h_XH.shape), (rows_NH, *saved)

    def backward(self, step: int, gradient: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
        rows_NH, *others = saved
        d_x_N3H, d_recurrent_N3H, d_h_NH = self.gates_backward(gradient.reshape(-1, gradient.shape[-1]), *others)
        (through_NH,) = super().backward(step, d_recurrent_N3H, rows_NH)
        return d_x_N3H.view(*gradient.shape[:-1], -1), d_h_NH.add_(through_NH).view(gradient.shape)


class GruSteps(_Steps):
    """The steps of a `GruCell` along a sequence: projected input [..., 3H], state [..., H] -> next state [..., H]."""

    def __init__(
        self, input_3HI: Tensor, input_bias_3H: Tensor | None, hidden_3HH: Tensor, hidden_bias_3H: Tensor | None
    ) -> None:
        super().__init__(_Gru(hidden_3HH, hidden_bias_3H), hidden_3HH, hidden_bias_3H)
        self._input = input_3HI, input_bias_3H

    @cached_property
    def project(self) -> LinearSteps:
        """The projection of inputs, [..., I] -> [..., 3H]. Inputs known before the loop belong to `GruCell.project`."""
        return LinearSteps(*self._input)


class _Attention(_Operation):
    """sum_j alpha_j h_j with alpha = softmax_j(v . tanh(q + k_j)): [B, K, A] -> [B, K, C], in exact types."""

    def __init__(
        self, keys_BSA: Tensor, states_BSC: Tensor, mask_BS: Tensor, score_A: Tensor, record: Record | None
    ) -> None:
        super().__init__()
        exact = normalised_dtype(states_BSC)
        self.keys_BSA, self.states_BSC, self.score_A = (
            tensor.detach().to(exact) for tensor in (keys_BSA, states_BSC, score_A)
        )
        self.unused_B1S = ~mask_BS[:, None]
        self.one = self.score_A.new_ones(())
        self.record = record
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

    def forward(self, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        query_BKA = inputs[0].to(self.keys_BSA.dtype)
        with torch.autocast(query_BKA.device.type, enabled=False):
            scores_BKS = query_BKA.new_empty(*query_BKA.shape[:2], self.keys_BSA.shape[1])
            for some, energies_bKSA in self.energies(query_BKA):
                torch.matmul(energies_bKSA, self.score_A, out=scores_BKS[some])
            weights_BKS = torch.softmax(scores_BKS.masked_fill_(self.unused_B1S, -torch.inf), dim=-1)
            if self.record is not None:
                self.record(weights_BKS[:, None, :, None])
            return weights_BKS @ self.states_BSC, (query_BKA, weights_BKS)

    def backward(self, step: int, gradient: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
        """Also add to the gradients of keys and v."""
        query_BKA, weights_BKS = saved
        self.pairs[step] = weights_BKS.detach(), gradient.detach()
        shares_BKS = (gradient @ self.states_BSC.transpose(1, 2)) * weights_BKS
        d_scores_BKS = torch.addcmul(shares_BKS, weights_BKS, shares_BKS.sum(-1, keepdim=True), value=-1)
        if self.d_keys_BSA is None:
            self.d_keys_BSA = torch.zeros_like(self.keys_BSA)
        d_query_BKA = torch.empty_like(query_BKA)
        for some, energies_bKSA in self.energies(query_BKA):
            d_scores_bKS = d_scores_BKS[some]
            self.d_score_A += d_scores_bKS.flatten() @ energies_bKSA.flatten(0, 2)
            slopes_bKSA = torch.addcmul(self.one, energies_bKSA, energies_bKSA, value=-1, out=energies_bKSA)
            torch.matmul(d_scores_bKS[:, :, None], slopes_bKSA, out=d_query_BKA[some, :, None])
            for d_scores_bS, slopes_bSA in zip(d_scores_bKS.unbind(1), slopes_bKSA.unbind(1), strict=True):
                self.d_keys_BSA[some].addcmul_(d_scores_bS[..., None], slopes_bSA)
        return (d_query_BKA.mul_(self.score_A),)

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Of keys, states, v and c; the gradient of c is 0, because softmax ignores a constant."""
        weights_BNS, d_contexts_BNC = self.joined(1)
        assert self.d_keys_BSA is not None
        d_keys_BSA, d_score_A = self.d_keys_BSA.mul_(self.score_A), self.d_score_A
        self.d_keys_BSA, self.d_score_A = None, torch.zeros_like(self.score_A)
        return d_keys_BSA, weights_BNS.transpose(1, 2) @ d_contexts_BNC, d_score_A[None], d_score_A.new_zeros(1)


class AttentionSteps(_Steps):
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
        operation = _Attention(keys_BSA, states_BSC, mask_BS, score_1A.squeeze(0), record)
        super().__init__(operation, keys_BSA, states_BSC, score_1A, bias_1)
        self._query = LinearSteps(query_AI)

    def __call__(self, query_BXI: Tensor) -> Tensor:  # type: ignore[override]
        """Return the contexts of one query per sentence, [B, I] -> [B, C], or of K queries, [B, K, I] -> [B, K, C]."""
        query_BXA = self._query(query_BXI)
        context_BKC = super().__call__(query_BXA if query_BXA.ndim == 3 else query_BXA[:, None])
        return context_BKC.view(*query_BXI.shape[:-1], -1)
