"""Products of a search in 8-bit integers on a CPU, as CTranslate2 computes them.

A weight has one scale for each output, an activation one for each position. So the quantisation of a sentence does not
depend on the other sentences of its batch. Everything between products stays float32.

Letters: X positions, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LARGEST = 127
_TINY = torch.finfo(torch.float32).tiny
# Smaller weights stay float32: to quantise the activations would take longer than the product in int8 saves.
_LEAST_ELEMENTS = 2**14


class Int8Weight(Tensor):
    """A weight W [O, I]; `F.linear` computes its products x W^T + b in int8, also of the parts that `chunk` returns.

    For all other operations, such as the look-up of embeddings, it is the float32 tensor that it was made of.
    """

    _quantised_IO: Tensor
    _scales_O: Tensor
    _parts: dict[tuple[Any, ...], tuple[Int8Weight, ...]]

    @classmethod
    def of(cls, weight_OI: Tensor) -> Int8Weight:
        weight_OI = weight_OI.detach()
        weight = weight_OI.as_subclass(cls)
        weight._scales_O = weight_OI.abs().amax(-1).clamp(min=_TINY) / _LARGEST
        weight._quantised_IO = (weight_OI / weight._scales_O[:, None]).round().to(torch.int8).t()
        weight._parts = {}
        return weight

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func is F.linear and isinstance(args[1], cls):
                return args[1]._multiply(args[0], *args[2:], **kwargs)
            if func is Tensor.chunk:
                return args[0]._chunk(*args[1:], **kwargs)
            return func(*args, **kwargs)

    def _multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x W^T + b: [..., I] -> [..., O]."""
        x_XI = x.reshape(-1, x.shape[-1])
        scales_X1 = x_XI.abs().amax(-1, keepdim=True).clamp_(min=_TINY).div_(_LARGEST)
        quantised_XI = (x_XI / scales_X1).round_().to(torch.int8)
        sums_XO = torch._int_mm(quantised_XI, self._quantised_IO)
        # Floats take the place of their integers: a new tensor would take as long as the integer product.
        product_XO = sums_XO.view(torch.float32).copy_(sums_XO).mul_(self._scales_O)
        if bias is None:
            product_XO.mul_(scales_X1)
        else:
            torch.addcmul(bias, product_XO, scales_X1, out=product_XO)
        return product_XO.view(*x.shape[:-1], product_XO.shape[-1])

    def _chunk(self, *how: Any, **named: Any) -> tuple[Int8Weight, ...]:
        key = (*how, *named.items())
        if key not in self._parts:
            self._parts[key] = tuple(Int8Weight.of(part) for part in Tensor.chunk(self, *how, **named))
        return self._parts[key]


def quantise_weights(model: nn.Module) -> None:
    """Replace the large weights of a model by `Int8Weight`. From then on the model is for searches only."""
    replaced: dict[Tensor, Int8Weight] = {}  # modules may share a weight
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.dim() == 2 and parameter.numel() >= _LEAST_ELEMENTS:
                if parameter not in replaced:
                    replaced[parameter] = Int8Weight.of(parameter)
                module._parameters[name] = replaced[parameter]  # type: ignore[assignment]
