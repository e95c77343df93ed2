"""Memory and speed of reading a large corpus for training. Run: python tests/benchmarks/reading.py --help

Stores of drawn pairs, as packed for training, are read as `train_model` does: the plan of an epoch, then the batches of
some of its updates. Anonymous memory counts, of a process of its own for each size; pages of the file, which the system
shares and takes back, do not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from training import plan_of, reading_seconds

UPDATES, UPDATE = 500, 25_000
PAIRS_AT_ONCE = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="for the stores, 1.2 GB (default: a temporary one)")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read)
        return
    print(f"{'pairs':>12} {'open, s':>8} {'plan, s':>8} {'pairs/s':>9} {'MiB':>6} {'B/pair':>7}")
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as temporary:
        folder = options.folder or Path(temporary)
        for pairs in options.pairs:
            store = folder / f"{pairs}.arrow"
            if not store.exists():
                write_store(store, pairs)
            subprocess.run([sys.executable, __file__, "--read", str(store)], check=True)


def write_store(path: Path, pairs: int) -> None:
    """Pairs of 3 to 100 subwords a side."""
    from phrasemt.artefacts.columns import Examples
    from phrasemt.files.columns import Lists, write_columns

    rng = np.random.default_rng(1)

    def drawn(rows: int) -> Lists:
        lengths = np.clip(rng.lognormal(2.55, 0.35, rows), 3, 100).astype(np.int32)
        return Lists(lengths, rng.integers(4, 30_000, int(lengths.sum()), dtype=np.int32))

    starts = range(0, pairs, PAIRS_AT_ONCE)
    counts = [min(PAIRS_AT_ONCE, pairs - start) for start in starts]
    batches = (
        (np.arange(start, start + count, dtype=np.int64), {side: drawn(count) for side in Examples.sides})
        for start, count in zip(starts, counts, strict=True)
    )
    description = {f"{side}_vocabulary": "drawn" for side in Examples.sides}
    write_columns(path, columns=Examples.sides, texts={}, description=description, batches=batches)


def read(store: Path) -> None:
    import phrasemt.training.trainer  # noqa: F401 - torch is not what is measured
    from phrasemt.artefacts.columns import Examples

    before, start = anonymous_mib(), time.perf_counter()
    examples = Examples.open(store)
    opened = time.perf_counter()
    plan = plan_of(examples, UPDATE)
    next(plan.updates())
    planned = time.perf_counter()
    seconds, pairs = reading_seconds(examples, plan, UPDATES)
    memory = anonymous_mib() - before
    print(
        f"{len(examples):12,} {opened - start:8.2f} {planned - opened:8.2f} {pairs / seconds:9,.0f} {memory:6,.0f}"
        f" {memory * 2**20 / len(examples):7.0f}",
        flush=True,
    )


def anonymous_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
