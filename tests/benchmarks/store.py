"""Speed and memory of sentences by key and of the store. Run: python tests/benchmarks/store.py --help

Drawn sentences of 5 to 40 words, each in the text twice, with a made-up tree of a parser's usual length each. Times are
of the stages' functions and of the store's methods, each in a new process, on one core: per second, and per second of
CPU time, which other work on the machine hardly changes. Memory is the largest resident set of that process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

CARD = {"kind": "constituency", "fingerprint": "ab" * 16}
TARGET_LOOK_UPS, TARGET_MEMORY_MIB = 200_000, 1024
TREE = "(S (NP (DT 0) (JJ 1) (NN 2)) (VP (VBZ 3) (PP (IN 4) (NP (DT 5) (NN 6)))) (. 7)) " * 3
BLOCK = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sentences", type=int, nargs="+", default=[50_000, 500_000], metavar="N", help="sizes (default %(default)s)"
    )
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("memory is measured on Linux only")
    steps: dict[str, Callable[[Path], int]] = {
        "collect_sentences, lines/s": collect,
        "adding, sentences/s": add,
        "look-ups in the store by bucket, keys/s": find_all,
        "writing a stage's output, sentences/s": write,
        "look-ups in that output, keys/s": find_blocks,
        "merging (gc), sentences/s": merge,
        "look-ups in the merged store, keys/s": find_all,
    }
    table: dict[str, list[tuple[float, float, int]]] = {name: [] for name in steps}
    for size in options.sentences:
        with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as folder:
            write_text(Path(folder), size)
            for name, step in steps.items():
                table[name].append(measure(step, Path(folder)))
    print(f"{'':<42}" + "".join(f"{f'{size:,} sentences':>34}" for size in options.sentences))
    print(" " * 42 + f"{'/s':>12}{'/CPU s':>12}{'memory':>10}" * len(options.sentences))
    for name, results in table.items():
        figures = (f"{speed:>12,.0f}{cpu_speed:>12,.0f}{memory:>6} MiB" for speed, cpu_speed, memory in results)
        print(f"{name:<42}" + "".join(figures))
    print(f"targets: {TARGET_LOOK_UPS:,} look-ups/s; memory of one bucket, below {TARGET_MEMORY_MIB} MiB")


def write_text(folder: Path, sentences: int) -> None:
    rng = np.random.default_rng(1)
    words = np.array([f"word{number}" for number in range(100_000)], dtype=object)
    words[::50] = "&apos;s"
    with (folder / "tokens").open("w") as stream:
        for start in range(0, sentences, 10_000):
            lengths = rng.integers(5, 41, min(10_000, sentences - start))
            ranks = np.exp(rng.random(lengths.sum()) * np.log(len(words))).astype(int) - 1
            drawn = np.split(words[ranks], np.cumsum(lengths)[:-1])
            stream.write("".join(f"{number} {' '.join(part)}\n" for number, part in enumerate(drawn, start)))


def collect(folder: Path) -> int:
    from phrasemt.stages.syntax import CollectSentences
    from phrasemt.syntax.sentences import Sentences, collect_sentences

    collect_sentences(settings=CollectSentences(), cores=1, tokens=folder / "tokens", sentences=folder / "sentences")
    return len(Sentences.open(folder / "sentences"))


def add(folder: Path) -> int:
    from phrasemt.syntax.store.annotations import Annotation
    from phrasemt.syntax.store.store import AnnotationStore

    store = AnnotationStore(folder, CARD)
    annotations = [Annotation(TREE, None)] * BLOCK
    count = 0
    for _, keys in _buckets(folder):
        for start in range(0, len(keys), BLOCK):
            part = keys[start : start + BLOCK]
            store.add(part, annotations[: len(part)])
        count += len(keys)
    return count


def find_all(folder: Path) -> int:
    from phrasemt.syntax.store.store import AnnotationStore

    store = AnnotationStore(folder, CARD)
    count = 0
    for bucket, keys in _buckets(folder):
        assert None not in store.find(bucket, keys)
        count += len(keys)
    return count


def write(folder: Path) -> int:
    from phrasemt.syntax.store.annotations import write_sorted_annotations
    from phrasemt.syntax.store.store import AnnotationStore

    store = AnnotationStore(folder, CARD)
    parts = ((keys, store.find(bucket, keys)) for bucket, keys in _buckets(folder))
    write_sorted_annotations(folder / "parses.arrow", parts, CARD)
    return sum(len(keys) for _, keys in _buckets(folder))


def find_blocks(folder: Path) -> int:
    """Keys in no order, 4096 at a time, as the stages after the parser look them up."""
    from phrasemt.syntax.sentences import key_bytes
    from phrasemt.syntax.store.annotations import Annotations

    annotations = Annotations.open([folder / "parses.arrow"])
    keys = [key for _, part in _buckets(folder) for key in key_bytes(part)]
    order = np.random.default_rng(2).permutation(len(keys)).tolist()
    for start in range(0, len(keys), 4096):
        assert None not in annotations.find([keys[number] for number in order[start : start + 4096]])
    return len(keys)


def merge(folder: Path) -> int:
    from phrasemt.syntax.store.store import AnnotationStore
    from phrasemt.syntax.store.upkeep import clean

    store = AnnotationStore(folder, CARD)
    clean(store)
    return store.contents().sentences


def _buckets(folder: Path) -> Iterator[tuple[int, np.ndarray]]:
    from phrasemt.syntax.sentences import BUCKETS, Sentences

    sentences = Sentences.open(folder / "sentences")
    return ((bucket, sentences.bucket(bucket).keys) for bucket in range(BUCKETS))


def measure(step: Callable[[Path], int], folder: Path) -> tuple[float, float, int]:
    """Items per second, per second of CPU time, and peak resident set (MiB) of a step in a new process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sender, step, folder))
    process.start()
    sender.close()
    result: tuple[float, float, int] = receiver.recv()
    process.join()
    return result


def _measure(sender: Connection, step: Callable[[Path], int], folder: Path) -> None:
    import phrasemt.syntax.store.store  # noqa: F401  not part of the time

    start, cpu_start = time.perf_counter(), time.process_time()
    count = step(folder)
    speed, cpu_speed = count / (time.perf_counter() - start), count / (time.process_time() - cpu_start)
    # Not ru_maxrss, which begins at the size of the process that started this one.
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    sender.send((speed, cpu_speed, peak // 1024))


if __name__ == "__main__":
    main()
