"""`phrasemt verify`: compare artefacts of a study with their sidecars, or compute the numbers of a capsule again."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.report.capsule import opened_capsule
from phrasemt.report.recompute import check_capsule, other_versions
from phrasemt.runs.plan import plan_of
from phrasemt.runs.verify import verify
from phrasemt.verbs._study import add_profile, add_study

MOST_NAMED = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Of a study: read all artefacts and compare them with their sidecars, whether each file is the "
        "file that its stage wrote, and whether it was made of the inputs that are there now. Name each file that "
        "differs and the next step; change nothing. `phrasemt plan` tells which settings and code have changed since. "
        "Of a capsule (a .zip file of `phrasemt capsule`): compute every number of the tables again, and say which "
        "agree, without GPU, models and training text."
    )
    add_study(parser, "study file, or capsule")
    add_profile(parser)


def run(options: argparse.Namespace) -> None:
    """Print a line for each file that differs. Raises DamagedFileError if there is one."""
    if options.study.suffix == ".zip":
        _verify_capsule(options.study)
        return

    plan = plan_of(options.study, options.profile)
    files, errors = verify(plan.finished, [job.planned for job in plan.jobs])
    for error in errors[:MOST_NAMED]:
        print(error)
    if (more := len(errors) - MOST_NAMED) > 0:
        print(f"and {more:,} more files")
    if errors:
        what = f"{len(errors):,} of {files:,} artefacts differ from their sidecars"
        raise DamagedFileError(what, where=plan.study, next_step="follow the lines above")
    if not files:
        raise PhrasemtError(
            "there is nothing to verify",
            where=plan.study,
            expected="at least one artefact here; files in a storage (--default-storage-provider) are elsewhere",
            next_step=f"snakemake --profile {options.profile} --configfile {options.study}",
        )
    print(f"{plan.study}: {files:,} artefacts are as their sidecars record")
    if plan.jobs:
        print(f"{len(plan.jobs):,} jobs would run. Next: `phrasemt plan {options.study}` tells why")


def _verify_capsule(capsule: Path) -> None:
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    different = numbers = 0
    with opened_capsule(capsule) as (folder, manifest):
        for finding in check_capsule(folder, manifest):
            if finding.differences:
                different += 1
                for difference in finding.differences[:MOST_NAMED]:
                    print(f"{finding.path}: {finding.how}: {difference}")
                if (more := len(finding.differences) - MOST_NAMED) > 0:
                    print(f"{finding.path}: and {more:,} more differences")
            else:
                numbers += finding.numbers
                print(f"{finding.path}: {_MEANING[finding.how].format(finding.numbers)}")
        left_out = [file.path for file in manifest.files if file.member is None]
        if left_out:
            print(f"left out of the capsule: {', '.join(left_out)}")
        if versions := other_versions(folder, manifest):
            print(f"other versions than those of the capsule: {'; '.join(versions)}")
    if different:
        what = f"{different} files differ from what they are computed from"
        next_step = "compare the lines above with the study that the capsule is of"
        raise DamagedFileError(what, where=capsule, next_step=next_step)
    print(f"{capsule}: all {numbers:,} values agree")


_MEANING = {
    "recomputed": "{} values computed again, all agree",
    "statistics": "{} scores computed again from the statistics of the sentences, all agree; references are left out",
    "as recorded": "as its sidecar records; it needs a model to be computed again",
}
