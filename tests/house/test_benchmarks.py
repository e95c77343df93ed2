"""Each benchmark runs to its end, at its smallest size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALLEST = {
    "decoding.py": "--sizes '2+2 x 128' --systems transformer --sentences 1 --rounds 1 --precision float32",
    "peers/peers.py": "--rounds 1 --toolkits phrasemt",
    "scale.py": "--scale 0.005",
    "systems.py": "--systems +Max --batches 1 --threads 1 --precision float32 --length 5",
    "training.py": "--pairs 200 --words 50 --updates 2 --processes 1 --precision float32",
}


def test_every_benchmark_has_a_smallest_size(repository: Path) -> None:
    folder = repository / "tests" / "benchmarks"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")} == SMALLEST.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("script", "arguments"), SMALLEST.items(), ids=SMALLEST)
def test_a_benchmark_ends_without_an_error(repository: Path, script: str, arguments: str) -> None:
    file = f"tests/benchmarks/{script}"
    program = f"-m {file.removesuffix('.py').replace('/', '.')}" if "/" in script else file
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} {program} {arguments}"],
        cwd=repository,
        env={**os.environ, "OMP_NUM_THREADS": "1", "BENCHMARK_UPDATE": "100"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert any(character.isdigit() for character in done.stdout) or "skipped" in done.stdout
