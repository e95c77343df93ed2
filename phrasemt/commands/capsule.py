"""`phrasemt capsule`: pack the table of a study with all that its numbers come from, or check a capsule."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from phrasemt.commands._arguments import Output, add_study
from phrasemt.errors import DamagedFileError
from phrasemt.report.capsule import CapsuleManifest, check_capsule, opened_capsule, write_capsule
from phrasemt.runs.display import size
from phrasemt.study.reading import load_study
from phrasemt.workflow.changes import changes_since

_MOST_NAMED = 20  # differences of a file
_MEANING = {
    "recomputed": "{} values computed again, all agree",
    "statistics": "{} scores computed again from the statistics of the sentences, all agree; references are left out",
    "as recorded": "as its sidecar records; it needs a model to be computed again",
}
_SAME_TEXT = "written again, the same text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one zip file with the study, tables, scores, comparisons, translations, sidecars, checksums "
        "of all artefacts, and references where their licence allows copies. Equal studies give equal files. "
        "With --check, compute every number of a capsule again, without GPU, models and training text."
    )
    add_study(parser)
    to_do = parser.add_mutually_exclusive_group()
    to_do.add_argument("--output", type=Output, metavar="FILE", help="zip file (default: <study>.zip)")
    to_do.add_argument("--check", type=Path, metavar="FILE", help="check this capsule in place of packing one")
    parser.add_argument(
        "--all-references", action="store_true", help="pack references whose licence is not known to allow copies, too"
    )


def run(options: argparse.Namespace) -> None:
    """Write or check a capsule.

    Raises PhrasemtError if there is no table, MismatchError for results of other settings, DamagedFileError for an
    altered file.
    """
    if options.check is not None:
        _check(options.check)
        return
    study = load_study(options.study)
    changes_since(study).refuse()
    capsule: Path = options.output or Path(f"{study.study}.zip")
    _print_left_out(write_capsule(study, capsule, all_references=options.all_references))
    print(f"{capsule}: {size(capsule.stat().st_size)}. Next: `phrasemt capsule --check {capsule}`")


def _check(capsule: Path) -> None:
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    different = numbers = 0
    with opened_capsule(capsule) as (folder, manifest):
        checked, versions = check_capsule(folder, manifest)
        for file in checked:
            different += bool(file.differences)
            numbers += file.numbers
            if not file.differences:
                without_numbers = file.how == "recomputed" and not file.numbers
                meaning = _SAME_TEXT if without_numbers else _MEANING[file.how].format(file.numbers)
                print(f"{file.path}: {meaning}")
            for difference in file.differences[:_MOST_NAMED]:
                print(f"{file.path}: {file.how}: {difference}")
            if (more := len(file.differences) - _MOST_NAMED) > 0:
                print(f"{file.path}: and {more:,} more differences")
        _print_left_out(manifest)
        if versions:
            print(f"other versions than those of the capsule: {'; '.join(versions)}")
    if different:
        what = f"{different} files differ from what they are computed from"
        next_step = "compare the lines above with the study that the capsule is of"
        raise DamagedFileError(what, where=capsule, next_step=next_step)
    print(f"{capsule}: {f'all {numbers:,} values agree' if numbers else 'it has no value to compute again'}")


def _print_left_out(manifest: CapsuleManifest) -> None:
    if left_out := [file.path for file in manifest.files if file.member is None]:
        print(f"left out, because the registry does not say that they may be copied: {', '.join(left_out)}")
