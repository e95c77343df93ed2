"""What a study takes beside its estimate from its rehearsal. Run: python tests/benchmarks/rehearsal.py --help

A study of the generated corpus is rehearsed, priced and run, each in the same empty folder with a copy of the workflow,
one job at a time. Hours of cores are what the jobs took by Snakemake's benchmarks.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from phrasemt.runs.costs import Recorded, by_rule
from phrasemt.runs.plan import plan_of
from phrasemt.study.reading import load_study
from phrasemt.verbs._rehearsed import Rehearsed, describe_rehearsed

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
        study, rehearsal = folder / "study.yaml", folder / "r.yaml"
        text = STUDY.format(pairs=options.pairs, updates=options.updates, every=every)
        study.write_text(text, encoding="utf-8")
        run(folder, "phrasemt", "scale", "study.yaml", "rehearsal", "--output", "r.yaml")
        text = rehearsal.read_text(encoding="utf-8")
        assert text.count("train: 60000") == 1
        rehearsal.write_text(text.replace("train: 60000", f"train: {options.sample}"), encoding="utf-8")
        snakemake = ("snakemake", "--profile", "profiles/local", "--cores", "1", "--configfile")
        run(folder, *snakemake, "r.yaml")
        with contextlib.chdir(folder):
            plan = plan_of(study)
            prices = Rehearsed(load_study(study), load_study(rehearsal), plan.jobs)
            print(*describe_rehearsed(plan, prices, None), sep="\n", flush=True)
            expected = by_rule((job.planned.rule, prices.of(job)) for job in plan.jobs)
            run(folder, *snakemake, "study.yaml")
            recorded = Recorded(plan.study)
            found = by_rule((job.planned.rule, recorded.of(job.planned)) for job in plan.jobs)
    print(f"{'rule':<22} {'estimated':>10} {'took':>10}   hours of one core")
    for rule, one in found.items():
        estimate, took = expected[rule].core_hours, one.core_hours
        told = f"{estimate / took - 1:>+8.0%}" if took else ""
        print(f"{rule:<22} {estimate:>10.4f} {took:>10.4f} {told}")
    print(f"target: within {TARGET:.0%} of all")


def run(folder: Path, *command: str) -> None:
    """Run a module in a folder, with the code of that folder."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    main()
