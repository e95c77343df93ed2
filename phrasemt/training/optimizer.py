"""The optimisers of the papers with their learning rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from phrasemt.study.schema import Adadelta, Adam


def noam(update: int, *, width: int, settings: Adam) -> float:
    """Return the learning rate of update t = 1, 2, ... (Vaswani et al. 2017, Eq. 3).

    It is factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5), where d is the model width.
    """
    return float(settings.factor * width**-0.5 * min(update**-0.5, update * settings.warmup**-1.5))


class ScheduledOptimizer:
    """An optimiser with its schedule of learning rates.

    width: the model width in Adam's schedule (`noam`). Some parameters learn at `rate_factors` times the rate.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        settings: Adam | Adadelta,
        *,
        width: int,
        rate_factors: Mapping[nn.Parameter, float],
    ) -> None:
        self.wrapped: torch.optim.Adam | torch.optim.Adadelta
        self._rate: Callable[[int], float]
        by_factor: dict[float, list[nn.Parameter]] = defaultdict(list)
        for parameter in parameters:
            by_factor[rate_factors.get(parameter, 1.0)].append(parameter)
        groups = [{"params": parameters, "factor": factor} for factor, parameters in by_factor.items()]
        if isinstance(settings, Adam):
            # Vaswani et al. (2017), Section 5.3
            self.wrapped = torch.optim.Adam(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
            self._rate = partial(noam, width=width, settings=settings)
        else:
            # Bahdanau et al. (2015), Appendix B.2, as dl4mt
            self.wrapped = torch.optim.Adadelta(groups, lr=1.0, rho=0.95, eps=1e-6)
            self._rate = lambda update: 1.0

    def step(self, update: int, finite: Tensor) -> float:
        """Take the step of an update (counted from 1) with the parameters' gradients; return its learning rate.

        finite: scalar on the device, False for no step. With Adam the host does not ask for it.
        """
        rate = self._rate(update)
        for group in self.wrapped.param_groups:
            group["lr"] = rate * group["factor"]
        if isinstance(self.wrapped, torch.optim.Adam):
            self.wrapped.found_inf = 1 - finite.float()  # type: ignore[attr-defined]
            self.wrapped.step()
        elif finite:
            self.wrapped.step()
        return rate
