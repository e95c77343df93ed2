"""Speed and memory of parsing and of tagging chunks. Run: python tests/benchmarks/parsing.py --help

Speed: `phrasemt.syntax.stanza.annotators` in blocks, as the stages call it, against Stanza's own Pipeline on the same
sentences in documents as large, one thread each. The runs take turns, so that a busy machine slows all of them; CPU
seconds are those of all processes. Then the blocks spread over two processes.

Memory: the largest resident set of a process that parses some and many sentences, block by block.

Needs models, so that the speed is that of a parser in use: the folder shared/data/stanza-models beside the checkout,
or the files named. Stops with a message where there are none.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
MODELS = SHARED / "stanza-models"
FILES = {
    "constituency": MODELS / "constituency_en_wsj-sample.pt",
    "tagger": MODELS / "pos_en_wsj-sample.pt",
    "chunker": MODELS / "chunker_en_conll2000.pt",
    "vectors": MODELS / "vectors_en_100d.pt",
}
TEXT = SHARED / "multi30k" / "train.en.gz"
BLOCK = 1000
TARGET, TARGET_MEMORY_MIB = 0.95, 1024

Sentences = list[list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for role, path in FILES.items():
        parser.add_argument(f"--{role}", type=Path, default=path, metavar="FILE", help="model (default %(default)s)")
    parser.add_argument("--text", type=Path, default=TEXT, help="English sentences, one a line (default %(default)s)")
    parser.add_argument("--sentences", type=int, default=2000, help="for the speed (default %(default)s)")
    parser.add_argument("--repetitions", type=int, default=3, help="turns of the speed runs (default %(default)s)")
    parser.add_argument("--memory", type=int, nargs="*", default=[2000, 10_000], metavar="SENTENCES", help="sizes")
    options = parser.parse_args()
    if missing := [
        str(path) for path in (*(getattr(options, role) for role in FILES), options.text) if not path.is_file()
    ]:
        print(f"skipped: there are no {', '.join(missing)}; name model files and a text, see --help")
        return
    # One thread in all processes, which begin by spawning; torch reads this when it is imported.
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as folder:
        cards = describe(Path(folder), options)
        if options.repetitions:
            measure_speed(Path(folder), cards, options)
        if options.memory:
            measure_memory(cards["parser"], options)


def describe(folder: Path, options: argparse.Namespace) -> dict[str, Path]:
    """The cards of the parser and of the chunker."""
    from phrasemt.artefacts.card import Card

    cards = {}
    for name, kind, roles in (
        ("parser", "constituency", ("constituency", "tagger", "vectors")),
        ("chunker", "chunks", ("chunker", "vectors")),
    ):
        files = {role: getattr(options, role) for role in roles}
        cards[name] = folder / f"{name}.json"
        Card.of_files(kind=kind, origin="files", language="en", files=files).write(cards[name])  # type: ignore[arg-type]
    return cards


def read_sentences(path: Path, count: int) -> Sentences:
    """That many different sentences; a text that ends too early begins again with a number in front of each."""
    from sacremoses import MosesTokenizer

    from phrasemt.files.lines import read_lines

    moses = MosesTokenizer("en")
    tokens = [moses.tokenize(line, escape=False) for line in itertools.islice(read_lines(path), count)]
    rounds = (sentence if turn == 0 else [str(turn), *sentence] for turn in itertools.count() for sentence in tokens)
    return list(itertools.islice(rounds, count))


def blocks(sentences: Sentences) -> Iterator[Sentences]:
    for start in range(0, len(sentences), BLOCK):
        yield sentences[start : start + BLOCK]


def measure_speed(folder: Path, cards: dict[str, Path], options: argparse.Namespace) -> None:
    from phrasemt.syntax.stanza.annotators import load_annotator

    sentences = read_sentences(options.text, options.sentences)
    pipelines = build_pipelines(folder, options)
    names = {"parser": "constituency parser", "chunker": "chunker"}
    runs: dict[str, Callable[[], float | None]] = {}
    for name, title in names.items():
        annotator, pipeline = load_annotator(cards[name]), pipelines[name]
        runs[f"{title}: Stanza's Pipeline"] = lambda pipeline=pipeline: each(pipeline, sentences)
        runs[f"{title}: phrasemt"] = lambda annotator=annotator: [
            annotator.annotate(part) for part in blocks(sentences)
        ]
    for processes in (1, 2):
        runs[f"{names['parser']}, {processes} process{'es' * (processes > 1)}"] = lambda processes=processes: spread(
            cards["parser"], sentences, processes
        )
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repetitions):
        for name, action in runs.items():
            start, cpu_start = time.perf_counter(), sum(os.times()[:4])
            measured = action()  # those that start processes first measure themselves
            seconds[name].append(measured if isinstance(measured, float) else time.perf_counter() - start)
            cpu_seconds[name].append(sum(os.times()[:4]) - cpu_start)
    tokens = sum(map(len, sentences)) / len(sentences)
    load = os.getloadavg()[0]
    print(f"{len(sentences):,} sentences of {tokens:.1f} tokens, {options.repetitions} turns, load {load:.1f}")
    print(f"{'':<52}{'median s':>10}{'CPU s':>8}{'sent/s':>8}{'per CPU s':>11}{'of Pipeline':>13}")
    reference = 0.0
    for name, times in seconds.items():
        median, cpu = statistics.median(times), statistics.median(cpu_seconds[name]) or 0.01  # the clock of CPU time
        reference = cpu if name.endswith("Pipeline") else reference
        speed = f"{len(sentences) / median:>8,.0f}{len(sentences) / cpu:>11,.0f}"
        if "process" in name:  # their CPU seconds are those of the start, too
            print(f"{name:<52}{median:>10.2f}{'':>8}{len(sentences) / median:>8,.0f}")
        else:
            print(f"{name:<52}{median:>10.2f}{cpu:>8.2f}{speed}{reference / cpu:>13.0%}")
    print(f"target: at least {TARGET:.0%} of the Pipeline's sentences per CPU second\n")


def build_pipelines(folder: Path, options: argparse.Namespace) -> dict[str, Callable[[Sentences], object]]:
    """Stanza's own, with the sizes of batches that are best for them."""
    import stanza
    import torch

    torch.set_num_threads(1)
    (folder / "resources.json").write_text('{"en": {"lang_name": "English", "packages": {"default": {}}}}')
    common = {
        "lang": "en", "dir": str(folder), "package": None, "download_method": None, "use_gpu": False, "verbose": False,
        "tokenize_pretokenized": True,
    }  # fmt: skip
    vectors = str(options.vectors)
    return {
        "parser": stanza.Pipeline(
            **common,
            processors="tokenize,pos,constituency",
            pos_model_path=str(options.tagger),
            pos_pretrain_path=vectors,
            pos_batch_size=250,
            constituency_model_path=str(options.constituency),
            constituency_pretrain_path=vectors,
            constituency_batch_size=50,
        ),
        "chunker": stanza.Pipeline(
            **common, processors="tokenize,ner", ner_model_path=str(options.chunker), ner_pretrain_path=vectors
        ),
    }


def each(annotate: Callable[[Sentences], object], sentences: Sentences) -> None:
    for part in blocks(sentences):
        annotate(part)


def spread(card: Path, sentences: Sentences, processes: int) -> float:
    """Consecutive parts over processes that each load the parser and warm up: seconds from ready to all done.

    Every second line would be no fair part: those of Multi30k's English side differ in length by turns.
    """
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Barrier(processes + 1), spawn.Barrier(processes + 1)
    part = -(-len(sentences) // processes)
    workers = [
        spawn.Process(target=annotate_together, args=(card, sentences[start : start + part], ready, done))
        for start in range(0, len(sentences), part)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.perf_counter()
    done.wait()
    seconds = time.perf_counter() - start
    for worker in workers:
        worker.join()
    return seconds


def annotate_together(card: Path, sentences: Sentences, ready: Barrier, done: Barrier) -> None:
    from phrasemt.syntax.stanza.annotators import load_annotator

    annotator = load_annotator(card)
    annotator.annotate(sentences[:BLOCK])
    ready.wait()
    each(annotator.annotate, sentences)
    done.wait()


def measure_memory(card: Path, options: argparse.Namespace) -> None:
    if sys.platform != "linux":
        print("memory is measured on Linux only")
        return
    spawn = multiprocessing.get_context("spawn")
    for size in options.memory:
        receiver, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_send_peak, args=(sender, card, options.text, size))
        process.start()
        sender.close()
        print(f"{size:>10,} sentences: largest resident set {receiver.recv() // 1024:,} MiB")
        process.join()
    print(f"target: flat, below {TARGET_MEMORY_MIB:,} MiB")


def _send_peak(sender: Connection, card: Path, text: Path, size: int) -> None:
    from phrasemt.syntax.stanza.annotators import load_annotator

    each(load_annotator(card).annotate, read_sentences(text, size))
    sender.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main()
