"""Kernels and waits of the host in a training step, by system, counted on a pretended GPU with DEV=cpu.

Forward and backward of one micro-batch at full depth and tiny width. A launch takes 4.5 to 9 us of the host: where
micro-batches are small, launches bound the speed. An update is one micro-batch, packed or of 80 sentences; with pairs
that are longer than a row it has a second one.
"""

from __future__ import annotations

import numpy as np
from drawn_pairs import drawn_reader
from figures import Figures
from pretended_cuda import GPU, PretendedGpu
from speed import PAPER, WORDS, of_paper, untrained

from phrasemt.batching.reader import RankReader
from phrasemt.nn.precision import ProductsOfTraining


def main() -> None:
    results = Figures()
    for name in PAPER:
        settings = of_paper(name)
        reader = drawn_reader(settings.model_inputs, pairs=8, vocabulary=WORDS, longest=27)
        model = untrained(settings).train()
        rows_of = (model.positions_in_row,) if model.positions_in_row else ()
        (batch,) = RankReader(reader, GPU.type, rows_of=rows_of).read(np.arange(8), 2**18).batches
        with PretendedGpu() as gpu:
            model, batch = model.to(GPU), batch.to(GPU)
            gpu.reset()
            with ProductsOfTraining(model, "bfloat16", GPU)():
                loss = model.loss(batch, label_smoothing=0.1)
            forward = gpu.kernels.total()
            (loss.objective / loss.tokens).backward()
        count = gpu.kernels.total()
        figures = {"positions": batch.target.mask_BT.shape[1], "forward": forward, "backward": count - forward}
        results.add(name, **figures, kernels_of_an_update=count, waits=dict(gpu.waits))


if __name__ == "__main__":
    main()
