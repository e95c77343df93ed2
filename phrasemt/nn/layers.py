"""What models share besides attention: masks, initial weights, positions, dropout, feed-forward and residual layers.

Letters: B sentences, T (query) positions, S key positions, D model width, X in the name of a mask: B, 1, 1; or B, 1, T;
or T. A mask says which keys each query may use. Layer normalisation is computed in float32, also when products are
computed in bfloat16. Position encodings are sinusoidal (Vaswani et al. 2017, section 3.5). Constructors of modules
initialise weights as `init: xavier` says; `initialise` replaces them for another `init` (docs/decisions.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypeVar, cast, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.batching.batch import Pairs
from phrasemt.errors import PhrasemtError
from phrasemt.study.architectures import Layers
from phrasemt.symbols import PAD

Made = TypeVar("Made")


class Mask:
    """A mask that the attentions of all layers share.

    allowed: [B, 1, 1, S], [B, 1, T, S] or [T, S], True where a query may use a key. What operations need in its place
    is made once for all layers, because on a GPU each conversion in a layer is a few launches of kernels.
    places: of each key in its pair, where pairs share rows.
    """

    def __init__(self, allowed_XS: Tensor, places_BS: Tensor | None = None) -> None:
        self.allowed_XS, self.places_BS = allowed_XS, places_BS
        self._forms: dict[Hashable, Any] = {}

    def form(self, make: Callable[..., Made], *arguments: Hashable) -> Made:
        """Return make(self, *arguments), computed once."""
        if (make, *arguments) not in self._forms:
            self._forms[make, *arguments] = make(self, *arguments)
        form: Made = self._forms[make, *arguments]
        return form

    @property
    def forbidden_XS(self) -> Tensor:
        """True where a query may not use a key, for `masked_fill`."""
        return self.form(_forbidden)

    def bias_XS(self, dtype: torch.dtype) -> Tensor:
        """0 where a query may use a key, -inf elsewhere, for an addition to scores of this type."""
        return self.form(_bias, dtype)


def _forbidden(mask: Mask) -> Tensor:
    return ~mask.allowed_XS


def _bias(mask: Mask, dtype: torch.dtype) -> Tensor:
    # In room of a multiple of 8 keys. Without it torch's attention on a GPU copies the bias in each layer.
    *shape, keys = mask.allowed_XS.shape
    room_XS = mask.allowed_XS.new_zeros(*shape, -(-keys // 8) * 8, dtype=dtype)
    return room_XS[..., :keys].masked_fill_(mask.forbidden_XS, -torch.inf)


def causal_mask(length: int, device: torch.device, pairs: Pairs | None = None) -> Mask:
    """Return the mask [T, T], or of packed rows [B, 1, T, T], with which query i may use key j if j <= i."""
    causal_TT = torch.ones(length, length, dtype=torch.bool, device=device).tril_()
    return Mask(causal_TT) if pairs is None else _within_pairs(pairs, pairs, causal_TT)


def key_mask(real_BS: Tensor, keys: Pairs | None = None, queries: Pairs | None = None) -> Mask:
    """Return the mask [B, 1, 1, S]: every head and every query of a sentence may use the keys where real_BS is True.

    keys, queries: the pairs of packed rows; a query may then use the keys of its own pair [B, 1, T, S].
    """
    return Mask(real_BS[:, None, None, :]) if keys is None else _within_pairs(queries, keys)


def _within_pairs(queries: Pairs | None, keys: Pairs, allowed_TS: Tensor | None = None) -> Mask:
    """The mask within pairs and within `allowed`. Padding queries the first pair, because it needs some key."""
    assert queries is not None
    own_BTS = queries.number_BS.clamp(min=0)[:, :, None] == keys.number_BS[:, None, :]
    return Mask((own_BTS if allowed_TS is None else own_BTS & allowed_TS)[:, None], keys.place_BS)


def xavier_blocks(rows: int, columns: int, blocks: int = 1) -> nn.Parameter:
    """Return `blocks` matrices [rows, columns], one below the other: [blocks*rows, columns].

    Each is Xavier-uniform by its own size (Glorot, Bengio 2010). The matrices of a fused projection are multiplied
    together, but each must have the bound that it would have alone.
    """
    weight = torch.empty(blocks * rows, columns)
    for block in weight.chunk(blocks):
        nn.init.xavier_uniform_(block)
    return nn.Parameter(weight)


def recurrent_blocks(rows: int, columns: int, *, deviation: float, blocks: int = 1) -> nn.Parameter:
    """Return matrices as `xavier_blocks` does, with dl4mt's weights: orthogonal if square, else N(0, deviation^2)."""
    weight = torch.empty(blocks * rows, columns)
    for block in weight.chunk(blocks):
        if rows == columns:
            nn.init.orthogonal_(block)
        else:
            nn.init.normal_(block, std=deviation)
    return nn.Parameter(weight)


def embedding_table(vocabulary: int, width: int) -> nn.Parameter:
    """Return an embedding table [vocabulary, width]: N(0, 1/width), and a zero row for `<pad>`."""
    table_VD = torch.empty(vocabulary, width).normal_(std=width**-0.5)
    table_VD[PAD] = 0
    return nn.Parameter(table_VD)


def initialise(model: nn.Module, init: str) -> None:
    """Initialise the matrices of a model as `init` says: `xavier` leaves them as they are, `neutron` replaces them.

    neutron (Xu et al.'s code): each matrix U(+-1/sqrt(fan_in)), embedding tables U(+-sqrt(2/(V+d))). Biases, layer
    normalisations and modules with `own_init` keep their values.
    """
    if init == "xavier":
        return
    for module in model.modules():
        if getattr(module, "own_init", False):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.ndim == 2:
                rows, columns = parameter.shape
                bound = (2 / (rows + columns)) ** 0.5 if name.endswith("_table_VD") else columns**-0.5
                nn.init.uniform_(parameter, -bound, bound)
                if name.endswith("_table_VD"):
                    parameter.data[PAD] = 0


def zeros(*shape: int) -> nn.Parameter:
    bias: Tensor = torch.zeros(*shape)
    return nn.Parameter(bias)


def sinusoids(length: int, width: int) -> Tensor:
    """Return PE [length, width], float32: column 2i is sin(t / 10000^(2i/d)), column 2i+1 the cosine of that angle."""
    positions_T = torch.arange(length, dtype=torch.float64)
    columns = torch.arange(0, width, 2, dtype=torch.float64)
    angles_TI = positions_T[:, None] * 10000.0 ** (-columns / width)
    return torch.stack((angles_TI.sin(), angles_TI.cos()), dim=-1).flatten(1)[:, :width].float()


class SinusoidalPositions(nn.Module):
    """A table of position encodings, which grows when a longer sentence needs it. Checkpoints do not contain it."""

    table_TD: Tensor

    def __init__(self, width: int, length: int = 512) -> None:
        super().__init__()
        self.register_buffer("table_TD", sinusoids(length, width), persistent=False)

    def forward(self, first: int, length: int) -> Tensor:
        """Return PE of positions first to first+length-1: [length, width]."""
        known, width = self.table_TD.shape
        if first + length > known:
            self.table_TD = sinusoids(max(first + length, 2 * known), width).to(self.table_TD)
        return self.table_TD[first : first + length]


# Operations that have another form on a CPU, which is faster there than the plain torch code: dropout in this file, and
# attention in `attention.py`. A form computes the same function; results differ by rounding and by the random numbers
# of dropout. `PHRASEMT_CPU_FORMS=off` in the environment turns all forms off.
CpuForm = Literal["attention", "dropout"]
CPU_FORMS: tuple[CpuForm, ...] = get_args(CpuForm)
CPU_FORMS_SWITCH = "PHRASEMT_CPU_FORMS"


def _chosen_cpu_forms() -> frozenset[CpuForm]:
    """Return the forms that the environment asks for."""
    value = os.environ.get(CPU_FORMS_SWITCH, "on")
    if value not in ("on", "off"):
        what = "unknown value of an environment variable"
        next_step = f"unset {CPU_FORMS_SWITCH}, or set it to off for the plain torch code"
        raise PhrasemtError(what, where=CPU_FORMS_SWITCH, expected="on or off", found=value, next_step=next_step)
    return frozenset(CPU_FORMS) if value == "on" else frozenset()


_cpu_forms_in_use = _chosen_cpu_forms()


def cpu_form_applies(form: CpuForm, x: Tensor) -> bool:
    """Return whether the form computes the operation on x: on a CPU, not compiled, and not turned off."""
    return x.device.type == "cpu" and form in _cpu_forms_in_use and not torch.compiler.is_compiling()


@contextmanager
def without_cpu_forms(*forms: CpuForm) -> Iterator[None]:
    """Turn forms off within a block."""
    global _cpu_forms_in_use
    before = _cpu_forms_in_use
    _cpu_forms_in_use = _cpu_forms_in_use - set(forms)
    try:
        yield
    finally:
        _cpu_forms_in_use = before


LEVELS = 2**16  # of the random numbers of dropout on a CPU


def dropout(x: Tensor, probability: float) -> Tensor:
    """Return x [...] with dropout. probability: of setting an element to 0. torch's generator determines the mask."""
    if cpu_form_applies("dropout", x):
        return x * scaled_mask(x, probability)
    return F.dropout(x, probability)


def scaled_mask(like: Tensor, probability: float) -> Tensor:
    """Return 0 with the probability, else the scale that keeps the expectation, in the shape and the type of `like`.

    torch samples each Bernoulli variable separately, which takes longer than the matrix products around it; this form
    samples 16 bits for each element (docs/log/performance.md). Its masks differ from those of torch's dropout, and the
    state of torch's generator determines them, too. The probability is rounded to a multiple of 2^-16.
    """
    dropped_levels = round(probability * LEVELS)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # Four elements for each sample of 64 bits.
    samples = np.random.SFC64(seed).random_raw((like.numel() + 3) // 4)
    bits = torch.from_numpy(samples.view(np.int16))[: like.numel()].view(like.shape)
    kept = bits.ge_(dropped_levels - LEVELS // 2)  # in place, as 0 and 1
    return kept.to(like.dtype).mul_(LEVELS / (LEVELS - dropped_levels))


class Dropout(nn.Module):
    """Dropout in training mode; the identity in evaluation mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.probability) if self.training and self.probability > 0 else x


NORM_EPSILON = 1e-6


class Linear(nn.Linear):
    """A linear map y = x W^T + b: Xavier-uniform weight, zero bias."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.ModuleList, Generic[Layer]):
    """A list of layers of one class. `ProductsOfTraining` (phrasemt/nn/precision.py) says what it expects of them."""

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
