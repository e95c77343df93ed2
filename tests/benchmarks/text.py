"""Speed and memory of the way from raw text to packed examples. Run: python tests/benchmarks/text.py --help

Speed: the stages clean_pairs, tokenize_text, apply_subwords and pack_examples as the command line runs them, files,
digests and sidecars included, against the bare libraries: MosesTokenizer.tokenize and BPE.process_line on the same
lines in memory, one process. The runs take turns, so that a busy machine slows all of them.

Memory: the largest resident set of any process of each stage, for texts of several sizes.

Size: rate, memory and disk of each stage on one core, for a corpus of `--size` pairs with repeated ones dropped.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

LANGUAGES = {"source": "en", "target": "de"}
TARGET_ONE_CORE, TARGET_MEMORY_MIB = 0.85, 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30_000, help="sentence pairs for the speed (default %(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of the speed runs (default %(default)s)")
    parser.add_argument("--merges", type=int, default=2000, help="BPE merges for the speed (default %(default)s)")
    parser.add_argument("--text", type=Path, nargs=2, metavar=("EN", "DE"), help="real text instead of drawn words")
    parser.add_argument("--memory", type=int, nargs="*", default=[20_000, 200_000], metavar="PAIRS", help="sizes")
    parser.add_argument("--cores", type=int, default=2, help="second number of cores to measure (default %(default)s)")
    parser.add_argument("--size", type=int, metavar="PAIRS", help="measure only rate, memory and disk at this size")
    options = parser.parse_args()
    if sys.platform != "linux" and options.memory:
        parser.error("memory is measured on Linux only; add --memory without sizes")
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as folder:
        if options.size:
            measure_size(Path(folder), options.size)
            return
        if options.repetitions:
            measure_speed(Path(folder), options)
        if options.memory:
            measure_memory(Path(folder), options.memory, options.cores)


def draw_lines(language: str, lines: int, types: int = 100_000) -> Iterator[str]:
    """Sentences of 5 to 40 made-up words by Zipf's law, with punctuation, apostrophes, numbers and umlauts."""
    rng = np.random.default_rng(sum(language.encode()))
    consonants, vowels = list("bdfghklmnprstvwz"), list("aeiou" + ("äöü" if language == "de" else ""))
    syllables = ["".join(pair) for pair in itertools.product(consonants, vowels)]
    words = [
        "".join(syllables[part] for part in rng.integers(0, len(syllables), rng.integers(1, 6))) for _ in range(types)
    ]
    words = [word.capitalize() if draw < 0.2 else word for word, draw in zip(words, rng.random(types), strict=True)]
    words[200:3000:200] = [f"{number},{number * 37 % 1000:03}.5" for number in range(14)]
    words[300:3000:300] = ["isn't", "Smith's", "U.S.", "z.B.", "(and)", '"so"', "well-known", "50%", "e-mail"]
    endings = ["", ",", ";", ":", "..."]
    for start in range(0, lines, 10_000):
        lengths = rng.integers(5, 41, min(10_000, lines - start))
        # Log-uniform ranks: a word of rank r is drawn with probability about 1 / r.
        ranks = np.exp(rng.random(lengths.sum()) * np.log(types)).astype(int) - 1
        marks = rng.choice(len(endings), len(ranks), p=[0.93, 0.05, 0.01, 0.005, 0.005])
        drawn = iter([words[rank] + endings[mark] for rank, mark in zip(ranks.tolist(), marks.tolist(), strict=True)])
        for length in lengths.tolist():
            yield " ".join(itertools.islice(drawn, length)) + "."


def write_text(folder: Path, pairs: int, real: list[Path] | None) -> None:
    from phrasemt.files.lines import read_lines, write_lines

    for index, (side, language) in enumerate(LANGUAGES.items()):
        lines = itertools.cycle(read_lines(real[index])) if real else draw_lines(language, pairs)
        write_lines(folder / f"raw.{side}", itertools.islice(lines, pairs))


def stage(folder: Path, name: str, settings: dict[str, object], **files: str) -> list[str]:
    flags = [text for flag, file in files.items() for text in (f"--{flag.replace('_', '-')}", str(folder / file))]
    return [name, *flags, "--settings", json.dumps(settings)]


def cleaning(folder: Path, *, drop_duplicates: bool = False) -> list[list[str]]:
    languages = {f"{side}_language": language for side, language in LANGUAGES.items()}
    files = {"source": "text.source", "target": "text.target", "rows": "rows", "dropped": "dropped.tsv"}
    raw = {"raw_source": "raw.source", "raw_target": "raw.target"}
    # For the speed, real sentences that are cycled must stay: only the other filters work.
    filters = {"drop_duplicates": drop_duplicates}
    return [stage(folder, "clean_pairs", {**languages, "filters": filters}, **raw, **files)]


def tokenizing(folder: Path) -> list[list[str]]:
    from phrasemt.study.tokenization import Tokenizer

    return [
        stage(
            folder, "tokenize_text", {"tokenizer": Tokenizer.for_language(language).model_dump()},
            text=f"text.{side}", tokens=f"tokens.{side}", round_trip=f"round_trip.{side}",
        )
        for side, language in LANGUAGES.items()
    ]  # fmt: skip


def learning(folder: Path, merges: int) -> list[list[str]]:
    files = {"source": "tokens.source", "target": "tokens.target", "codes": "codes"}
    counts = {"source_counts": "counts.source", "target_counts": "counts.target"}
    return [stage(folder, "learn_subwords", {"merges": merges}, **files, **counts)]


def applying(folder: Path) -> list[list[str]]:
    return [
        stage(
            folder, "apply_subwords", {"vocabulary_threshold": 8},
            tokens=f"tokens.{side}", codes="codes", counts=f"counts.{side}", subwords=f"subwords.{side}",
        )
        for side in LANGUAGES
    ]  # fmt: skip


def numbering(folder: Path) -> list[list[str]]:
    sides = {"source": "subwords.source", "target": "subwords.target"}
    vocabularies = {"source_vocabulary": "source.tsv", "target_vocabulary": "target.tsv"}
    return [stage(folder, "build_vocabulary", {"shared": True}, **sides, **vocabularies)]


def packing(folder: Path) -> list[list[str]]:
    sides = {"rows": "rows", "source": "subwords.source", "target": "subwords.target"}
    vocabularies = {"source_vocabulary": "source.tsv", "target_vocabulary": "target.tsv"}
    return [stage(folder, "pack_examples", {}, **sides, **vocabularies, examples="examples.arrow")]


def run(commands: list[list[str]], cores: int) -> None:
    from phrasemt.cli import main as phrasemt

    for command in commands:
        with contextlib.redirect_stderr(io.StringIO()) as messages:
            code = phrasemt([*command, "--cores", str(cores)])
        if code:
            sys.exit(messages.getvalue())


def measure_speed(folder: Path, options: argparse.Namespace) -> None:
    write_text(folder, options.pairs, options.text)
    for commands in (cleaning(folder), tokenizing(folder), learning(folder, options.merges), applying(folder)):
        run(commands, 1)  # what the speed runs need, and the imports
    for commands in (numbering(folder), packing(folder)):
        run(commands, 1)
    bare = prepare_bare(folder)
    steps = {"tokenize": tokenizing(folder), "apply": applying(folder), "pack": packing(folder)}
    whole = [*steps["tokenize"], *steps["apply"], *steps["pack"]]
    runs: dict[str, Callable[[], object]] = {
        "sacremoses + subword-nmt, bare": bare,
        **{f"  {name}, 1 core": lambda commands=commands: run(commands, 1) for name, commands in steps.items()},
        **{f"tokenize + apply + pack, {n} core": lambda n=n: run(whole, n) for n in (1, options.cores)},
        **{
            f"the same with clean_pairs, {n} core": lambda n=n: run(cleaning(folder) + whole, n)
            for n in (1, options.cores)
        },
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repetitions):
        for name, action in runs.items():
            start, cpu_start = time.perf_counter(), sum(os.times()[:4])
            action()
            seconds[name].append(time.perf_counter() - start)
            cpu_seconds[name].append(sum(os.times()[:4]) - cpu_start)
    reference = statistics.median(seconds["sacremoses + subword-nmt, bare"])
    load = os.getloadavg()[0]
    print(f"{options.pairs:,} pairs, {options.repetitions} turns, {os.cpu_count()} CPUs, load {load:.1f}")
    print(f"{'':<40}{'median s':>10}{'min s':>8}{'CPU s':>8}{'pairs/s':>10}{'of bare':>9}")
    for name, times in seconds.items():
        median, cpu = statistics.median(times), statistics.median(cpu_seconds[name])
        figures = (
            f"{median:>10.2f}{min(times):>8.2f}{cpu:>8.2f}{options.pairs / median:>10,.0f}{reference / median:>9.0%}"
        )
        print(f"{name:<40}{figures}")
    print(f"target: at least {TARGET_ONE_CORE:.0%} of bare on one core, close to twice that on two\n")


def prepare_bare(folder: Path) -> Callable[[], object]:
    """The two libraries on all lines of both sides, in memory; fresh caches each time, as a stage has them."""
    from sacremoses import MosesTokenizer
    from subword_nmt.apply_bpe import BPE, read_vocabulary

    def bare() -> list[list[str]]:
        cut = []
        for side, language in LANGUAGES.items():
            moses = MosesTokenizer(language)
            with (folder / "codes").open(encoding="utf-8") as codes, (folder / f"counts.{side}").open() as counts:
                bpe = BPE(codes, vocab=read_vocabulary(counts, 8))
            cut.append([bpe.process_line(moses.tokenize(line, return_str=True)) for line in lines[side]])
        return cut

    lines = {side: (folder / f"text.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in LANGUAGES}
    return bare


def measure_memory(folder: Path, sizes: list[int], cores: int) -> None:
    spawn = multiprocessing.get_context("spawn")
    table: dict[str, list[str]] = {}
    for size in sizes:
        prepared = spawn.Process(target=write_text, args=(folder, size, None))
        prepared.start()
        prepared.join()
        stages = {
            "clean_pairs": cleaning(folder),
            "tokenize_text": tokenizing(folder)[:1],
            "learn_subwords": learning(folder, 500),
            "apply_subwords": applying(folder)[:1],
            "build_vocabulary": numbering(folder),
            "pack_examples": packing(folder),
        }
        others = {"tokenize_text": tokenizing(folder)[1:], "apply_subwords": applying(folder)[1:]}
        for name, commands in stages.items():
            table.setdefault(name, []).append(peak(run, commands, cores))
            run_elsewhere(others.get(name, []), cores)
        table.setdefault("(reading all examples)", []).append(peak(read_examples, folder))
    print(f"largest resident set, MiB: main process, largest of {cores} workers")
    print(f"{'':<24}" + "".join(f"{f'{size:,} pairs':>20}" for size in sizes))
    for name, values in table.items():
        print(f"{name:<24}" + "".join(f"{value:>20}" for value in values))
    print(f"target: flat, below {TARGET_MEMORY_MIB} per process")


def run_elsewhere(commands: list[list[str]], cores: int) -> None:
    process = multiprocessing.get_context("spawn").Process(target=run, args=(commands, cores))
    process.start()
    process.join()


def peak(function: Callable[..., object], *arguments: object) -> str:
    """Peak resident sets (MiB) of a new process that calls the function, and of its largest worker. Linux only."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_peak, args=(sender, function, *arguments))
    process.start()
    sender.close()
    own, children, _ = receiver.recv()
    process.join()
    return f"{own // 1024}, {children // 1024}" if children else f"{own // 1024}"


def _send_peak(sender: Connection, function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)
    # Not ru_maxrss, which begins at the size of the process that started this one.
    status = Path("/proc/self/status").read_text()
    own = int(status.partition("VmHWM:")[2].split()[0])
    sender.send((own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, sum(os.times()[:4])))


def measure_size(folder: Path, pairs: int) -> None:
    """Each stage in a process of its own, on one core. Disk: what the stage writes."""
    context = multiprocessing.get_context("spawn")
    prepared = context.Process(target=write_text, args=(folder, pairs, None))
    prepared.start()
    prepared.join()
    stages = {
        "clean_pairs": cleaning(folder, drop_duplicates=True),
        "tokenize_text": tokenizing(folder),
        "learn_subwords": learning(folder, 32_000),
        "apply_subwords": applying(folder),
        "build_vocabulary": numbering(folder),
        "pack_examples": packing(folder),
    }
    print(f"{pairs:,} pairs, {size_of(folder) / pairs:.0f} bytes a pair; both sides, one core")
    print(f"{'':<20}{'CPU s':>8}{'pairs a CPU s':>16}{'MiB':>8}{'bytes a pair':>14}", flush=True)
    for name, commands in stages.items():
        before = size_of(folder)
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send_peak, args=(sender, run, commands, 1))
        process.start()
        sender.close()
        own, _, seconds = receiver.recv()
        process.join()
        written = (size_of(folder) - before) / pairs
        print(f"{name:<20}{seconds:>8.1f}{pairs / seconds:>16,.0f}{own // 1024:>8}{written:>14.0f}", flush=True)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def read_examples(folder: Path) -> None:
    from phrasemt.artefacts.columns import Examples
    from phrasemt.artefacts.vocabulary import Vocabulary

    examples = Examples.open(folder / "examples.arrow")
    vocabulary = Vocabulary.read(folder / "source.tsv")
    examples.check_vocabularies(vocabulary, vocabulary)


if __name__ == "__main__":
    main()
