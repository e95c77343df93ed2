"""Initial weights (docs/decisions.md).

Constructors of modules draw the weights of `init: xavier`; `initialise` replaces them for another `init`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasemt.symbols import PAD


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
    """Initialise the matrices of a model as `init` says: `xavier` leaves them as they are, `neutron` draws them anew.

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
