"""`phrasemt schema`: print the JSON schema of a study file."""

from __future__ import annotations

import argparse
import sys

from phrasemt.study.reading import study_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(options: argparse.Namespace) -> None:
    """Print the schema. `make schema` writes it to workflow/schemas/."""
    sys.stdout.write(study_schema())
