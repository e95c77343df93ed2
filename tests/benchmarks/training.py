"""Whole trainings: one process and several, and what reading costs. Run: python tests/benchmarks/training.py --help

A drawn corpus (words of a Zipf distribution, lengths as in Multi30k), a Transformer of 3+3 layers and width 256, and
the command `train_model` as the workflow runs it, one thread a process. The speed is that of the updates after the
first 20, from the training's own reports, evaluations apart. Reading is the time of making the batches of one epoch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from phrasemt.artefacts.columns import Examples
from phrasemt.artefacts.training import Metrics, TrainingRecord
from phrasemt.batching.pack import pack_examples
from phrasemt.batching.reader import BatchReader, RankReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.files.lines import write_lines
from phrasemt.stages.subwords import BuildVocabulary, PackExamples
from phrasemt.stages.training import TrainModel
from phrasemt.study.architectures import TransformerModel
from phrasemt.study.schema import Training
from phrasemt.text.subwords import build_vocabulary
from phrasemt.training.trainer import CPU_POSITIONS

UPDATE = int(os.environ.get("BENCHMARK_UPDATE", "4000"))  # target tokens; the test of this script takes fewer
SEED = 1
MODEL = {"family": "transformer", "encoder_layers": 3, "decoder_layers": 3, "width": 256, "heads": 4, "ffn_width": 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000, help="sentence pairs (default %(default)s)")
    parser.add_argument("--words", type=int, default=8000, help="vocabulary of each side (default %(default)s)")
    parser.add_argument("--updates", type=int, default=60, help="of 4,000 target tokens (default %(default)s)")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--precision", nargs="*", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as temporary:
        folder = Path(temporary)
        inputs = write_corpus(folder, options.pairs, options.words)
        examples = Examples.open(inputs["train"])
        seconds, pairs = reading_seconds(examples, plan_of(examples))
        print(f"reading: {pairs / seconds:,.0f} pairs a second")
        print(f"{'':9} {'processes':9} {'tokens/s':>9} {'of one':>7} {'reading':>8} {'MiB':>6}")
        for precision in options.precision:
            alone = 0.0
            for processes in options.processes:
                speed, memory, tokens = train(folder, inputs, precision, processes, options.updates)
                alone = alone or speed
                share = seconds / pairs * speed / (tokens / pairs) / processes
                print(
                    f"{precision:9} {processes:9} {speed:9,.0f} {speed / alone:7.2f} {share:8.1%} {memory:6,.0f}",
                    flush=True,
                )


def write_corpus(folder: Path, pairs: int, words: int) -> dict[str, Path]:
    """Inputs of train_model that are files."""
    rng = np.random.default_rng(1)
    chances = 1 / np.arange(1, words + 1)
    chances /= chances.sum()
    vocabularies = {side: folder / f"{side}.tsv" for side in ("source_vocabulary", "target_vocabulary")}
    texts: dict[str, dict[str, Path]] = {}
    for split, size in (("train", pairs), ("dev", 50)):
        texts[split] = {side: folder / f"{split}.{side}" for side in ("source", "target", "rows")}
        lengths = np.clip(rng.lognormal(2.55, 0.35, size).astype(int), 3, 60)
        for side in ("source", "target"):
            drawn = rng.choice(words, size=int(lengths.sum()), p=chances)
            cuts = np.split(drawn, np.cumsum(lengths)[:-1])
            write_lines(texts[split][side], (" ".join(f"w{word}" for word in sentence) for sentence in cuts))
        write_lines(texts[split]["rows"], map(str, range(size)))
    train = texts["train"]
    build_vocabulary(
        settings=BuildVocabulary(shared=True), cores=1, source=train["source"], target=train["target"], **vocabularies
    )
    for split, paths in texts.items():
        pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=folder / f"{split}.arrow")
    return {
        "train": folder / "train.arrow",
        "dev": folder / "dev.arrow",
        "dev_reference": texts["dev"]["target"],
        **vocabularies,
    }


def plan_of(examples: Examples) -> UpdatePlan:
    """Updates of a store of pairs."""
    lengths = {"source_lengths": examples.source_lengths, "target_lengths": examples.target_lengths}
    return UpdatePlan(**lengths, update_size=UPDATE, max_length=256, seed=SEED)


def reading_seconds(examples: Examples, plan: UpdatePlan) -> tuple[float, int]:
    """Seconds of making the batches of an epoch, and how many pairs they have."""
    shares = RankReader(BatchReader(examples, TransformerModel().model_inputs), "cpu")
    start = time.perf_counter()
    pairs = 0
    for rows in plan.epoch(0):
        shares.read(rows, CPU_POSITIONS)
        pairs += len(rows)
    return time.perf_counter() - start, pairs


def train(
    folder: Path, inputs: dict[str, Path], precision: str, processes: int, updates: int
) -> tuple[float, float, float]:
    """Target tokens a second after the first report, memory of the first process in MiB, and tokens of the corpus."""
    budget = {"tokens_per_update": UPDATE, "max_updates": updates, "evaluate_every": updates}
    training = {**budget, "checkpoint_every": updates, "precision": precision}
    with tempfile.TemporaryDirectory(prefix="training-", dir=folder) as name:
        record = Path(name, "training.json")
        command = train_command(inputs, {**MODEL, "dropout": 0.3}, training, record)
        command += ["--cores", str(processes), "--processes", str(processes)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        metrics = Metrics.read(record.parent / TrainingRecord.read(record).metrics)
    examples = Examples.open(inputs["train"])
    speeds = [report.tokens_per_second for report in metrics.updates][1:]
    tokens = float(sum(examples.target_lengths.tolist()) + len(examples))
    return float(np.mean(speeds)), max(report.memory_mib for report in metrics.reports), tokens


def train_command(
    inputs: dict[str, Path], model: dict[str, object], training: dict[str, object], record: Path
) -> list[str]:
    """`train_model` as the workflow runs it; the state stands beside the record."""
    transformer = TransformerModel.model_validate({**model, "tie": "all"})
    settings = TrainModel(
        model=transformer,
        reads=transformer.model_inputs,
        rate_width=transformer.learning_rate_width,
        training=Training.model_validate(training),
        seed=SEED,
        dev_bleu="13a",
    )
    files = {**inputs, "record": record, "state": record.parent / "state"}
    record.parent.mkdir(parents=True, exist_ok=True)
    written = inputs["train"].with_name(f"train_model.{training['precision']}.settings")  # in whatever folder it runs
    written.write_text(settings.canonical_json())
    command = [sys.executable, "-m", "phrasemt", "train_model", "--settings", str(written)]
    return command + [part for key, path in files.items() for part in (f"--{key.replace('_', '-')}", str(path))]


if __name__ == "__main__":
    main()
