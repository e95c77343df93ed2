"""Speed of a training step on a CPU, one thread. Run: python tests/benchmarks/train_step.py --help

Target tokens per second of a small model (3+3 layers, width 256, vocabulary 8,000, about 1,900 target tokens per batch,
dropout 0.3, Adam), in batches of changing lengths, against torch.nn.Transformer and F.cross_entropy on the same ones.
Each form of phrasemt/nn/cpu/ has a row with the time of a step without it, divided by the time with all forms (median
over batches). All rows take turns batch by batch, so that a busy machine slows all. CPU time counts, not the clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phrasemt.batching.batch import Batch, collate_phrases, collate_source, collate_target
from phrasemt.models.interface import build_model
from phrasemt.nn import cpu
from phrasemt.study.architectures import PhraseRepresentationModel, TransformerModel
from phrasemt.symbols import PAD
from phrasemt.syntax.phrases.ngrams import ngram_ends

VOCABULARY, TOKENS = 8000, 1900
SHAPE = {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "heads": 4, "ffn_width": 1024}
DROPOUT = {"dropout": 0.3, "attn_dropout": 0.3, "act_dropout": 0.3}
SYSTEMS = {
    "transformer": TransformerModel(**SHAPE, **DROPOUT),
    "+Max+Attn+TA": PhraseRepresentationModel(**SHAPE, **DROPOUT, pool="attn", ta="on"),
}


class PlainTorch(nn.Module):
    """The same model from torch's own parts."""

    def __init__(self) -> None:
        super().__init__()
        width, layers = SHAPE["width"], SHAPE["encoder_layers"]
        self.source, self.target = nn.Embedding(VOCABULARY, width), nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(512, width), requires_grad=False)
        self.body = nn.Transformer(width, SHAPE["heads"], layers, layers, SHAPE["ffn_width"], 0.3, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))
        self.dropout = nn.Dropout(0.3)

    def loss(self, batch: Batch) -> Tensor:
        x, y = (
            self.dropout(embedding(ids) * SHAPE["width"] ** 0.5 + self.positions[: ids.shape[1]])
            for embedding, ids in ((self.source, batch.source.ids_BS), (self.target, batch.target.inputs_BT))
        )
        padded, future = ~batch.source.mask_BS, torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        states = self.body(x, y, tgt_mask=future, src_key_padding_mask=padded, memory_key_padding_mask=padded)
        logits = F.linear(states, self.target.weight, self.bias).float().flatten(0, 1)
        references = batch.target.outputs_BT.flatten()
        return F.cross_entropy(logits, references, ignore_index=PAD, label_smoothing=0.1, reduction="sum")


def random_batch(rng: np.random.Generator) -> Batch:
    """Sentences of about the same length, as a sorted corpus gives them."""
    length = int(rng.integers(9, 24))
    sides = [
        [
            rng.integers(4, VOCABULARY, size=length + rng.integers(low, high)).astype(np.int32)
            for _ in range(TOKENS // length)
        ]
        for low, high in ((-2, 3), (-1, 1))
    ]
    phrases = collate_phrases([ngram_ends(len(ids) + 1, SYSTEMS["+Max+Attn+TA"].source_phrases) for ids in sides[0]])
    return Batch(rows=(), source=collate_source(sides[0], phrases), target=collate_target(sides[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=10, help="measured, after as many to warm up (default 10)")
    parser.add_argument("--precision", nargs="*", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for precision in arguments.precision:
        steps = {("torch.nn", ""): stepper(PlainTorch(), precision)}
        for name, settings in SYSTEMS.items():
            model = build_model(settings, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
            step = stepper(model, precision)
            steps |= {(name, ""): step} | {(name, form): without(form, step) for form in cpu.FORMS}
        rng, tokens = np.random.default_rng(1), 0
        seconds: dict[tuple[str, str], list[float]] = {row: [] for row in steps}
        for number in range(2 * arguments.batches):
            batch = random_batch(rng)
            measured = number >= arguments.batches
            tokens += measured * int(batch.target.mask_BT.sum())
            for row, step in steps.items():
                start = time.process_time()
                step(batch)
                if measured:
                    seconds[row].append(time.process_time() - start)
        for (name, form), spent in seconds.items():
            if form:
                ratio = statistics.median(one / other for one, other in zip(spent, seconds[name, ""], strict=True))
                print(f"{precision:9} {name:13} without the form {form:9} {ratio:.2f} x the time of a step")
            else:
                speed, times = tokens / sum(spent), sum(seconds["torch.nn", ""]) / sum(spent)
                print(f"{precision:9} {name:13} {speed:7,.0f} target tokens/s, {times:.2f} x torch.nn")


def without(form: cpu.Form, step: Callable[[Batch], None]) -> Callable[[Batch], None]:
    """Return the same step with one form for CPUs turned off."""

    def plain(batch: Batch) -> None:
        with cpu.without(form):
            step(batch)

    return plain


def stepper(model: nn.Module, precision: str) -> Callable[[Batch], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = (
                model.loss(batch) if isinstance(model, PlainTorch) else model.loss(batch, label_smoothing=0.1).objective
            )
        (loss / int(batch.target.mask_BT.sum())).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()
