"""Training speed beside other toolkits. Run: make bench-peers, which makes their environments first

All train the same Transformer (3+3 layers, width 256, one matrix of embeddings, dropout 0.1 everywhere) on the drawn
corpus of training.py, about 4,000 target tokens an update, each in one process with one thread, all on one core.
They take turns, suspended in between, and CPU time is measured beside the clock: a busy machine slows all alike, and
hardly changes the former. The first turn, in which they start and warm up, does not count. Tokens are those of the
target, </s> included, padding not. Linux only.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from phrasemt.artefacts.columns import Examples, Vocabulary
from phrasemt.files.lines import write_lines
from phrasemt.symbols import SPECIAL_TOKENS
from tests.benchmarks.training import MODEL, UPDATE, plan_of, train_command, write_corpus

HERE = Path(__file__).parent
ENVIRONMENTS = Path(".peers").absolute()
BATCHES_IN_A_REPORT = 2 * 4  # of OpenNMT-py and Eole: of an update, and updates
UPDATES_IN_A_REPORT_OF_PHRASEMT = 20
MOST_ROUNDS = 13  # more reach JoeyNMT's second epoch, at whose begin its count of tokens starts again
DROPOUT = {"dropout": 0.1, "attn_dropout": 0.1, "act_dropout": 0.1}


@dataclass(frozen=True)
class Toolkit:
    """`command` gives the arguments of a training in the current folder, from the inputs of train_model and precision.

    `reports` reads the target tokens of each report of a training, from its folder and the examples.
    """

    precisions: tuple[str, ...]
    command: Callable[[dict[str, Path], str], list[str]]
    reports: Callable[[Path, Examples], list[float]]


@dataclass(frozen=True)
class Turn:
    """From one report of a training to its next: target tokens, seconds by the clock, and of CPU time."""

    tokens: float
    seconds: float
    cpu_seconds: float


class Training:
    """A training that runs only in its turns."""

    def __init__(self, toolkit: str, precision: str, folder: Path, inputs: dict[str, Path]) -> None:
        self.toolkit, self.precision = toolkit, precision
        self._folder = folder / f"{toolkit}-{precision}"
        self._folder.mkdir()
        if (config := HERE / f"{toolkit}.yaml").exists():
            short = {"float32": "fp32", "bfloat16": "bf16"}[precision]
            (self._folder / config.name).write_text(config.read_text().replace("$precision", short))
        self._reports = functools.partial(TOOLKITS[toolkit].reports, self._folder, Examples.open(inputs["train"]))
        with (self._folder / "log").open("w") as log:
            self._process = psutil.Popen(
                TOOLKITS[toolkit].command(inputs, precision),
                cwd=self._folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            )
        self._cpu_seconds = 0.0

    def turn(self) -> Turn:
        """Let it run until it has reported once more."""
        before = len(self._reports())
        self._process.resume()
        start = time.perf_counter()
        while len(reports := self._reports()) == before:
            if self._process.poll() is not None:
                sys.exit(f"{self.toolkit} has ended:\n{(self._folder / 'log').read_text()[-3000:]}")
            time.sleep(0.05)
        seconds, cpu = time.perf_counter() - start, self._process.cpu_times()
        self._process.suspend()
        cpu_before, self._cpu_seconds = self._cpu_seconds, cpu.user + cpu.system
        return Turn(sum(reports[before:]), seconds, self._cpu_seconds - cpu_before)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=3, choices=range(1, MOST_ROUNDS + 1), metavar="N", help="default 3"
    )
    parser.add_argument("--toolkits", nargs="*", default=[*TOOLKITS], choices=TOOLKITS, metavar="NAME")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="default: the last")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that no suspended training stays behind
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as name, ExitStack() as stack:
        folder = Path(name)
        inputs = write_corpus(folder, 20_000, 8000)
        vocabulary = Vocabulary.read(inputs["target_vocabulary"])
        write_lines(folder / "words", vocabulary.tokens(range(len(SPECIAL_TOKENS), len(vocabulary))))
        turns: dict[Training, list[Turn]] = {}
        for toolkit in filter(is_installed, options.toolkits):
            for precision in TOOLKITS[toolkit].precisions:
                training = Training(toolkit, precision, folder, inputs)
                stack.callback(training.end)
                training.turn()
                turns[training] = []
        for turn in range(options.rounds):
            for training, so_far in turns.items():
                print(f"turn {turn + 1}: {training.toolkit} {training.precision}", file=sys.stderr)
                so_far.append(training.turn())
    if turns:
        show(turns)


def is_installed(toolkit: str) -> bool:
    """Whether a toolkit has an environment. Says so if it has none."""
    found = toolkit == "phrasemt" or (ENVIRONMENTS / toolkit / "installed").exists()
    if not found:
        print(f"{toolkit}: left out, because it is not installed in {ENVIRONMENTS / toolkit}", file=sys.stderr)
    return found


def show(turns: dict[Training, list[Turn]]) -> None:
    """The table. Ratios are of tokens a CPU second, to the fastest other toolkit in float32."""
    speeds = {training: [turn.tokens / turn.cpu_seconds for turn in own] for training, own in turns.items()}
    others = [
        statistics.median(own)
        for training, own in speeds.items()
        if training.toolkit != "phrasemt" and training.precision == "float32"
    ]
    load = os.getloadavg()[0]
    print(f"target tokens a second, median of {len(next(iter(turns.values())))} turns, load {load:.1f}")
    print(f"{'':25} {'by the clock':>12} {'of CPU time':>12} {'min - max':>15} {'ratio':>6}")
    for training, own in turns.items():
        clock = statistics.median(turn.tokens / turn.seconds for turn in own)
        cpu, least, most = (function(speeds[training]) for function in (statistics.median, min, max))
        title = f"{training.toolkit} {version_of(training.toolkit)}"
        ratio = f"{cpu / max(others):6.2f}" if others else ""
        print(f"{title:16} {training.precision:8} {clock:12,.0f} {cpu:12,.0f} {least:7,.0f} -{most:6,.0f} {ratio}")


def version_of(toolkit: str) -> str:
    """The first pin of a peer's environment."""
    if toolkit == "phrasemt":
        return version("phrasemt")
    found = re.search(r"^[\w.-]+==(\S+)", (HERE / f"{toolkit}.txt").read_text(), flags=re.MULTILINE)
    assert found
    return found[1]


def phrasemt_command(inputs: dict[str, Path], precision: str) -> list[str]:
    training = {"tokens_per_update": UPDATE, "precision": precision}
    return [*train_command(inputs, {**MODEL, **DROPOUT}, training, Path("training.json")), "--cores", "1"]


def phrasemt_reports(folder: Path, examples: Examples) -> list[float]:
    reports = sum(len(path.read_text().splitlines()) for path in folder.glob("state/*/metrics.jsonl"))
    return tokens_of_reports(examples)[:reports]


@functools.cache
def tokens_of_reports(examples: Examples) -> list[float]:
    """As many as the most rounds have."""
    updates = plan_of(examples).updates()
    sizes = (float(examples.target_lengths[rows].sum() + len(rows)) for _, _, rows in updates)
    return [sum(itertools.islice(sizes, UPDATES_IN_A_REPORT_OF_PHRASEMT)) for _ in range(1 + MOST_ROUNDS)]


def opennmt_command(inputs: dict[str, Path], precision: str) -> list[str]:
    return [str(ENVIRONMENTS / "opennmt/bin/onmt_train"), "-config", "opennmt.yaml"]


def eole_command(inputs: dict[str, Path], precision: str) -> list[str]:
    return [str(ENVIRONMENTS / "eole/bin/eole"), "train", "-config", "eole.yaml"]


def opennmt_reports(folder: Path, examples: Examples) -> list[float]:
    """From `bsz: 1716/1853/138`, the mean source and target tokens and sentences of a batch."""
    sizes = re.findall(r"bsz: +\d+/ *(\d+)/.*\n", (folder / "log").read_text())
    return [float(size) * BATCHES_IN_A_REPORT for size in sizes]


def joeynmt_command(inputs: dict[str, Path], precision: str) -> list[str]:
    return [str(ENVIRONMENTS / "joeynmt/bin/python"), "-m", "joeynmt", "train", "joeynmt.yaml", "--skip-test"]


def joeynmt_reports(folder: Path, examples: Examples) -> list[float]:
    """Tokens a second times the seconds since the report before, suspended ones included in both."""
    found = re.findall(r"(?m)^(.{23}) .*(?:EPOCH 1$|Tokens per Sec: +(\d+),.*\n)", (folder / "log").read_text())
    times = [datetime.fromisoformat(time.replace(",", ".")) for time, _ in found]
    return [
        float(speed) * (end - begin).total_seconds()
        for (_, speed), begin, end in zip(found[1:], times, times[1:], strict=False)
    ]


TOOLKITS = {
    "opennmt": Toolkit(("float32",), opennmt_command, opennmt_reports),
    "eole": Toolkit(("float32", "bfloat16"), eole_command, opennmt_reports),
    "joeynmt": Toolkit(("float32",), joeynmt_command, joeynmt_reports),
    "phrasemt": Toolkit(("float32", "bfloat16"), phrasemt_command, phrasemt_reports),
}

if __name__ == "__main__":
    main()
