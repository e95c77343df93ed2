"""Linear maps: y = x W^T + b."""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    """A linear map with bias: Xavier-uniform weight, zero bias."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)
