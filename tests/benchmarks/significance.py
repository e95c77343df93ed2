"""CPU time of the paired tests, beside sacreBLEU's. Run: python tests/benchmarks/significance.py --help

Ours: one bootstrap and one randomisation of all systems on the sentence statistics in memory, as compare_systems reads
them from score files. sacreBLEU: its paired tests of the same outputs, from text and from its statistics alone (its
whole time minus the time to extract the statistics). The runs take turns; figures are seconds of one process's CPU.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from phrasemt.artefacts.scores import MetricScore
from phrasemt.scoring.significance import bootstrap_scores, randomized_differences
from phrasemt.scoring.statistics import as_array

WORDS = [f"word{number}" for number in range(500)]
TARGET = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=3003)
    parser.add_argument("--systems", type=int, default=7)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()

    draw = random.Random(1)
    reference = [draw.choices(WORDS, k=draw.randint(5, 50)) for _ in range(options.sentences)]
    outputs = [
        [" ".join(draw.choice(WORDS) if draw.random() < 0.3 else word for word in line) for line in reference]
        for _ in range(options.systems)
    ]
    references = [[" ".join(line) for line in reference]]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    described = {"bleu": MetricScore(score=0, signature=str(_signature(metric, outputs[0], references)))}

    def extract() -> list[list[list[float]]]:
        return [metric._extract_corpus_statistics(output, references) for output in outputs]

    rows = np.stack([as_array([[*row[2:], *row[:2]] for row in of_system]) for of_system in extract()])
    pairs = [np.stack([rows[0], rows[number]]) for number in range(1, options.systems)]

    def bootstrap() -> None:
        bootstrap_scores(described, {"bleu": rows}, samples=options.samples, seed=12345)

    def randomise() -> None:
        for pair in pairs:
            randomized_differences(described, {"bleu": pair}, samples=options.samples, seed=12345)

    def theirs(kind: str) -> Callable[[], object]:
        named = [(f"system {number}", output) for number, output in enumerate(outputs)]
        return lambda: PairedTest(named, {"BLEU": metric}, references, test_type=kind, n_samples=options.samples)()

    runs: dict[str, Callable[[], object]] = {
        "bootstrap, ours": bootstrap,
        "bootstrap, sacreBLEU with its extraction": theirs("bs"),
        "randomisation, ours": randomise,
        "randomisation, sacreBLEU with its extraction": theirs("ar"),
        "extraction of statistics": extract,
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repetitions):
        for name, run in runs.items():
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    print(f"{options.samples:,} samples x {options.sentences:,} sentences x {options.systems} systems, CPU seconds")
    for name, found in seconds.items():
        print(f"  {name:46} {statistics.median(found):7.2f}  ({min(found):.2f} to {max(found):.2f})")
    ours = statistics.median(seconds["bootstrap, ours"])
    print(f"  aim: bootstrap below {TARGET:.0f} s: {'met' if ours < TARGET else 'MISSED'}")


def _signature(metric: BLEU, output: list[str], references: list[list[str]]) -> object:
    metric.corpus_score(output, references)
    return metric.get_signature()


if __name__ == "__main__":
    main()
