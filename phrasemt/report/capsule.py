"""Capsules: the table of a study with everything that its numbers are computed from, in one zip file.

A capsule holds the table, the files of scores, comparisons and other measures, the translations, the references where
their licence allows copies, the sidecar of each of these files, and

    capsule.json    the study; path, member and sha256 of each file; the files that are left out
    digests.tsv     path and sha256 of every artefact of the study, models and training text included

Equal studies give equal bytes. A check computes the numbers again, by the stages that made them: the tables, and
whatever a stage of `RECOMPUTED` makes of what they are made of. Scores come from translations and references; where
references are left out, from the statistics of the sentences. The study of the capsule gives the settings, and the
declarations of the stages say what is computed again, so a capsule cannot exempt a file. What a model computed
(perplexity, contrastive pairs, chunks, scores on dev) is compared with its checksum only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import math
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from phrasemt import __version__
from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import BleuScore, SystemScores
from phrasemt.artefacts.sidecar import SUFFIX, DigestedFile, Evidence, Sidecar, library_versions, sidecar_path
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.lines import write_atomic
from phrasemt.files.system import digest_bytes, digest_file
from phrasemt.registry.corpora import corpus
from phrasemt.scoring.statistics import as_array, corpus_scores
from phrasemt.stages import STAGES
from phrasemt.stages.stage import kinds_of
from phrasemt.study.datasets import Dataset, RegistryText
from phrasemt.study.schema import Study
from phrasemt.workflow.changes import changes_among

MANIFEST, DIGESTS = "capsule.json", "digests.tsv"
# The stages that need neither a GPU nor a model nor training text. Files of other stages are taken as they are.
RECOMPUTED = ("score_system", "compare_systems", "make_table")
REFERENCE = "reference"  # first letters of the inputs of `score_system` that hold references
_LARGEST = 1 << 30  # bytes of all members together, unpacked
_MOST = 10_000  # members; a study has hundreds
_BEGINNING_OF_ZIP = (1980, 1, 1, 0, 0, 0)
_TOLERANCE = 1e-9  # machines add numbers in different orders
# The stage that writes a kind of file, of those that are computed again.
_WRITERS = {kind: stage for stage in RECOMPUTED for kind in STAGES[stage].outputs.values()}


class PackedFile(DigestedFile):
    """A file of a capsule. path: where the study had it. member: its name in the zip file; None: it is left out."""

    member: str | None = None


class CapsuleManifest(JsonFile):
    """The content of `capsule.json`."""

    again = "fetch or pack it again"

    phrasemt: str
    study: dict[str, Any]
    files: list[PackedFile]

    @functools.cached_property
    def study_read(self) -> Study:
        """The study. Raises ValidationError for a study with mistakes."""
        return Study.model_validate(self.study)


def table_paths(study: str) -> list[Path]:
    """The files of a study's table, the table itself first."""
    paths = Paths(study)
    return [Path(path) for path in (paths.table, paths.markdown_table, paths.latex_table, paths.csv_table)]


def write_capsule(study: Study, capsule: Path, *, all_references: bool) -> CapsuleManifest:
    """Pack the table of a finished study. all_references: also those whose licence is not known to allow copies.

    Raises PhrasemtError if there is no table yet, DamagedFileError for a file that is not the one that its stage wrote.
    """
    tables = table_paths(study.study)
    if not tables[0].is_file():
        next_step = "make study STUDY=STUDY.yaml"
        raise PhrasemtError("there are no results yet", where=tables[0], next_step=next_step)
    shared = {name for name, dataset in study.datasets.items() if all_references or _may_be_copied(dataset)}
    packed: dict[Path, bool] = {}  # whether a file is in the capsule
    waiting = tables
    while waiting:
        path = waiting.pop()
        if path in packed:
            continue
        packed[path] = True
        sidecar = Sidecar.beside(path) if sidecar_path(path).is_file() else None
        if sidecar is None or sidecar.stage not in RECOMPUTED:
            continue
        for role, read in sidecar.inputs.items():
            if role.startswith(REFERENCE) and sidecar.settings["dataset"] not in shared:
                packed |= {Path(file.path): False for file in read}
            else:
                waiting += [Path(file.path) for file in read]
    members, evidence = {}, Evidence()
    files: list[PackedFile] = []
    for path, inside in sorted(packed.items()):
        evidence.check(path)
        digest = evidence.digest(path)
        files.append(PackedFile(path=str(path), member=_member(path, digest) if inside else None, sha256=digest))
        if inside:
            members[str(files[-1].member)] = path.read_bytes()
            if (sidecar_file := sidecar_path(path)).is_file():
                name, content = f"{files[-1].member}{SUFFIX}", sidecar_file.read_bytes()
                members[name] = content
                files.append(PackedFile(path=str(sidecar_file), member=name, sha256=digest_bytes(content)))
    members[DIGESTS] = _digests(Path(Paths(study.study).results)).encode()
    files.append(PackedFile(path=DIGESTS, member=DIGESTS, sha256=digest_bytes(members[DIGESTS])))
    manifest = CapsuleManifest(
        phrasemt=__version__, study=study.model_dump(mode="json", exclude_unset=True), files=files
    )
    members[MANIFEST] = manifest.text.encode()
    with (
        write_atomic(capsule) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _BEGINNING_OF_ZIP)  # equal studies give equal files
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(info, members[name])
    return manifest


def _may_be_copied(dataset: Dataset) -> bool:
    """Whether the registry says that everybody may pass on the texts of the test sets."""
    texts = [text for test_set in dataset.test_sets for text in dataset.texts_of_split(test_set)]
    texts += [dataset.partition.text] if dataset.partition else []
    return all(isinstance(text, RegistryText) and corpus(text.corpus).may_be_copied for text in texts)


def _member(path: Path, digest: str) -> str:
    """The name of a file in the capsule: its path, or a name of its own for files from anywhere."""
    parts = path.parts
    return f"elsewhere/{digest[:12]}/{path.name}" if path.is_absolute() or ".." in parts else path.as_posix()


def _digests(results: Path) -> str:
    recorded = {
        (file.path, file.sha256) for path in results.rglob(f"*{SUFFIX}") for file in Sidecar.read(path).outputs.values()
    }
    return "".join(f"{path}\t{digest}\n" for path, digest in sorted(recorded))


@contextlib.contextmanager
def opened_capsule(capsule: Path) -> Iterator[tuple[Path, CapsuleManifest]]:
    """Unpack a capsule into a temporary folder, and give the folder and the manifest.

    Raises DamagedFileError for a file that is no whole zip file, has names that lead elsewhere, is larger than 1 GiB
    unpacked, or has other members than its manifest says.
    """
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as name:
        folder = Path(name)
        try:
            with zipfile.ZipFile(capsule) as archive:
                if (size := sum(info.file_size for info in archive.infolist())) > _LARGEST:
                    raise _damaged(capsule, f"{size:,} bytes unpacked", expected=f"at most {_LARGEST:,}")
                if (count := len(archive.infolist())) > _MOST:
                    raise _damaged(capsule, f"{count:,} members", expected=f"at most {_MOST:,}")
                archive.extractall(folder)  # which changes names that lead elsewhere
                names = sorted(archive.namelist())
        # RuntimeError: encrypted, or of an unknown method; ValueError: a name that no file system takes.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise _damaged(capsule, str(error)) from None
        try:
            manifest = CapsuleManifest.read(folder / MANIFEST)
            _ = manifest.study_read
        except DamagedFileError as error:
            raise _damaged(f"{capsule}, {MANIFEST}", error.what) from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, ("study", *first["loc"])))
            raise _damaged(f"{capsule}, {MANIFEST}", f"{where}: {first['msg']}") from None
        expected = sorted([MANIFEST, *(file.member for file in manifest.files if file.member is not None)])
        unpacked = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        for found in (names, unpacked):
            if found != expected:
                wrong = min(set(found) ^ set(expected), default="two of one name")
                raise _damaged(capsule, f"members that are missing, not named, or lead elsewhere: {wrong!r}")
        yield folder, manifest


def _damaged(where: object, found: str, *, expected: str | None = None) -> DamagedFileError:
    return DamagedFileError(
        "not a whole capsule", where=where, expected=expected, found=found, next_step="fetch or pack it again"
    )


@dataclass(frozen=True)
class CheckedFile:
    """A file of a capsule after a check. numbers: how many were compared. differences: where, recorded, found."""

    path: str
    how: Literal["checksum", "recomputed", "statistics", "as recorded"]
    numbers: int
    differences: tuple[str, ...] = ()


def check_capsule(folder: Path, manifest: CapsuleManifest) -> tuple[list[CheckedFile], list[str]]:
    """Compare all checksums of an unpacked capsule, and compute its numbers again.

    Returns each file after the check, and the libraries that have other versions here than where the capsule was made,
    which may explain differences. The working folder is that of the capsule meanwhile, because tables hold the paths of
    their scores. Whatever a file holds, the worst that it causes is a difference.
    """
    versions: set[str] = set()
    with contextlib.chdir(folder):
        return [*_checked(manifest, versions)], sorted(versions)


def _checked(manifest: CapsuleManifest, versions: set[str]) -> Iterator[CheckedFile]:
    places = {file.path: Path(file.member) for file in manifest.files if file.member is not None}
    recorded = {file.path: file.sha256 for file in manifest.files}
    for path, place in places.items():
        if (found := digest_file(place)) != recorded[path]:
            yield CheckedFile(path, "checksum", 0, (f"sha256: recorded {recorded[path][:12]}, found {found[:12]}",))
    sidecars: dict[str, Sidecar] = {}
    for path, place in places.items():
        if path.endswith(SUFFIX) or f"{path}{SUFFIX}" not in places:
            continue
        try:
            sidecars[path] = Sidecar.beside(place)
        except PhrasemtError as error:
            yield CheckedFile(path, "checksum", 0, (str(error),))
            continue
        yield from _origin(path, sidecars[path], recorded)
    runs: dict[str, tuple[Sidecar, list[str]]] = {}  # outputs of one run of a stage, by the text of its sidecar
    stages = dict.fromkeys(map(str, table_paths(manifest.study_read.study)), "make_table")  # of each file, its stage
    waiting = list(stages)
    for path in waiting:
        sidecar = sidecars.get(path)
        if sidecar is None or sidecar.stage != stages[path] or path not in sidecar.files_written:
            found = "not in the capsule with a sidecar" if sidecar is None else f"a sidecar of {sidecar.stage}"
            yield CheckedFile(path, "recomputed", 0, (f"expected an output of {stages[path]}, found {found}",))
            continue
        runs.setdefault(sidecar.text, (sidecar, []))[1].append(path)
        here = library_versions(STAGES[sidecar.stage].libraries)
        both = ((name, version, here.get(name)) for name, version in sidecar.versions.items())
        versions |= {f"{name} {version}, here {own}" for name, version, own in both if own != version}
        for role, kinds in STAGES[sidecar.stage].inputs.items():
            writer = next((_WRITERS[kind] for kind in kinds_of(kinds) if kind in _WRITERS), None)
            if writer is not None:
                new = {file.path: writer for file in sidecar.inputs.get(role, []) if file.path not in stages}
                stages |= new
                waiting += new
    of_study = {path: places[f"{path}{SUFFIX}"] for path in sidecars}
    for what, path in changes_among(manifest.study_read, of_study, beside=False).settings.items():
        yield CheckedFile(path, "as recorded", 0, (f"its sidecar and the study of the capsule differ: {what}",))
    computed = (path for path in sidecars if path not in stages and places[path].suffix == ".json")
    yield from (CheckedFile(path, "as recorded", 0) for path in computed)
    for stage in RECOMPUTED:
        for sidecar, paths in runs.values():
            if sidecar.stage == stage:
                yield from _of_run(sidecar, paths, places, manifest.study_read)


def _origin(path: str, sidecar: Sidecar, recorded: Mapping[str, str]) -> Iterator[CheckedFile]:
    """A file that is not the one that its sidecar describes, or that was made of other inputs."""
    for file in (*sidecar.outputs.values(), *sidecar.files_read):
        if (digest := recorded.get(file.path, file.sha256)) != file.sha256:
            what = f"its sidecar names {file.path} of sha256 {file.sha256[:12]}, found {digest[:12]}"
            yield CheckedFile(path, "checksum", 0, (what,))


def _of_run(sidecar: Sidecar, paths: list[str], places: Mapping[str, Path], study: Study) -> list[CheckedFile]:
    """The outputs of one run of a stage against what the files in the capsule give."""
    absent = {role for role, files in sidecar.inputs.items() for file in files if file.path not in places}
    try:
        if absent and all(role.startswith(REFERENCE) for role in absent):
            return [_by_statistics(path, places[path]) for path in paths]
        return _by_stage(sidecar, paths, places, study)
    except Exception as error:  # files from anywhere can break a stage in any way
        what = (str(error) or type(error).__name__).split("\n")[0]
        return [CheckedFile(path, "recomputed", 0, (f"{sidecar.stage} refuses: {what}",)) for path in paths]


def _by_stage(sidecar: Sidecar, paths: list[str], places: Mapping[str, Path], study: Study) -> list[CheckedFile]:
    """The outputs against those that the stage makes of its inputs, with the settings of the study."""
    stage = STAGES[sidecar.stage]
    role, pattern = next(iter(stage.outputs.items()))
    settings = stage.from_study(study, pattern.names(Path(sidecar.outputs[role].path)))
    function = getattr(importlib.import_module(stage.module), stage.stage_name())
    arguments: dict[str, Any] = {}
    for file in stage.stage_files("input"):
        files = [places[one.path] for one in sidecar.inputs.get(file.name, [])]
        arguments[file.name] = files if file.many else files[0]
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as name:
        outputs = {role: Path(name) / Path(made.path).name for role, made in sidecar.outputs.items()}
        function(settings=settings, cores=1, **arguments, **outputs)
        return [
            _compared(made.path, places[made.path], outputs[role])
            for role, made in sidecar.outputs.items()
            if made.path in paths
        ]


def _compared(path: str, recorded: Path, computed: Path) -> CheckedFile:
    texts = [file.read_text(encoding="utf-8") for file in (recorded, computed)]
    if recorded.suffix == ".json":
        return _of_pairs(path, "recomputed", list(_leaves(*map(json.loads, texts))))
    lines = enumerate(itertools.zip_longest(*(text.split("\n") for text in texts), fillvalue=""), start=1)
    return _of_pairs(path, "recomputed", [(f"line {number}", one, two) for number, (one, two) in lines])


def _by_statistics(path: str, place: Path) -> CheckedFile:
    """The scores of a file whose references are left out, from the statistics of the sentences."""
    pairs: list[tuple[str, Any, Any]] = []
    for test_set, scores in SystemScores.read(place).test_sets.items():
        for name, metric in scores.metrics.items():
            sums = as_array(scores.statistics[name]).sum(0)
            pairs.append((f"{test_set}.{name}", metric.score, float(corpus_scores(metric, sums))))
            if isinstance(metric, BleuScore):
                counted = [*metric.counts, *metric.totals, metric.sys_len, metric.ref_len]
                pairs.append((f"{test_set}.{name}, counts and lengths", counted, sums.tolist()))
    return _of_pairs(path, "statistics", pairs)


def _of_pairs(path: str, how: Literal["recomputed", "statistics"], pairs: list[tuple[str, Any, Any]]) -> CheckedFile:
    """A file after a comparison. pairs: place, recorded and computed value."""
    different = [
        f"{place}: recorded {json.dumps(recorded)[:80]}, computed {json.dumps(computed)[:80]}"
        for place, recorded, computed in pairs
        if not _equal(recorded, computed)
    ]
    numbers = sum(isinstance(recorded, int | float) for _, recorded, _ in pairs)
    return CheckedFile(path, how, numbers, tuple(different))


def _leaves(one: Any, two: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The values of two JSON trees that stand in the same place; None where one tree has none."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in one | two:
            yield from _leaves(one.get(key), two.get(key), f"{place}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, pair in enumerate(zip(one, two, strict=True)):
            yield from _leaves(*pair, f"{place}.{number}")
    else:
        yield place, one, two


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, int) and isinstance(two, int):  # of any size
        return one == two
    if isinstance(one, int | float) and isinstance(two, int | float):
        return math.isclose(float(one), float(two), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(one == two)
