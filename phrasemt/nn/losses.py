"""The output layer: softmax over the target vocabulary and the losses on it.

Letters: N real target tokens, D model width, V target vocabulary. Logits = y E^T + b with E the target embeddings.
Logits are made in the precision of the surrounding computation and normalised in float32, some tokens at a time, so
that at most a few million of them exist at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from phrasemt.nn.linear import ROWS_AT_ONCE, fill_rows, round_up

# Logits alive at once, and of these how many are normalised at once: on a CPU what fits into the caches.
LOGITS_AT_ONCE = {"cpu": 2**24, "cuda": 2**28}
NORMALISED_AT_ONCE = {"cpu": 2**19, "cuda": 2**28}


class SmoothedCrossEntropy(NamedTuple):
    """Sums over tokens."""

    objective: Tensor
    nll: Tensor


def matmul_dtype(x: Tensor) -> torch.dtype:
    """The type that matrix products of x have here."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def normalised_dtype(x: Tensor) -> torch.dtype:
    """float32, or float64 where everything is."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def slices(length: int, size: int) -> list[slice]:
    """0 .. length cut into pieces of at most `size`, at least 1."""
    return [slice(first, min(first + max(1, size), length)) for first in range(0, length, max(1, size))]


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Loss sums; the gradients are made on the way, while the probabilities of some tokens are at hand.

    With p the probabilities and q the smoothed reference distribution, d objective / d logits = p - q.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        table_VD: Tensor,
        bias_V: Tensor | None,
        references_N: Tensor,
        smoothing: float,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        vocabulary = table_VD.shape[0]
        exact, fast = normalised_dtype(states_ND), matmul_dtype(states_ND)
        other = smoothing / (vocabulary - 1)  # q of a word that is not the reference
        rows = states_ND.shape[0]
        # See phrasemt/nn/linear.py: few shapes on a CPU in bfloat16. The rows that are filled up get gradient 0.
        filled = states_ND.device.type == "cpu" and fast == torch.bfloat16
        table_fast_VD, states_fast_ND = table_VD.to(fast), fill_rows(states_ND, fast) if filled else states_ND.to(fast)
        objective, nll = states_ND.new_zeros((), dtype=exact), states_ND.new_zeros((), dtype=exact)
        states_gradient_ND = torch.empty_like(states_fast_ND, dtype=states_ND.dtype) if with_gradient else None
        table_gradient_VD = torch.zeros_like(table_VD, dtype=exact) if with_gradient else None
        bias_gradient_V = torch.zeros_like(bias_V, dtype=exact) if with_gradient and bias_V is not None else None

        device = states_ND.device.type
        with torch.autocast(device, enabled=False):
            at_once = LOGITS_AT_ONCE[device] // vocabulary
            for some in slices(states_fast_ND.shape[0], round_up(at_once, ROWS_AT_ONCE) if filled else at_once):
                logits_nV = states_fast_ND[some] @ table_fast_VD.T
                real = min(rows - some.start, logits_nV.shape[0])
                logits_nV[real:] = 0
                for few in slices(real, NORMALISED_AT_ONCE[device] // vocabulary):
                    logits_mV, references_m1 = logits_nV[few], references_N[some][few, None]
                    log_probs_mV = torch.log_softmax(
                        logits_mV.to(exact) if bias_V is None else logits_mV + bias_V, dim=-1, dtype=exact
                    )
                    nll_some = -log_probs_mV.gather(-1, references_m1).sum()
                    nll += nll_some
                    objective += (1 - smoothing - other) * nll_some - other * log_probs_mV.sum()
                    if with_gradient:
                        gradient_mV = log_probs_mV.exp_().sub_(other)
                        gradient_mV.scatter_add_(
                            -1, references_m1, gradient_mV.new_full(references_m1.shape, -(1 - smoothing - other))
                        )
                        if bias_gradient_V is not None:
                            bias_gradient_V += gradient_mV.sum(0)
                        logits_mV.copy_(gradient_mV)  # the logits are not needed any more
                if states_gradient_ND is not None and table_gradient_VD is not None:
                    states_gradient_ND[some] = logits_nV @ table_fast_VD
                    table_gradient_VD += logits_nV.T @ states_fast_ND[some]
        if states_gradient_ND is not None:
            states_gradient_ND = states_gradient_ND[:rows]
        ctx.save_for_backward(states_gradient_ND, table_gradient_VD, bias_gradient_V)
        ctx.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [None if gradient is None else gradient * scale for gradient in ctx.saved_tensors]
        return *gradients, None, None, None


def smoothed_cross_entropy(
    states_ND: Tensor, table_VD: Tensor, bias_V: Tensor | None, references_N: Tensor, smoothing: float
) -> SmoothedCrossEntropy:
    """Label-smoothed cross entropy and plain negative log-likelihood, summed over tokens.

    The smoothed reference distribution is 1-e on the reference and e/(V-1) on each other word (tensor2tensor, Neutron);
    that is F.cross_entropy with label_smoothing = e*V/(V-1).
    """
    with_gradient = torch.is_grad_enabled()
    return SmoothedCrossEntropy(
        *_SmoothedCrossEntropy.apply(states_ND, table_VD, bias_V, references_N, smoothing, with_gradient)  # type: ignore[no-untyped-call]
    )


def log_probabilities(states_XD: Tensor, table_VD: Tensor, bias_V: Tensor | None) -> Tensor:
    """Log-probabilities of all words after any number of states: [..., V], float32."""
    logits_XV = F.linear(states_XD, table_VD, bias_V)
    return torch.log_softmax(logits_XV, dim=-1, dtype=normalised_dtype(states_XD))


def reference_log_probabilities(
    states_ND: Tensor, table_VD: Tensor, bias_V: Tensor | None, references_N: Tensor
) -> Tensor:
    """Log-probability of one word after each state: [N], float32."""
    pieces = slices(states_ND.shape[0], LOGITS_AT_ONCE[states_ND.device.type] // table_VD.shape[0])
    return torch.cat(
        [
            log_probabilities(states_ND[some], table_VD, bias_V).gather(-1, references_N[some, None]).squeeze(-1)
            for some in pieces
        ]
    )
