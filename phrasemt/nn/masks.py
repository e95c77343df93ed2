"""Masks of attention: which keys each query may use.

Letters: B sentences, T query positions, S key positions, X in the name of a mask: B, 1, 1; or B, 1, T; or T.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

Form = TypeVar("Form")


class Mask:
    """A mask that the attentions of all layers share.

    allowed: [B, 1, 1, S], [B, 1, T, S] or [T, S], True where a query may use a key. What operations need in its place
    is made once for all layers, because on a GPU each conversion in a layer is a few launches of kernels.
    """

    def __init__(self, allowed_XS: Tensor) -> None:
        self.allowed_XS = allowed_XS
        self._forms: dict[Hashable, Any] = {}

    def form(self, make: Callable[..., Form], *arguments: Hashable) -> Form:
        """Return make(allowed, *arguments), computed once."""
        if (make, *arguments) not in self._forms:
            self._forms[make, *arguments] = make(self.allowed_XS, *arguments)
        form: Form = self._forms[make, *arguments]
        return form

    @property
    def forbidden_XS(self) -> Tensor:
        """True where a query may not use a key, for `masked_fill`."""
        return self.form(torch.logical_not)

    def bias_XS(self, dtype: torch.dtype) -> Tensor:
        """0 where a query may use a key, -inf elsewhere, for an addition to scores of this type."""
        return self.form(_bias, dtype)


def _bias(allowed_XS: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(allowed_XS, dtype=dtype).masked_fill_(~allowed_XS, -torch.inf)


def causal_mask(length: int, device: torch.device) -> Mask:
    """Return the mask [T, T] with which query i may use key j if j <= i."""
    return Mask(torch.ones(length, length, dtype=torch.bool, device=device).tril_())


def key_mask(real_BS: Tensor) -> Mask:
    """Return the mask [B, 1, 1, S]: every head and every query of a sentence may use the keys where real_BS is True."""
    return Mask(real_BS[:, None, None, :])
