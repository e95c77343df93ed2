"""Parts of every Transformer layer besides attention: feed-forward networks, residual connections, normalisation.

Letters: B sentences, T positions, D model width. Layer normalisation is computed in float32, also when products are
computed in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, cast

import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.nn.dropout import Dropout
from phrasemt.study.architectures import Layers

NORM_EPSILON = 1e-6


class Linear(nn.Linear):
    """A linear map y = x W^T + b: Xavier-uniform weight, zero bias."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.ModuleList, Generic[Layer]):
    """A list of layers of one class."""

    def __iter__(self) -> Iterator[Layer]:  # type: ignore[override]
        return cast(Iterator[Layer], super().__iter__())


def layers_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of all stacks of a model."""
    for module in model.modules():
        if isinstance(module, Stack):
            yield from module


def layer_norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=NORM_EPSILON)


def last_norm(settings: Layers) -> nn.Module:
    """Return what follows the last layer: a layer normalisation after layers with `norm: pre`, else nothing."""
    return layer_norm(settings.width) if settings.norm == "pre" else nn.Identity()


class Residual(nn.Module):
    """A residual connection with dropout and layer normalisation around a sub-layer F.

    norm "post": LN(x + drop(F(x))). norm "pre": x + drop(F(LN(x))); such a stack ends with one more LN. `beside` is
    another summand, which has no dropout.
    """

    def __init__(self, settings: Layers) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = layer_norm(settings.width)
        self.dropout = Dropout(settings.dropout)

    def enter(self, x_BTD: Tensor) -> Tensor:
        """Return the input of the sub-layer."""
        entering_BTD: Tensor = self.norm(x_BTD) if self.pre else x_BTD
        return entering_BTD

    def leave(self, x_BTD: Tensor, output_BTD: Tensor, beside_BTD: Tensor | None = None) -> Tensor:
        """Return the new x. x_BTD: the old x; output_BTD: the output of the sub-layer."""
        sum_BTD = x_BTD + self.dropout(output_BTD)
        if beside_BTD is not None:
            sum_BTD = sum_BTD + beside_BTD
        leaving_BTD: Tensor = sum_BTD if self.pre else self.norm(sum_BTD)
        return leaving_BTD

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.leave(x_BTD, sublayer(self.enter(x_BTD)))


class FeedForward(nn.Module):
    """FFN(x) = W2 drop(max(0, W1 x + b1)) + b2 (Vaswani et al. 2017, Eq. 2)."""

    def __init__(self, settings: Layers) -> None:
        super().__init__()
        self.inner = Linear(settings.width, settings.ffn_width)
        self.dropout = Dropout(settings.act_dropout)
        self.outer = Linear(settings.ffn_width, settings.width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        outer_BTD: Tensor = self.outer(self.dropout(F.relu(self.inner(x_BTD))))
        return outer_BTD
