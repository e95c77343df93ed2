"""Speed of cutting phrases from parses. Run: python tests/benchmarks/phrases.py --help

The stage extract_phrases as the command line runs it (files, digests and sidecars included): parses are looked up by
the sentence, their trees read, cut by each segmentation, and the ends of phrases written. Sentences and trees are those
of the demo corpus, one word in four cut into two subwords: about 13 tokens and 16 subwords, as in Multi30k.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

TARGET_PER_SECOND = 20_000
MODES = ("ngram", "parse", "shuffled", "random", "right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=40_000, help="how many (default %(default)s)")
    parser.add_argument("--shortest", type=int, default=8, help="tokens of the shortest one (default %(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of the runs (default %(default)s)")
    parser.add_argument("--cores", type=int, nargs="*", default=[1, 2], help="numbers of cores (default %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as folder:
        tokens, subwords = write_sentences(Path(folder), options.sentences, options.shortest)
        print(
            f"{options.sentences:,} sentences, {tokens / options.sentences:.1f} tokens and "
            f"{subwords / options.sentences:.1f} subwords each, {options.repetitions} turns, "
            f"load {os.getloadavg()[0]:.1f}"
        )
        measure(Path(folder), options)


def write_sentences(folder: Path, sentences: int, shortest: int) -> tuple[int, int]:
    """Rows, tokens, subwords and parses; returns the numbers of tokens and of subwords."""
    from democorpus.pairs import demo_pairs
    from phrasemt.files.lines import write_lines
    from phrasemt.syntax.sentences import sentence_key
    from phrasemt.syntax.store.annotations import Annotation, write_annotations

    pairs = (pair for pair in demo_pairs(split="train", pairs=1 << 40, seed=1) if len(pair.source_tokens) >= shortest)
    lines, cut, annotations = [], [], {}
    for _, pair in zip(range(sentences), pairs, strict=False):
        words = pair.source_tokens
        lines.append(" ".join(words))
        cut.append(
            " ".join(word if sum(word.encode()) % 4 or len(word) < 2 else f"{word[:1]}@@ {word[1:]}" for word in words)
        )
        annotations[sentence_key(words)] = Annotation(numbered(pair.tree), None)
    write_lines(folder / "rows", map(str, range(sentences)))
    write_lines(folder / "tokens", lines)
    write_lines(folder / "subwords", cut)
    card = {"kind": "constituency", "fingerprint": "0" * 32}
    write_annotations(folder / "parses", list(annotations), list(annotations.values()), card)
    return tuple(sum(line.count(" ") + 1 for line in side) for side in (lines, cut))


def numbered(tree: str) -> str:
    """The words of a tree, the only pieces that end in a bracket, replaced by their numbers."""
    pieces, leaf = tree.split(" "), 0
    for number, piece in enumerate(pieces):
        if piece.endswith(")") and not piece.startswith("("):
            pieces[number] = f"{leaf}{')' * (len(piece) - len(piece.rstrip(')')))}"
            leaf += 1
    return " ".join(pieces)


def run(folder: Path, mode: str, cores: int) -> None:
    from phrasemt.cli import main as phrasemt
    from phrasemt.stages.syntax import ExtractPhrases
    from phrasemt.study.architectures import PhraseSegmentation

    files = {name: str(folder / name) for name in ("rows", "tokens", "subwords", "parses")}
    flags = [text for name, file in files.items() for text in (f"--{name}", file)]
    segmentation = PhraseSegmentation(mode=mode)
    settings = ExtractPhrases(segmentation=segmentation, needs_parses=segmentation.reads_parses).canonical_json()
    command = ["extract_phrases", *flags, "--phrases", str(folder / mode), "--settings", settings]
    with contextlib.redirect_stderr(io.StringIO()) as messages:
        code = phrasemt([*command, "--cores", str(cores)])
    if code:
        sys.exit(messages.getvalue())


def measure(folder: Path, options: argparse.Namespace) -> None:
    runs = [(mode, cores) for mode in MODES for cores in options.cores]
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    cpu_seconds: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    run(folder, MODES[0], 1)  # imports
    for _ in range(options.repetitions):
        for mode, cores in runs:
            start, cpu_start = time.perf_counter(), sum(os.times()[:4])
            run(folder, mode, cores)
            seconds[mode, cores].append(time.perf_counter() - start)
            cpu_seconds[mode, cores].append(sum(os.times()[:4]) - cpu_start)
    print(f"{'':<20}{'median s':>10}{'min s':>8}{'CPU s':>8}{'sentences/s':>13}{'per CPU s':>11}")
    for (mode, cores), times in seconds.items():
        median, cpu = statistics.median(times), statistics.median(cpu_seconds[mode, cores])
        rates = f"{options.sentences / median:>13,.0f}{options.sentences / cpu:>11,.0f}"
        print(f"{f'{mode}, {cores} core':<20}{median:>10.2f}{min(times):>8.2f}{cpu:>8.2f}{rates}")
    print(f"target: parse, 1 core: at least {TARGET_PER_SECOND:,} sentences/s")


if __name__ == "__main__":
    main()
