"""`phrasemt capsule`: pack the table of a study with all that its numbers are computed from, or check such a file.

A capsule is a zip file: the study, tables, comparisons, scores, translations and references with their sidecars, and
`digests.tsv`, path and sha256 of every artefact of the study. A check compares the digests, and runs the stages again
that made tables, comparisons and scores.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import math
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import SUFFIX, Evidence, Sidecar, sidecar_path
from phrasemt.commands._arguments import Output, add_study, finished_file
from phrasemt.errors import DamagedFileError, PhrasemtError, check_equal
from phrasemt.files.lines import read_lines, write_atomic
from phrasemt.files.system import digest_bytes, digest_file
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.registry.corpora import corpus
from phrasemt.study.architectures import file_of, has_module, own_settings
from phrasemt.study.datasets import Dataset, RegistryText
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.changes import changes_since
from phrasemt.workflow.run_stage import run_stage

STUDY, DIGESTS, FAMILIES = "study.yaml", "digests.tsv", "families"
# The stages that need no model and no training text, by the kind of their output.
RECOMPUTED = {
    Paths.table: "make_table",
    Paths.comparison: "compare_systems",
    Paths.seed_variation: "measure_variation",
    Paths.system_scores: "score_system",
}
_MOST, _LARGEST = 10_000, 1 << 30  # members; bytes of all, unpacked
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write one zip file with a table and all that it is computed from, or check such a file."
    add_study(parser)
    to_do = parser.add_mutually_exclusive_group()
    to_do.add_argument("--output", type=Output, metavar="FILE", help="zip file (default: <study>.zip)")
    to_do.add_argument("--check", type=Path, metavar="FILE", help="check this capsule in place of packing one")
    parser.add_argument("--all-references", action="store_true", help="pack references that may not be copied, too")


def run(options: argparse.Namespace) -> None:
    """Write or check a capsule. Raises DamagedFileError for an altered file, MismatchError for other settings."""
    if options.check is not None:
        check_capsule(options.check)
        return
    study = load_study(options.study)
    changes_since(study, thorough=True).refuse()
    finished_file(Paths(study.study).table, "there are no results yet", options.study)
    capsule = options.output or Path(f"{study.study}.zip")
    for path in write_capsule(study, capsule, all_references=options.all_references):
        print(f"{path}: left out, because the registry does not say that it may be copied")
    print(f"{capsule} is written. Next: `phrasemt capsule --check {capsule}`")


def write_capsule(study: Study, capsule: Path, *, all_references: bool) -> list[str]:
    """Pack the table of a study, and return the references that are left out. Equal studies give equal files.

    Raises DamagedFileError for a file that is not the one that its stage wrote.
    """
    shared = {name for name, dataset in study.datasets.items() if all_references or _may_be_copied(dataset)}
    members, left_out, evidence, waiting = dict[str, bytes](), set[str](), Evidence(), [str(Paths(study.study).table)]
    for path in waiting:
        evidence.check(Path(path))
        members[path] = Path(path).read_bytes()
        if not sidecar_path(path).is_file():
            continue
        members[f"{path}{SUFFIX}"], sidecar = sidecar_path(path).read_bytes(), Sidecar.beside(path)
        if sidecar.stage in RECOMPUTED.values():
            files = list(sidecar.outputs.values())
            for role, read in sidecar.inputs.items():
                if role.startswith("reference") and sidecar.settings["dataset"] not in shared:
                    left_out |= {file.path for file in read}
                else:
                    files += read
            waiting += dict.fromkeys(file.path for file in files if file.path not in waiting)
    members[STUDY] = format_yaml(study.model_dump(mode="json", exclude_unset=True)).encode()
    for family in {system.model.family for system in study.models.values() if own_settings(system.model.family)}:
        members[f"{FAMILIES}/{family}.py"] = file_of(family).read_bytes()
    sidecars = map(Sidecar.read, Path(Paths(study.study).results).rglob(f"*{SUFFIX}"))
    digests = {file.path: file.sha256 for sidecar in sidecars for file in sidecar.outputs.values()}
    digests |= {path: digest_bytes(content) for path, content in members.items()}
    members[DIGESTS] = "".join(f"{path}\t{digest}\n" for path, digest in sorted(digests.items())).encode()
    with write_atomic(capsule) as stream, zipfile.ZipFile(stream, "w") as archive:
        for path in sorted(members):  # each with the time of a new ZipInfo, 1980
            archive.writestr(zipfile.ZipInfo(path), members[path], zipfile.ZIP_DEFLATED)
    return sorted(left_out)


def _may_be_copied(dataset: Dataset) -> bool:
    """Whether the registry says that everybody may pass on the texts of the test sets."""
    texts = [text for test_set in dataset.test_sets for text in dataset.texts_of_split(test_set)]
    texts += [dataset.partition.text] if dataset.partition else []
    return all(isinstance(text, RegistryText) and corpus(text.corpus).may_be_copied for text in texts)


def check_capsule(capsule: Path) -> None:
    """Print what is computed again and what differs. Raises DamagedFileError for a difference or no whole capsule."""
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    temporary, differing = tempfile.TemporaryDirectory(prefix="phrasemt-"), 0
    with capsule.open("rb") as stream, temporary as folder, contextlib.chdir(folder):
        try:
            with zipfile.ZipFile(stream) as archive:
                names = archive.namelist()
                if len(names) > _MOST or sum(member.file_size for member in archive.infolist()) > _LARGEST:
                    raise ValueError("it has too many members or bytes")
                archive.extractall()  # which changes names that lead elsewhere
            files = sorted(str(path) for path in Path().rglob("*") if path.is_file())
            if sorted(names) != files:
                raise ValueError("it has names that lead elsewhere, or two of one name")
            digests = dict(line.split("\t") for line in read_lines(DIGESTS))
            table = str(Paths(parse_yaml(Path(STUDY).read_text(encoding="utf-8"))["study"]).table)
        except Exception as error:  # files from anywhere can be broken in any way
            found, next_step = str(error) or type(error).__name__, "fetch or pack it again"
            raise DamagedFileError("not a whole capsule", where=capsule, found=found, next_step=next_step) from None
        for path, result, agrees in _checked(files, digests, table):
            differing += not agrees
            print(f"{path}: {result}")
    if differing:
        next_step = "compare the lines above with the study that the capsule is of"
        raise DamagedFileError(f"{differing} files differ", where=capsule, next_step=next_step)
    print(f"{capsule}: all files agree")


def _checked(files: list[str], digests: dict[str, str], table: str) -> Iterator[tuple[str, str, bool]]:
    """Each file that is computed again or differs, the result, and whether it agrees."""
    for path in files:
        if path != DIGESTS and digest_file(path) != digests.get(path):
            yield path, f"sha256: not the one in {DIGESTS}", False
    if absent := [path.stem for path in Path(FAMILIES).glob("*.py") if not has_module(path.stem)]:
        yield STUDY, f"not compared with the sidecars: phrasemt has no family {', '.join(absent)} here", True
    else:
        try:
            changes_since(load_study(STUDY)).refuse()
        except PhrasemtError as error:
            yield STUDY, str(error), False
    waiting = [table]
    for path in waiting:
        written_by = (stage for pattern, stage in RECOMPUTED.items() if pattern.fits(Path(path)))
        if stage := "make_table" if path == table else next(written_by, None):
            try:
                sidecar = Evidence().check_output(path)
                check_equal(stage, sidecar.stage, "made by another stage", next_step="pack it again")
                waiting += dict.fromkeys(file.path for file in sidecar.files_read if file.path not in waiting)
                yield path, _recomputed(sidecar, files), True
            except Exception as error:  # as above
                yield path, f"{stage}: {error or type(error).__name__}", False


def _recomputed(sidecar: Sidecar, files: list[str]) -> str:
    """Run the stage again. Raises DamagedFileError if an output differs in more than the last digits of a number."""
    absent = {role: file.path for role, read in sidecar.inputs.items() for file in read if file.path not in files}
    if absent and all(role.startswith("reference") for role in absent):
        return "as its sidecar records, because references are left out"
    check_equal({}, absent, "files are missing", next_step="pack it again")
    inputs = {role: [Path(file.path) for file in read] for role, read in sidecar.inputs.items()}
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as folder:
        settings = Path(folder, "settings.json")
        settings.write_text(json.dumps(sidecar.settings), encoding="utf-8")
        outputs = {role: Path(folder, role) for role in sidecar.outputs}
        run_stage(sidecar.stage, argparse.Namespace(settings=settings, cores=1, **inputs, **outputs))
        for role, file in sidecar.outputs.items():
            again = Sidecar.beside(outputs[role])
            check_equal(sidecar.files_read, again.files_read, "made of other files", next_step="pack it again")
            recorded, computed = (_NUMBER.split(path.read_text("utf-8")) for path in (Path(file.path), outputs[role]))
            for number, pair in enumerate(itertools.zip_longest(recorded, computed, fillvalue="")):
                if pair[0] != pair[1] and not (number % 2 and math.isclose(*map(float, pair), rel_tol=1e-9)):
                    place = "".join(recorded[max(0, number - 4) : number])[-60:]
                    made_with = f"{sidecar.versions}, here {again.versions}"
                    what = f"{file.path} differs after {place!r}; made with {made_with}"
                    raise DamagedFileError(what, expected=pair[1][:40], found=pair[0][:40], next_step="pack it again")
    return "computed again, the same"
