"""What a study takes beside its estimate from its rehearsal. Run: python tests/benchmarks/rehearsal.py --help

A study of the generated corpus is rehearsed, priced and run, each in the same empty folder with a copy of the workflow,
one job at a time. Hours of cores are what the jobs took by Snakemake's benchmarks.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TARGET = 0.2

STUDY = """\
study: priced
datasets:
  demo:
    source_language: en
    target_language: de
    generator: {{train: {pairs}, dev: 100, test: 400}}
    subwords: {{merges: 300, vocabulary_threshold: 0}}
systems:
  base:
    model: &model {{family: transformer, encoder_layers: 2, decoder_layers: 2, width: 128, heads: 4, ffn_width: 512}}
    training: &training
      tokens_per_update: 1000
      max_updates: {updates}
      optimizer: {{warmup: 100, factor: 0.5}}
      evaluate_every: {every}
      checkpoint_every: {every}
  pr:
    model: {{<<: *model, family: phrase_representation, phrase: {{mode: ngram}}}}
    training: *training
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000, help="pairs of train")
    parser.add_argument("--sample", type=int, default=4_000, help="pairs of its rehearsal, in place of 60,000")
    parser.add_argument("--updates", type=int, default=600, help="of each training; its rehearsal has 60")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-rehearsal-") as name:
        folder = Path(name)
        for part in ("phrasemt", "democorpus", "workflow", "rules", "profiles", "envs"):
            shutil.copytree(REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        every = max(options.updates // 4, 1)
        study = STUDY.format(pairs=options.pairs, updates=options.updates, every=every)
        (folder / "study.yaml").write_text(study, encoding="utf-8")
        run(folder, "phrasemt", "scale", "study.yaml", "rehearsal", "--output", "r.yaml")
        rehearsal = (folder / "r.yaml").read_text(encoding="utf-8")
        assert rehearsal.count("train: 60000") == 1
        (folder / "r.yaml").write_text(rehearsal.replace("train: 60000", f"train: {options.sample}"), encoding="utf-8")
        snakemake = ("snakemake", "--profile", "profiles/local", "--cores", "1", "--configfile")
        run(folder, *snakemake, "r.yaml")
        told = run(folder, "phrasemt", "plan", "study.yaml", "--rehearsal", "r.yaml")
        print(told, flush=True)
        expected = hours(told.partition("price from the rehearsal")[2])
        run(folder, *snakemake, "study.yaml")
        # An unchanged study whose outputs are all asked for again costs what its jobs took.
        shutil.rmtree(folder / "results" / "priced")
        found = hours(run(folder, "phrasemt", "plan", "study.yaml"))
    print(f"{'rule':<22} {'estimated':>10} {'took':>10}   hours of one core")
    for rule in found:
        ratio = expected.get(rule, 0) / found[rule] - 1 if found[rule] else 0
        print(f"{rule:<22} {expected.get(rule, 0):>10.3f} {found[rule]:>10.3f} {ratio:>+8.0%}")
    print(f"target: within {TARGET:.0%} of all")


def run(folder: Path, *command: str) -> str:
    """The output of a module in a folder, with the code of that folder."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def hours(told: str) -> dict[str, float]:
    """Core hours by rule, of the first table that a plan prints."""
    rows = told[told.index("  rule ") :].splitlines()[1:]
    found: dict[str, float] = {}
    for row in rows:
        cells = row.split()
        if len(cells) < 3 or not row.startswith("  "):
            break
        try:
            found[cells[0]] = float(cells[2].replace(",", "").replace("<", ""))
        except ValueError:
            found[cells[0]] = 0.0
        if cells[0] == "all":
            break
    return found


if __name__ == "__main__":
    main()
