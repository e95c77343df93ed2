"""`phrasemt gc`: list and remove files below results/ that no study names any more."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.runs.garbage import garbage, refuse_running
from phrasemt.runs.text_table import table
from phrasemt.runs.units import size
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

OTHER_STUDIES = ("config.yaml", "studies/*.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the files below the results of studies that belong to systems, data sets, seeds, phrases, "
        "parsers and chunkers that no study names any more, and states of trainings under earlier settings, data or "
        "code; then remove them after a confirmation. Files that config.yaml or a study in studies/ names stay. So do "
        "files that no stage writes. Nothing is removed while a run of the study is alive."
    )
    parser.add_argument(
        "study",
        nargs="*",
        type=Path,
        default=[Path("config.yaml")],
        metavar="STUDY",
        help="study files (default: config.yaml)",
    )
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument("--only-given", action="store_true", help="ignore other studies than the given ones")


def run(options: argparse.Namespace) -> None:
    """Print what is found, and remove it if the user agrees. Raises PhrasemtError while a run is alive."""
    given = [load_study(path) for path in options.study]
    others = [] if options.only_given else _others(options.study)
    found = []
    for name in dict.fromkeys(study.study for study in given):
        same = [study for study in (*given, *others) if study.study == name]
        found += [(name, one) for one in garbage(same, [*given, *others])]
    if not found:
        print("nothing to remove: the studies name all artefacts below their results")
        return
    rows = [[name, one.what, f"{len(one.files):,}", size(one.bytes)] for name, one in found]
    print(*table([["study", "what", "files", "size"], *rows], right_aligned=("files", "size")), sep="\n")
    names = dict.fromkeys(name for name, _ in found)
    for name in names:
        refuse_running(name)
    total = f"{sum(len(one.files) for _, one in found):,} files ({size(sum(one.bytes for _, one in found))})"
    if not options.yes and not _agreed(total):
        print(f"nothing was removed. Next: `phrasemt gc {' '.join(map(str, options.study))} --yes` removes {total}")
        return
    for name in names:  # again, because a run may have begun while the question waited
        refuse_running(name)
    for _, one in found:
        one.remove()
    print(f"removed {total}")


def _agreed(total: str) -> bool:
    try:
        return (
            sys.stdin is not None
            and sys.stdin.isatty()
            and input(f"Remove {total}? [y/N] ").strip().lower() in ("y", "yes")
        )
    except EOFError:
        return False


def _others(given: list[Path]) -> list[Study]:
    """The other studies of this folder. Raises PhrasemtError for one that cannot be read: it may name any file."""
    known = {path.resolve() for path in given}
    studies = []
    for path in (path for pattern in OTHER_STUDIES for path in sorted(Path().glob(pattern))):
        if path.resolve() in known:
            continue
        try:
            studies.append(load_study(path))
        except PhrasemtError as error:
            raise PhrasemtError(
                "cannot be read, so nobody can tell which files it names",
                where=path,
                found=str(error).split("\n")[-1].strip(),
                next_step="mend or move it, or ignore all other studies with --only-given",
            ) from None
    return studies
