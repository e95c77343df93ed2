"""Dataclasses of tensors: what one does with all tensors of a batch, or of the state of a search, stands here once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """Base of dataclasses that hold tensors. Fields may also be such dataclasses, tuples of both, or other values."""

    def map(self, change: Callable[[Tensor, str], Tensor]) -> Self:
        """Return a copy in which change(tensor, axes) stands in the place of each tensor, also of nested ones.

        axes: the letters behind the last `_` of the field's name, one for each axis.
        """
        return self._changed(change, lambda part: part.map(change))

    def to(self, device: torch.device) -> Self:
        """Return a copy on a device."""
        return self.map(lambda x, _: x.to(device, non_blocking=True))

    def _changed(self, change: Callable[[Tensor, str], Tensor], change_part: Callable[[Any], Any]) -> Self:
        def changed(value: Any, axes: str) -> Any:
            if isinstance(value, Tensor):
                return change(value, axes)
            if isinstance(value, Tensors):
                return change_part(value)
            return tuple(changed(one, axes) for one in value) if isinstance(value, tuple) else value

        names = [field.name for field in fields(self)]
        return replace(self, **{name: changed(getattr(self, name), name.rpartition("_")[2]) for name in names})
