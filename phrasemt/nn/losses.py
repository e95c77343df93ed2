"""The output layer: softmax over the target vocabulary and the losses on it.

Letters: N real target tokens, D model width, V target vocabulary. Logits = y E^T + b with E the target embeddings.
Logits are made in the precision of the surrounding computation, and normalised in float32 to probabilities of that
precision, some tokens at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from phrasemt.nn.linear import ROWS_AT_ONCE, beside_bias, fill_rows, round_up
from phrasemt.nn.precision import in_bfloat16_on_cpu, matmul_dtype, normalised_dtype
from phrasemt.nn.products import add_product, sum_of_rows

# Numbers of which about so many exist at once. On a CPU logits stay in its caches until they are normalised; the
# probabilities of more tokens make the product that is the gradient of the table a larger one.
LOGITS_AT_ONCE = {"cpu": 2**22, "cuda": 2**28}
PROBABILITIES_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}


class SmoothedCrossEntropy(NamedTuple):
    """Sums over tokens."""

    objective: Tensor
    nll: Tensor


def slices(length: int, size: int) -> list[slice]:
    """0 .. length cut into pieces of at most `size`, at least 1."""
    return [slice(first, min(first + max(1, size), length)) for first in range(0, length, max(1, size))]


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Loss sums; the gradients are made on the way, while the probabilities of some tokens are at hand.

    With p the probabilities and q the smoothed reference distribution, d objective / d logits = p - q. Only p is
    written out, over the logits and in their type: q is the same everywhere but at the references, so its part in
    products and sums over the vocabulary follows from sums over words and over tokens. At a reference p is near 1 once
    a model knows its words, and there bfloat16 has two digits; 1 - p is the sum of the others.
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
        (rows, width), vocabulary, device = states_ND.shape, table_VD.shape[0], states_ND.device.type
        exact, fast = normalised_dtype(states_ND), matmul_dtype(states_ND)
        other = smoothing / (vocabulary - 1)  # q of a word that is not the reference
        # See phrasemt/nn/linear.py: few shapes on a CPU in bfloat16.
        filled = in_bfloat16_on_cpu(states_ND)
        multiple = ROWS_AT_ONCE if filled else 1
        beside = bias_V is not None and filled
        states_fast_NW = fill_rows(states_ND, fast, multiple, with_one=beside)
        if bias_V is not None and beside:
            table_fast_VW, bias_fast_V = beside_bias(table_VD, bias_V, fast), None
        else:
            table_fast_VW, bias_fast_V = table_VD.to(fast), None if bias_V is None else bias_V.to(fast)
        tiny = torch.finfo(fast).tiny
        sum_of_states_W, sum_of_words_W = sum_of_rows(states_fast_NW, exact), sum_of_rows(table_fast_VW, exact)
        nll, reference_logits = states_ND.new_zeros((2,), dtype=exact).unbind()
        if with_gradient:
            states_gradient_NW = torch.empty_like(states_fast_NW)
            table_gradient_VW = (-other * sum_of_states_W).expand_as(table_fast_VW).contiguous()
            bias_gradient_V = None if bias_fast_V is None else torch.full_like(bias_fast_V, -other * rows, dtype=exact)

        with torch.autocast(device, enabled=False):
            pieces = _slices(len(states_fast_NW), PROBABILITIES_AT_ONCE[device], vocabulary, multiple)
            room_NV = states_fast_NW.new_empty(
                max((piece.stop - piece.start for piece in pieces), default=0), vocabulary
            )
            for some in pieces:
                states_nW = states_fast_NW[some]
                probabilities_nV = room_NV[: len(states_nW)]
                for few in _slices(len(states_nW), LOGITS_AT_ONCE[device], vocabulary, multiple):
                    logits_mV = _logits(states_nW[few], table_fast_VW, bias_fast_V, out=probabilities_nV[few])
                    references_m = references_N[some][few]
                    places_m = torch.arange(len(references_m), device=references_m.device) * vocabulary + references_m
                    reference_logits_m = logits_mV.view(-1)[places_m].to(exact)
                    probabilities_mV = torch.softmax(logits_mV, dim=-1, out=logits_mV)
                    reference_probabilities_m = probabilities_mV.view(-1)[places_m].to(exact)
                    probabilities_mV.view(-1)[places_m] = 0
                    others_m = probabilities_mV[: len(places_m)].sum(-1).to(exact)
                    log_probs_m = reference_probabilities_m.log().where(others_m > 0.5, torch.log1p(-others_m))
                    if (lost_m := reference_probabilities_m < tiny).any():  # too small for their type
                        lost_XV = _logits(states_nW[few][: len(lost_m)][lost_m], table_fast_VW, bias_fast_V)
                        log_probs_m[lost_m] = reference_logits_m[lost_m] - torch.logsumexp(lost_XV.to(exact), dim=-1)
                    nll -= log_probs_m.sum()
                    reference_logits += reference_logits_m.sum()
                    # p - q, and what is taken off everywhere.
                    probabilities_mV.view(-1)[places_m] = (smoothing - others_m + other).to(fast)
                if with_gradient:
                    torch.mm(probabilities_nV, table_fast_VW, out=states_gradient_NW[some])
                    add_product(table_gradient_VW, probabilities_nV, states_nW)
                    if bias_gradient_V is not None:
                        bias_gradient_V += probabilities_nV.sum(0, dtype=exact)
            # The log of the normaliser is logit - log p of the reference; it stands once at every word.
            logits = (sum_of_states_W * sum_of_words_W).sum()
            if bias_fast_V is not None:
                logits += rows * bias_fast_V.sum(dtype=exact)
            objective = (1 - smoothing - other) * nll - other * (logits - vocabulary * (reference_logits + nll))

        if with_gradient:
            states_gradient_ND = states_gradient_NW[:rows, :width] - other * sum_of_words_W[:width]
            table_gradient_VD = table_gradient_VW[:, :width]
            if beside:
                bias_gradient_V = table_gradient_VW[:, width]
            ctx.save_for_backward(states_gradient_ND.to(states_ND.dtype), table_gradient_VD, bias_gradient_V)
        ctx.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # In place: nobody else has these, and a graph is used once.
        gradients = [None if gradient is None else gradient.mul_(scale) for gradient in ctx.saved_tensors]
        return *gradients, None, None, None


def _logits(states_NW: Tensor, table_VW: Tensor, bias_V: Tensor | None, out: Tensor | None = None) -> Tensor:
    if bias_V is None:
        return torch.mm(states_NW, table_VW.T, out=out)
    return torch.addmm(bias_V, states_NW, table_VW.T, out=out)


def _slices(rows: int, numbers: int, vocabulary: int, multiple: int) -> list[slice]:
    """So many rows at once that they have about so many numbers, of each a vocabulary; a multiple of some number."""
    return slices(rows, round_up(max(1, numbers // vocabulary), multiple))


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
