"""Speed of updates and searches at the papers' sizes, as the trainer and the decoder run them.

An update has 25,000 target tokens, or 80 sentences for a recurrent system, with the lengths of WMT. A row gives tokens
a second and their share of the peak in bfloat16 (`mfu`), micro-batches an update, kernels a micro-batch, the share of
the time in which a kernel runs (`busy`), the kernels that take most of that time and their shares of it (`slowest`),
the most memory, and what the batches of an update take (`collation_ms`, of a process that makes them). Of an update the
host waits for its batches (`wait_ms`) and launches kernels (`host_ms`). `compiled`: by torch.compile.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import torch
from drawn_pairs import drawn_reader, plan_of_updates
from figures import DEVICE, ON_GPU, Figures, finish
from systems import SYSTEMS
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer
from trainings import settings_of_paper

import phrasemt.training.trainer as trainer_module
from phrasemt.decoding.beam import translate_split
from phrasemt.models.cost import cost_of
from phrasemt.models.interface import TranslationModel, build_model
from phrasemt.nn.compiling import SWITCH
from phrasemt.study.architectures import Architecture, RecurrentModel
from phrasemt.study.schema import Decoding
from phrasemt.training.trainer import Trainer

BASE = {"encoder_layers": 6, "decoder_layers": 6, "width": 512, "heads": 8, "ffn_width": 2048}
BIG = {**BASE, "width": 1024, "heads": 16, "ffn_width": 4096, "dropout": 0.3, "attn_dropout": 0.3, "act_dropout": 0.3}
RECURRENT = {"embedding": 620, "hidden": 1000, "chunk_hidden": 1000, "chunk_embedding": 1000}
TINY = {"width": 16, "heads": 4, "ffn_width": 32, **dict.fromkeys(RECURRENT, 16)}
PAPER = dict.fromkeys(("transformer", "+Max", "+Max+Attn+TA", "relative", "phrasal 1-2", "phrasal 1-2-3"), BASE)
PAPER |= {"big": BIG, "dl4mt": RECURRENT, "biscale": RECURRENT}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in PAPER},
    "transformer, tf32": ("transformer", {"precision": "tf32"}),
    **{f"{name}, padded": (name, {"packed": False}) for name in ("transformer", "+Max+Attn+TA", "phrasal 1-2-3")},
    **{f"{name}, float32": (name, {"precision": "float32"}) for name in ("transformer", "biscale")},
    **{f"{name}, not captured": (name, {"captured": False}) for name in ("transformer", "phrasal 1-2-3", "biscale")},
}
COMPILED = ("transformer", "big", "+Max+Attn+TA", "phrasal 1-2-3") if ON_GPU else ("transformer",)  # minutes on a CPU
PRODUCTS = ((27_000, 512, 2048), (27_000, 512, 512), (7_000, 512, 37_000)) if ON_GPU else ((27, 16, 32),)
KERNELS = 1000  # of a graph
SEARCHES = ("transformer", "+Max+Attn+TA", "biscale")
WORDS = 32_000 if ON_GPU else 300
PEAK = 989e12  # operations a second in bfloat16 of an H100 and an H200


def of_paper(name: str) -> Architecture:
    """A system at the size of its paper; on a CPU a tiny one."""
    settings = SYSTEMS["transformer" if name == "big" else name].settings
    sizes = PAPER[name] | ({} if ON_GPU else TINY)
    return settings.model_copy(update={key: size for key, size in sizes.items() if key in type(settings).model_fields})


def untrained(settings: Architecture) -> TranslationModel[Any, Any]:
    torch.manual_seed(1)
    return build_model(settings, source_vocabulary=WORDS, target_vocabulary=WORDS).to(DEVICE)


def constants(results: Figures) -> None:
    """What bounds every figure here: launches, a captured graph of small kernels, copies, products in bfloat16."""
    number = torch.zeros((), device=DEVICE)
    launch = Timer("number.add_(1)", globals={"number": number}).timeit(10_000)
    results.add("launch", microseconds=launch.mean * 1e6)
    if ON_GPU:
        with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
            for _ in range(KERNELS):
                number.add_(1)
        replay = Timer("graph.replay()", globals={"graph": graph}).timeit(20)
        results.add("kernel of a graph", microseconds=replay.mean * 1e6 / KERNELS)
    source = torch.zeros(2**28 if ON_GPU else 2**16, device=DEVICE)
    copy = Timer("source.clone()", globals={"source": source}).timeit(20)
    results.add("copy", gb_s=2 * source.nbytes / copy.mean / 1e9)
    for rows, width, columns in PRODUCTS:
        left = torch.randn(rows, width, device=DEVICE, dtype=torch.bfloat16)
        right = torch.randn(width, columns, device=DEVICE, dtype=torch.bfloat16)
        product = Timer("left @ right", globals={"left": left, "right": right}).timeit(20)
        results.add(f"product {rows} x {width} x {columns}", tflop_s=2 * rows * width * columns / product.mean / 1e12)


def updates(results: Figures) -> None:
    _updates(results, VARIANTS)


def compiled(results: Figures) -> None:
    _updates(results, {name: (name, {"compile": "on"}) for name in COMPILED})


def _updates(results: Figures, variants: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
    for row, (name, changes) in variants.items():
        try:
            with (
                patch.dict(trainer_module.PACKED, {DEVICE.type: changes.get("packed", True)}),
                patch.dict(os.environ, {SWITCH: changes.get("compile", "off")}),
            ):
                figures = speed_of_updates(of_paper(name), changes)
        except (RuntimeError, torch.OutOfMemoryError) as error:
            figures = {"error": f"{type(error).__name__}: {error}"[:200]}
        results.add(row, **figures)


def speed_of_updates(model: Architecture, changes: dict[str, Any]) -> dict[str, Any]:
    recurrent, part = isinstance(model, RecurrentModel), 1 if ON_GPU else 40
    size = {"sentences_per_update": 80 // part} if recurrent else {"tokens_per_update": 25_000 // part}
    settings = settings_of_paper(model, precision=changes.get("precision", "bfloat16"), max_length=100, **size)
    reader = drawn_reader(model.model_inputs, pairs=60_000 // part**2, vocabulary=WORDS)
    trainer, plan = Trainer(untrained(model), reader, settings), plan_of_updates(settings, reader.examples)
    if not changes.get("captured", True):
        trainer._replays, trainer.rank_reader = None, dataclasses.replace(trainer.rank_reader, fixed=False)
    begin, trainer.capacity = time.perf_counter(), 2**16
    if not changes and model.family == "transformer":  # seconds for each system
        trainer.find_capacity(plan)
    figures: dict[str, Any] = {"capacity": trainer.capacity, "find_capacity_s": time.perf_counter() - begin}
    # The same updates again, because shapes are replayed from the second time on.
    count = 3 if recurrent else 8 if ON_GPU else 1
    drawn_updates = itertools.cycle(itertools.islice(plan.updates(), count))
    drawn, number = trainer.rank_reader.ahead(drawn_updates, lambda: trainer.capacity), 0
    waited = busy_host = 0.0

    def run(count: int) -> tuple[float, int, int]:
        """Seconds, tokens and micro-batches of some updates."""
        nonlocal number, waited, busy_host
        begin, done = time.perf_counter(), []
        for _ in range(count):
            number += 1
            before = time.perf_counter()
            (_, _, rows), share = next(drawn)
            waited += (read := time.perf_counter()) - before
            done.append(trainer.begin(number, rows, share).result)
            busy_host += time.perf_counter() - read
        finish()
        seconds, done = time.perf_counter() - begin, [result() for result in done]
        return seconds, sum(one.tokens for one in done), sum(one.micro_batches for one in done)

    warm_up, _, _ = run(2 * count)
    if ON_GPU:
        torch.cuda.reset_peak_memory_stats()
    waited = busy_host = 0.0
    rounds = [run(count) for _ in range(3)]
    rate = statistics.median(tokens / seconds for seconds, tokens, _ in rounds)
    figures |= {"warm_up_s": warm_up, "tokens_s": rate}
    figures |= {"wait_ms": 1000 * waited / (3 * count), "host_ms": 1000 * busy_host / (3 * count)}
    figures["micro_batches"] = sum(parts for *_, parts in rounds) / (3 * count)
    begin = time.perf_counter()
    for _, _, rows in itertools.islice(plan.updates(), count):
        trainer.rank_reader.read(rows, trainer.capacity)
    figures["collation_ms"] = 1000 * (time.perf_counter() - begin) / count
    if ON_GPU:
        figures["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            seconds, _, parts = run(2)
        kernels = [event for event in profiled.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        figures["kernels"] = len(kernels) / parts
        busy: Counter[str] = Counter()
        for kernel in kernels:
            busy[kernel.name] += kernel.time_range.elapsed_us()
        figures["busy"] = busy.total() / 1e6 / seconds
        figures["slowest"] = {name[:60]: round(time / busy.total(), 3) for name, time in busy.most_common(8)}
        multiply_adds = cost_of(model, source_vocabulary=WORDS, target_vocabulary=WORDS).multiply_adds
        figures["mfu"] = 3 * 2 * multiply_adds * rate / PEAK  # the backward pass costs twice the forward pass
    return figures


def searches(results: Figures) -> None:
    """Sentences a second. Untrained weights seldom end a sentence, so outputs are as long as the limit: the source."""
    for name in SEARCHES:
        model = of_paper(name)
        reader = drawn_reader(model.model_inputs, pairs=3000 if ON_GPU else 5, vocabulary=WORDS)
        ready = untrained(model).eval()
        for precision in ("float32", "bfloat16"):
            rates = {}
            for beam in (1, 4):
                decoding = Decoding(beam=beam, precision=precision, max_length_factor=1.0, max_length_extra=1)
                begin = time.perf_counter()
                translate_split(ready, reader, decoding)
                finish()
                rates[f"beam_{beam}"] = len(reader.examples) / (time.perf_counter() - begin)
            results.add(f"{name}, {precision}", **rates)


if __name__ == "__main__":
    {"constants": constants, "updates": updates, "compiled": compiled, "searches": searches}[sys.argv[1]](Figures())
