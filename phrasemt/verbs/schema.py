"""`phrasemt schema`: print the JSON schema of a study file."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from phrasemt.study.reading import study_schema


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser("schema", help="print the JSON schema of a study file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the schema. `make schema` writes it to workflow/schemas/."""
    sys.stdout.write(study_schema())
