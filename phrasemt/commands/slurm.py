"""`phrasemt slurm`: write the profile of this Slurm site, with lines that no update of phrasemt touches."""

from __future__ import annotations

import argparse
import logging

from phrasemt.runs.site import COMPLETE, DELIVERED, SITE, write_site

log = logging.getLogger("phrasemt.slurm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"Lay the lines of this site, {SITE}, over {DELIVERED}, key by key, and write the result to {COMPLETE}, which "
        f"`snakemake --profile slurm` then uses. The first call asks Slurm for partitions and limits, for {SITE}; "
        "change that file and call this again, also after an update of phrasemt. Git ignores both files."
    )


def run(options: argparse.Namespace) -> None:
    """Write the files. Raises PhrasemtError when Slurm does not answer, or the lines of the site cannot be read."""
    for line in write_site():
        log.info("phrasemt slurm: %s", line)
