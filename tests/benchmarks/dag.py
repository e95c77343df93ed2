"""How long a study at the size of a paper takes to be planned. Run: python tests/benchmarks/dag.py --help

The study of tests/helpers/paper_study.py, in an empty folder with a copy of the workflow: 20 systems, 3 seeds,
3 corpora, 64 parse jobs for each side. Each figure is of a process of its own, wall and CPU, started twice; the second
is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "helpers"))
from paper_study import write_paper_study  # noqa: E402 - after its folder is known

TARGET_SECONDS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", type=Path, metavar="STUDY", help="study files in place of that study")
    studies = parser.parse_args().studies
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as name:
        folder = Path(name)
        for part in ("phrasemt", "democorpus", "workflow", "rules", "profiles", "envs"):
            shutil.copytree(REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        for study in map(str, [path.resolve() for path in studies] or [write_paper_study(folder)]):
            dry_run = ["snakemake", "--profile", "profiles/local", "--configfile", study, "--dry-run", "--quiet"]
            for command in ([*dry_run, "rules", "host"], ["phrasemt", "plan", study]):
                measure(folder, command)
                wall, cpu, output = measure(folder, command)
                jobs = re.search(r"^total +(\d+)|([\d,]+) of [\d,]+ jobs", output, re.MULTILINE)
                assert jobs, output
                figures = f"{jobs[1] or jobs[2]} jobs {wall:6.1f} s, {cpu:.1f} CPU s"
                print(f"{Path(study).stem:<20} {' '.join(command[:2]):<20} {figures}", flush=True)
    print(f"target: below {TARGET_SECONDS} s")


def measure(folder: Path, command: list[str]) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds and output of a command in a folder, with the code of that folder."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return wall, cpu, done.stdout + done.stderr


if __name__ == "__main__":
    main()
