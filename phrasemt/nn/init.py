"""Initial weights (science 1.0, `init: xavier`)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasemt.symbols import PAD


def xavier_blocks(rows: int, columns: int, blocks: int = 1) -> nn.Parameter:
    """`blocks` matrices [rows, columns] one below the other, each Xavier-uniform by its own size.

    Fused projections are several matrices that are multiplied at once; their bounds must not depend on that.
    """
    weight = torch.empty(blocks * rows, columns)
    for block in weight.chunk(blocks):
        nn.init.xavier_uniform_(block)
    return nn.Parameter(weight)


def embedding_table(vocabulary: int, width: int) -> nn.Parameter:
    """N(0, 1/d) with a zero row for `<pad>`."""
    table_VD = torch.empty(vocabulary, width).normal_(std=width**-0.5)
    table_VD[PAD] = 0
    return nn.Parameter(table_VD)


def zeros(*shape: int) -> nn.Parameter:
    bias: Tensor = torch.zeros(*shape)
    return nn.Parameter(bias)
