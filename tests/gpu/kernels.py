"""Kernels and waits of the host in a training step, by system, counted on a pretended GPU with DEV=cpu.

Forward and backward of one micro-batch at full depth and tiny width. A launch takes 4.5 to 9 us of the host: where
micro-batches are small, launches bound the speed. `micro_batches` of an update of 25,000 tokens follow from the plan;
recurrent systems have one an update of 80 sentences.
"""

from __future__ import annotations

import itertools
import statistics

from drawn_pairs import drawn_reader
from figures import Figures
from pretended_cuda import GPU, PretendedGpu
from speed import PAPER, WORDS, of_paper, untrained
from training import plan_of

from phrasemt.batching.sampler import micro_batches
from phrasemt.nn.precision import ProductsOfTraining
from phrasemt.study.architectures import RecurrentModel, TransformerModel

CAPACITY = 2**18  # what the trainer tries first on a GPU


def micro_batches_of_an_update() -> float:
    examples = drawn_reader(TransformerModel().model_inputs, pairs=60_000, vocabulary=WORDS).examples
    lengths = examples.source_lengths, examples.target_lengths
    updates = itertools.islice(plan_of(examples, 25_000).epoch(0), 10)
    return statistics.mean(len(micro_batches(rows, *lengths, capacity=CAPACITY, device=GPU.type)) for rows in updates)


def main() -> None:
    results, usual = Figures(), micro_batches_of_an_update()
    for name in PAPER:
        settings = of_paper(name)
        batch = drawn_reader(settings.model_inputs, pairs=8, vocabulary=WORDS, longest=27)(range(8))
        with PretendedGpu() as gpu:
            model, batch = untrained(settings).train().to(GPU), batch.to(GPU)
            gpu.reset()
            with ProductsOfTraining(model, "bfloat16", GPU)():
                loss = model.loss(batch, label_smoothing=0.1)
            forward = gpu.kernels.total()
            (loss.objective / loss.tokens).backward()
        count, parts = gpu.kernels.total(), 1 if isinstance(settings, RecurrentModel) else usual
        figures = {"positions": batch.target.mask_BT.shape[1], "forward": forward, "backward": count - forward}
        results.add(
            name, **figures, micro_batches=parts, kernels_of_an_update=round(parts * count), waits=dict(gpu.waits)
        )


if __name__ == "__main__":
    main()
