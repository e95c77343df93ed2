"""`phrasemt run STUDY`: check a study, run it with Snakemake in this folder, and print its table."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.commands import check, show, unlock
from phrasemt.commands._arguments import add_profile, add_study, study_name
from phrasemt.errors import PhrasemtError
from phrasemt.runs.site import CHECKOUT, of_checkout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check a study, run what is missing or has changed, print the table. Results, logs and resources lie in the "
        "folder where the command runs, and relative paths of the study begin there. After an interruption the same "
        "command continues."
    )
    add_study(parser)
    add_profile(parser)
    parser.add_argument(
        "--snakemake", nargs=argparse.REMAINDER, default=[], metavar="OPTION", help="all that follows goes to snakemake"
    )


def run(options: argparse.Namespace) -> None:
    """Run a study; end with Snakemake's exit code if the run fails.

    Raises StudyError for a study with mistakes, PhrasemtError in another checkout than the installed one: the workflow
    of one would call the code of the other.
    """
    if Path("phrasemt/__init__.py").is_file() and not Path("phrasemt").samefile(CHECKOUT / "phrasemt"):
        what = "the environment belongs to another checkout of phrasemt"
        next_step = "make install here (first `rm .venv` if it is a link), and activate .venv"
        raise PhrasemtError(what, where=Path.cwd(), found=CHECKOUT, next_step=next_step)
    check.run(Namespace(studies=[options.study]))
    unlock.run(Namespace(cancel=False))
    place = ["--snakefile", of_checkout("workflow/Snakefile"), "--profile", of_checkout(options.profile)]
    command = [sys.executable, "-m", "snakemake", *place, "--configfile", options.study, *options.snakemake]
    sys.stdout.flush()
    running = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Snakemake gets it, too, and ends its jobs
    signal.signal(signal.SIGTERM, lambda signum, frame: running.send_signal(signum))
    if code := running.wait():
        sys.exit(code)
    if Path(Paths(study_name(options.study)).markdown_table).exists():  # not after --dry-run or --until
        show.run(Namespace(study=options.study, figures=None))
