"""`phrasemt stages`: list the stages of the workflow, each of which is a command with files and settings."""

from __future__ import annotations

import argparse
import inspect

from phrasemt.stages import STAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "`phrasemt STAGE --help` lists the files and the settings of a stage."


def run(options: argparse.Namespace) -> None:
    """Print a line for each stage."""
    width = max(map(len, STAGES))
    for name, stage in STAGES.items():
        print(f"{name:<{width}}  {' '.join(inspect.cleandoc(stage.__doc__ or '').split())}")
