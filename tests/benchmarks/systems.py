"""What the systems of the papers cost beside their baselines. Run: python tests/benchmarks/systems.py --help

Forward and backward of small systems (3+3 layers, width 256; recurrent ones 256 and 512; vocabulary 8,000; about 1,000
target tokens a batch) against the plain baseline of the same size. All take turns batch by batch, and a ratio is the
median over batches of the ratios on one batch, so that a busy machine slows both sides. Beside each ratio stand that of
the multiply-adds, which no implementation gets below by much, and what the paper measured for its own program and size.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch

from phrasemt.batching.batch import Batch, collate_chunks, collate_phrases, collate_source, collate_target
from phrasemt.models.cost import cost_of
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import (
    Architecture,
    BiscaleModel,
    Dl4mtModel,
    LanguageModel,
    PhraseRepresentationModel,
    TransformerModel,
)
from phrasemt.symbols import EOS_LABEL
from phrasemt.syntax.ngrams import ngram_ends

VOCABULARY, TOKENS = 8000, 1000
LAYERS = {"width": 256, "heads": 4, "ffn_width": 1024}
XU = {**LAYERS, "encoder_layers": 3, "decoder_layers": 3}
NG = {**XU, "norm": "pre", "tie": "all", "softmax_bias": False}
LM = {**LAYERS, "family": "language_model", "layers": 3, "norm": "pre"}
DL4MT = {"embedding": 256, "hidden": 512}
BISCALE = {**DL4MT, "family": "biscale", "chunk_hidden": 512, "chunk_embedding": 512}


@dataclass(frozen=True)
class System:
    """A system, the name of its baseline, and the ratio that its paper gives for a training step, if it does."""

    settings: Architecture
    baseline: str
    paper: str = ""


SYSTEMS = {
    "transformer": System(TransformerModel(**XU), "transformer"),
    "+Max": System(PhraseRepresentationModel(**XU), "transformer", "1.60"),
    "+Max+Attn": System(PhraseRepresentationModel(**XU, pool="attn"), "transformer", "1.74"),
    "+Max+Attn+TA": System(PhraseRepresentationModel(**XU, pool="attn", ta="on"), "transformer", "1.75"),
    "transformer, pre": System(TransformerModel(**NG), "transformer, pre"),
    "relative": System(TransformerModel(**NG, attention="relative"), "transformer, pre"),
    "phrasal 1-2": System(TransformerModel(**NG, attention="ngrams", ngrams=2), "transformer, pre"),
    "phrasal 1-2-3": System(TransformerModel(**NG, attention="ngrams", ngrams=3), "transformer, pre"),
    "lm": System(LanguageModel(**LM), "lm"),
    "lm, phrasal 1-2": System(LanguageModel(**LM, attention="ngrams"), "lm"),
    "dl4mt": System(Dl4mtModel(**DL4MT, family="dl4mt"), "dl4mt"),
    "dl4mt-2": System(Dl4mtModel(**DL4MT, family="dl4mt", decoder_layers=2), "dl4mt"),
    "biscale": System(BiscaleModel(**BISCALE), "dl4mt"),
    "biscale, word": System(BiscaleModel(**BISCALE, attention="word"), "dl4mt"),
}


def random_batch(rng: np.random.Generator, length: int) -> Batch:
    """Sentences of about the same length, as a sorted corpus gives them, with all that any of the systems reads."""
    lengths = length - rng.integers(0, 3, size=(2, TOKENS // length))
    sides = [[rng.integers(4, VOCABULARY, size=one).astype(np.int32) for one in side] for side in lengths]
    segmentation = PhraseRepresentationModel().source_phrases
    phrases = collate_phrases([ngram_ends(len(ids) + 1, segmentation) for ids in sides[0]])
    starts = [np.flatnonzero(np.append(rng.random(len(ids)) < 0.64, True)).astype(np.int32) for ids in sides[1]]
    starts = [np.union1d([0], places).astype(np.int32) for places in starts]
    labels = [np.append(np.full(len(places) - 1, 2), EOS_LABEL).astype(np.int32) for places in starts]
    chunks = collate_chunks(starts, labels)
    return Batch(rows=(), source=collate_source(sides[0], phrases), target=collate_target(sides[1], chunks))


def seconds_of(model: torch.nn.Module, batch: Batch, precision: str) -> float:
    """Forward and backward."""
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        loss = model.loss(batch, label_smoothing=0.1)
    (loss.objective / loss.tokens).backward()
    seconds = time.perf_counter() - start
    model.zero_grad()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS), help="default: all")
    parser.add_argument("--batches", type=int, default=4, help="measured, after one to warm up (default 4)")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--precision", nargs="*", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--length", type=int, default=27, help="positions of the longest sentence (default 27)")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    names = list(dict.fromkeys(name for chosen in arguments.systems for name in (SYSTEMS[chosen].baseline, chosen)))
    sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    models = {name: build_model(SYSTEMS[name].settings, **sizes) for name in names}
    costs = {name: cost_of(SYSTEMS[name].settings, **sizes).multiply_adds for name in names}
    rng = np.random.default_rng(1)
    batches = [random_batch(rng, arguments.length - 1) for _ in range(arguments.batches)]
    print(f"{'':9} {'threads':7} {'':17} {'ms':>7} {'ratio':>6} {'bound':>6} {'paper':>6}")
    for precision in arguments.precision:
        for threads in arguments.threads:
            torch.set_num_threads(threads)
            rounds = [
                {name: seconds_of(model, batch, precision) for name, model in models.items()}
                for batch in (batches[0], *batches)
            ][1:]
            for name in names:
                system = SYSTEMS[name]
                ratio = statistics.median(seconds[name] / seconds[system.baseline] for seconds in rounds)
                bound = costs[name] / costs[system.baseline]
                milliseconds = 1000 * statistics.median(seconds[name] for seconds in rounds)
                figures = f"{milliseconds:7.0f} {ratio:6.2f} {bound:6.2f} {system.paper:>6}"
                print(f"{precision:9} {threads:7} {name:17} {figures}", flush=True)


if __name__ == "__main__":
    main()
