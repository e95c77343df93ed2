"""Losses of the output layer, without the logits of a whole batch in memory.

Logits x W^T + b have the type of the other matrix products and are normalised in float32, one slice of tokens after the
other.

Letters: N real target tokens, n tokens of one slice, D model width, V words of the target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from phrasemt.nn.compiling import compilable
from phrasemt.nn.precision import matmul_dtype, normalised_dtype

# Approximate number of logits of a slice, by type of device.
LOGITS_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Loss sums over the real target tokens of a batch. The trainer divides them by the size of the whole update.

    objective: the sum that training minimises, with label smoothing and extra terms (scalar, float32, has a gradient).
    nll: negative log-likelihood of the words, without label smoothing (scalar, no gradient).
    tokens: number of real target tokens, `</s>` included; of all positions in a batch of a fixed shape.
    parts: further sums that a model family reports, by name.
    """

    objective: Tensor
    nll: Tensor
    tokens: int
    parts: dict[str, Tensor] = field(default_factory=dict)

    def numbers(self) -> dict[str, list[float]]:
        """Return what `LossSums` adds over batches."""
        parts = {name: [float(value)] for name, value in self.parts.items()}
        return {"nll": [float(self.nll)], "tokens": [self.tokens], **parts}


@dataclass(frozen=True, kw_only=True)
class LossSums:
    """Loss sums over the real target tokens of many batches: the fields of `Loss` without the objective."""

    nll: float
    tokens: int
    parts: dict[str, float]

    @classmethod
    def of(cls, numbers: Mapping[str, Sequence[float]]) -> LossSums:
        """Make them of the sums of `Loss.numbers`."""
        sums = {name: value for name, (value,) in numbers.items()}
        return cls(nll=sums.pop("nll"), tokens=int(sums.pop("tokens")), parts=sums)

    @property
    def perplexity(self) -> float:
        """Of the words, at most e^100."""
        return math.exp(min(self.nll / self.tokens, 100.0))


def slices(length: int, size: int) -> list[slice]:
    """Cut 0 .. length into slices of at most `size`, or of 1 if `size` is smaller."""
    return [slice(first, min(first + max(1, size), length)) for first in range(0, length, max(1, size))]


class Predictions(NamedTuple):
    """The softmax of logits, seen from the references.

    log_probs_n1, logits_n1: of the references, float32. others_nV: p, and 0 at the references; in the type and, but for
    a compiler, in the memory of the logits. others_n1: its sums. lost_n1: where p of the reference is smaller than the
    numbers of its type.
    """

    log_probs_n1: Tensor
    logits_n1: Tensor
    others_nV: Tensor
    others_n1: Tensor
    lost_n1: Tensor


def predictions(logits_nV: Tensor, places: tuple[Tensor, Tensor]) -> Predictions:
    """Turn logits into their softmax. places: rows and columns of the references [n, 1].

    A trained model gives the reference a p near 1, where bfloat16 has two digits, so 1 - p is the sum of the others.
    Where p is lost log p follows from the best word, whose p is not: from its logit and p as exact as their type. On
    a CPU log p is then -inf, because the caller can compute it exactly; elsewhere the host would wait for the answer
    whether any is lost.
    """
    exact, fused, (_, references_n1) = normalised_dtype(logits_nV), torch.compiler.is_compiling(), places
    reference_logits_n1 = logits_nV.gather(1, references_n1).to(exact)
    best_n1 = logits_nV.max(-1, keepdim=True) if fused or logits_nV.device.type != "cpu" else None
    probabilities_nV = torch.softmax(logits_nV, dim=-1, out=None if fused else logits_nV)
    reference_probabilities_n1 = probabilities_nV.gather(1, references_n1).to(exact)
    others_nV = _with_references(probabilities_nV, places, 0.0)
    others_n1 = others_nV.sum(-1, keepdim=True).to(exact)
    log_probs_n1 = reference_probabilities_n1.log().where(others_n1 > 0.5, torch.log1p(-others_n1))
    lost_n1 = reference_probabilities_n1 < torch.finfo(logits_nV.dtype).tiny
    if best_n1 is not None:
        best_log_probs_n1 = others_nV.gather(1, best_n1.indices).to(exact).log()
        from_best_n1 = reference_logits_n1 - best_n1.values.to(exact) + best_log_probs_n1
        log_probs_n1 = torch.where(lost_n1, from_best_n1, log_probs_n1)
    return Predictions(log_probs_n1, reference_logits_n1, others_nV, others_n1, lost_n1)


def errors(of: Predictions, places: tuple[Tensor, Tensor], smoothing: float) -> Tensor:
    """Return p - q [n, V], but for the constant that q has for all words, in the memory of `others_nV` if possible."""
    others_nV, vocabulary = of.others_nV, of.others_nV.shape[1]
    errors_n1 = smoothing - of.others_n1 + smoothing / (vocabulary - 1)
    return _with_references(others_nV, places, errors_n1.to(others_nV.dtype))


def _with_references(x_nV: Tensor, places: tuple[Tensor, Tensor], values_n1: Tensor | float) -> Tensor:
    """Give the references other numbers, in place where no compiler joins this with what follows."""
    if torch.compiler.is_compiling():
        words_V = torch.arange(x_nV.shape[1], device=x_nV.device)
        return torch.where(words_V == places[1], values_n1, x_nV)
    if x_nV.device.type == "cpu":
        x_nV[places] = values_n1  # scatter_ copies numbers of 16 bits to and fro
    else:
        x_nV.scatter_(1, places[1], values_n1)  # indexing copies a number to the GPU, which a CUDA graph refuses
    return x_nV


@compilable
def overwrite_with_errors(logits_nV: Tensor, references_n: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Overwrite logits with `errors`. Returns log p and the logits of the references, and where p is lost: each [n]."""
    places = torch.arange(len(references_n), device=references_n.device)[:, None], references_n[:, None]
    of = predictions(logits_nV, places)
    errors_nV = errors(of, places, smoothing)
    if errors_nV is not logits_nV:
        logits_nV.copy_(errors_nV)
    return of.log_probs_n1.squeeze(1), of.logits_n1.squeeze(1), of.lost_n1.squeeze(1)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Loss sums. The forward pass also computes the gradients, while it has the probabilities of a slice.

    With the probabilities p and the smoothed reference distribution q, d objective / d logits = p - q. Only p is
    stored; it overwrites the logits, in their type. q is equal for all words except the reference, so the products and
    sums with q follow from sums over words and over tokens.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        table_VD: Tensor,
        bias_V: Tensor | None,
        references_N: Tensor,
        weights_N: Tensor | None,
        smoothing: float,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        rows, vocabulary, device = states_ND.shape[0], table_VD.shape[0], states_ND.device.type
        exact, fast = normalised_dtype(states_ND), matmul_dtype(states_ND)
        count = rows if weights_N is None else weights_N.sum(dtype=exact)
        other = smoothing / (vocabulary - 1)  # q of a word that is not the reference
        states_fast_ND, table_fast_VD = states_ND.to(fast), table_VD.to(fast)
        bias_fast_V = None if bias_V is None else bias_V.to(fast)
        sum_of_states_D, sum_of_words_D = states_fast_ND.sum(0, dtype=exact), table_fast_VD.sum(0, dtype=exact)
        nll, reference_logits = states_ND.new_zeros((2,), dtype=exact).unbind()
        if with_gradient:
            states_gradient_ND = torch.empty_like(states_fast_ND)
            table_gradient_VD = (-other * sum_of_states_D).expand_as(table_fast_VD).contiguous()
            bias_gradient_V = (
                None if bias_fast_V is None else torch.zeros_like(bias_fast_V, dtype=exact) - other * count
            )

        with torch.autocast(device, enabled=False):
            pieces = slices(rows, LOGITS_AT_ONCE[device] // vocabulary)
            room_NV = states_fast_ND.new_empty(pieces[0].stop if pieces else 0, vocabulary)
            for some in pieces:
                states_nD, references_n = states_fast_ND[some], references_N[some]
                logits_nV = _logits(states_nD, table_fast_VD, bias_fast_V, out=room_NV[: len(states_nD)])
                log_probs_n, reference_logits_n, lost_n = overwrite_with_errors(logits_nV, references_n, smoothing)
                if device == "cpu" and lost_n.any():
                    lost_XV = _logits(states_nD[lost_n], table_fast_VD, bias_fast_V)
                    log_probs_n[lost_n] = reference_logits_n[lost_n] - torch.logsumexp(lost_XV.to(exact), dim=-1)
                if weights_N is not None:
                    log_probs_n, reference_logits_n = (x * weights_N[some] for x in (log_probs_n, reference_logits_n))
                    logits_nV *= weights_N[some, None]
                nll -= log_probs_n.sum()
                reference_logits += reference_logits_n.sum()
                if with_gradient:
                    torch.mm(logits_nV, table_fast_VD, out=states_gradient_ND[some])
                    table_gradient_VD += logits_nV.T @ states_nD
                    if bias_gradient_V is not None:
                        bias_gradient_V += logits_nV.sum(0, dtype=exact)
            # The logarithm of the normaliser is logit - log p of the reference. Each word of the sum contains it once.
            logits = (sum_of_states_D * sum_of_words_D).sum()
            if bias_fast_V is not None:
                logits += count * bias_fast_V.sum(dtype=exact)
            objective = (1 - smoothing - other) * nll - other * (logits - vocabulary * (reference_logits + nll))

        if with_gradient:
            states_gradient_ND = states_gradient_ND - other * sum_of_words_D
            ctx.save_for_backward(states_gradient_ND.to(states_ND.dtype), table_gradient_VD, bias_gradient_V)
        ctx.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # In place, because no other code holds these tensors and each graph is used once.
        gradients = [None if gradient is None else gradient.mul_(scale) for gradient in ctx.saved_tensors]
        return *gradients, None, None, None, None


def _logits(states_ND: Tensor, table_VD: Tensor, bias_V: Tensor | None, out: Tensor | None = None) -> Tensor:
    if bias_V is None:
        return torch.mm(states_ND, table_VD.T, out=out)
    return torch.addmm(bias_V, states_ND, table_VD.T, out=out)


def smoothed_cross_entropy(
    states_ND: Tensor,
    table_VD: Tensor,
    bias_V: Tensor | None,
    references_N: Tensor,
    smoothing: float,
    weights_N: Tensor | None = None,
) -> Loss:
    """Return label-smoothed cross entropy and plain negative log-likelihood, summed over tokens.

    The smoothed reference distribution has 1-e on the reference and e/(V-1) on each other word (tensor2tensor,
    Neutron), which is F.cross_entropy with label_smoothing = e*V/(V-1). weights_N: 0 leaves a token out, 1 counts it.
    """
    if weights_N is not None:  # a state of 0 adds to no gradient of the table, and its own gradient is left out, too
        states_ND = states_ND * weights_N[:, None].to(states_ND.dtype)
    with_gradient = torch.is_grad_enabled()
    objective, nll = _SmoothedCrossEntropy.apply(
        states_ND, table_VD, bias_V, references_N, weights_N, smoothing, with_gradient
    )  # type: ignore[no-untyped-call]
    return Loss(objective=objective, nll=nll, tokens=len(references_N))


def nll_sum(log_probs_NC: Tensor, references_N: Tensor, weights_N: Tensor | None) -> Tensor:
    """Return the negative log-likelihood of one class for each row, summed. weights_N: 0 leaves a row out."""
    if weights_N is None:
        return F.nll_loss(log_probs_NC, references_N, reduction="sum")
    return (F.nll_loss(log_probs_NC, references_N, reduction="none") * weights_N).sum()


def log_probabilities(states_XD: Tensor, table_VD: Tensor, bias_V: Tensor | None) -> Tensor:
    """Return log-probabilities of all words after any number of states: [..., V], float32."""
    logits_XV = F.linear(states_XD, table_VD, bias_V)
    if torch.is_grad_enabled():
        return torch.log_softmax(logits_XV, dim=-1, dtype=normalised_dtype(states_XD))
    # In place: a second tensor of this size costs a third of the time of both operations on a CPU.
    logits_XV = logits_XV.to(normalised_dtype(states_XD))
    return torch.log_softmax(logits_XV, dim=-1, out=logits_XV)


def reference_log_probabilities(
    states_ND: Tensor, table_VD: Tensor, bias_V: Tensor | None, references_N: Tensor
) -> Tensor:
    """Return the log-probability of one word after each state: [N], float32."""
    pieces = slices(states_ND.shape[0], LOGITS_AT_ONCE[states_ND.device.type] // table_VD.shape[0])
    return torch.cat(
        [
            log_probabilities(states_ND[some], table_VD, bias_V).gather(-1, references_N[some, None]).squeeze(-1)
            for some in pieces
        ]
    )
