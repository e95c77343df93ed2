"""`phrasemt verify`: compare all artefacts of a study with their sidecars, and name what differs."""

from __future__ import annotations

import argparse
from typing import Any

from phrasemt.errors import DamagedFileError
from phrasemt.verbs._study import add_profile, add_study

MOST_NAMED = 20


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "verify",
        help="compare all artefacts of a study with their sidecars",
        description="Read all artefacts of a study and compare them with their sidecars: whether each file is the file "
        "that its stage wrote, and whether it was made of the inputs that are there now. Name each file that differs "
        "and the next step; change nothing. `phrasemt plan` tells which settings and code have changed since.",
    )
    add_study(parser)
    add_profile(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print a line for each file that differs. Raises DamagedFileError if there is one."""
    from phrasemt.workflow.plan import plan_of
    from phrasemt.workflow.verify import verify

    plan = plan_of(options.study, options.profile)
    checked = verify(plan)
    for error in checked.errors[:MOST_NAMED]:
        print(error)
    if (more := len(checked.errors) - MOST_NAMED) > 0:
        print(f"and {more:,} more files")
    if checked.errors:
        raise DamagedFileError(
            f"{len(checked.errors):,} of {checked.files:,} artefacts differ from their sidecars",
            where=plan.study,
            next_step="follow the lines above",
        )
    print(f"{plan.study}: {checked.files:,} artefacts are as their sidecars record")
    if plan.jobs:
        print(f"{len(plan.jobs):,} jobs would run. Next: `phrasemt plan {options.study}` tells why")
