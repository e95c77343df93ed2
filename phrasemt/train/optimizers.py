"""Optimisers and their learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from phrasemt.study.schema import Adadelta, Adam


def noam(update: int, *, width: int, settings: Adam) -> float:
    """factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5) for update t = 1, 2, ... (Vaswani et al. 2017, Eq. 3)."""
    return float(settings.factor * width**-0.5 * min(update**-0.5, update * settings.warmup**-1.5))


class ScheduledOptimizer:
    """An optimiser that knows its learning rate at every update.

    width: the model width that the schedule of Vaswani et al. is scaled by.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], settings: Adam | Adadelta, *, width: int) -> None:
        self.torch: torch.optim.Optimizer
        self._rate: Callable[[int], float] | None = None
        if isinstance(settings, Adam):
            betas = (settings.beta1, settings.beta2)
            self.torch = torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=settings.epsilon, fused=True)
            self._rate = partial(noam, width=width, settings=settings)
        else:
            self.torch = torch.optim.Adadelta(parameters, lr=1.0, rho=settings.rho, eps=settings.epsilon)

    def step(self, update: int) -> float:
        """One step, the `update`-th from 1, along the gradients of the parameters; its learning rate."""
        if self._rate is not None:
            for group in self.torch.param_groups:
                group["lr"] = self._rate(update)
        self.torch.step()
        return float(self.torch.param_groups[0]["lr"])


class ExponentialAverage:
    """An average of the weights of all updates, in which those of k updates ago count decay^k as much.

    At the start, when nothing is worth remembering, the decay is lower: (1 + t) / (10 + t) after t updates.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        self._decay = decay

    @torch.no_grad()
    def add(self, model: nn.Module, update: int) -> None:
        """The weights after the `update`-th update."""
        decay = min(self._decay, (1 + update) / (10 + update))
        torch._foreach_lerp_(list(self.weights.values()), list(model.parameters()), 1 - decay)

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """The model with these weights for a while."""
        trained = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        _copy(self.weights, model)
        try:
            yield
        finally:
            _copy(trained, model)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])
