"""Capsules: the table of a study with everything that its numbers are computed from, in one zip file.

A capsule holds the table, the files of scores, comparisons and other measures, the translations, the references where
their licence allows copies, the sidecar of each of these files, and

    capsule.json    the study; path, member and sha256 of each file; the files that are left out
    digests.tsv     path and sha256 of every artefact of the study, models and training text included

`phrasemt.report.recompute` computes the numbers again. Equal studies give equal bytes.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from phrasemt import __version__
from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.sidecar import SUFFIX, DigestedFile, Evidence, Sidecar, sidecar_path
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.digests import digest_bytes
from phrasemt.files.lines import write_atomic
from phrasemt.registry.corpora import corpus
from phrasemt.study.datasets import Dataset, RegistryText
from phrasemt.study.schema import Study
from phrasemt.workflow.paths import Paths

MANIFEST, DIGESTS = "capsule.json", "digests.tsv"
# The stages that need neither a GPU nor a model nor training text. Files of other stages are taken as they are.
RECOMPUTED = ("score_system", "compare_systems", "make_table")
REFERENCE = "reference"  # first letters of the inputs of `score_system` that hold references
_LARGEST = 1 << 30  # bytes of all members together, unpacked
_MOST_MEMBERS = 20_000  # of five seeds of the 20 systems of a paper there are some thousands
_BEGINNING_OF_ZIP = (1980, 1, 1, 0, 0, 0)


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
        next_step = "snakemake --profile profiles/local --configfile STUDY"
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
            info = zipfile.ZipInfo(
                name, _BEGINNING_OF_ZIP
            )  # a zip file holds times, and equal studies give equal files
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(info, members[name])
    return manifest


def _may_be_copied(dataset: Dataset) -> bool:
    """Whether the registry says that everybody may pass on the texts of the test sets."""
    texts = [text for test_set in dataset.test_sets for text in dataset.texts_of_split(test_set)]
    texts += [dataset.partition.text] if dataset.partition else []
    return all(isinstance(text, RegistryText) and corpus(text.corpus).may_be_copied for text in texts)


def _member(path: Path, digest: str) -> str:
    """The name of a file in the capsule: its path, or a name of its own for files of the user from anywhere."""
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
    unpacked, or lacks members or has others than its manifest says.
    """
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as name:
        folder = Path(name)
        try:
            with zipfile.ZipFile(capsule) as archive:
                infos = archive.infolist()
                if len(infos) > _MOST_MEMBERS:
                    raise _damaged(capsule, f"{len(infos):,} members", expected=f"at most {_MOST_MEMBERS:,}")
                _refuse_names(capsule, [info.filename for info in infos])
                if (size := sum(info.file_size for info in infos)) > _LARGEST:
                    raise _damaged(capsule, f"{size:,} bytes unpacked", expected=f"at most {_LARGEST:,}")
                for info in infos:
                    place = folder / info.filename
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(archive.read(info))
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
        expected = {MANIFEST, *(file.member for file in manifest.files if file.member is not None)}
        found_names = {info.filename for info in infos}
        if expected != found_names:
            raise _damaged(capsule, f"members that are missing or not named: {sorted(expected ^ found_names)[0]}")
        yield folder, manifest


def _refuse_names(capsule: Path, names: list[str]) -> None:
    for name in names:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0] or name.endswith("/"):
            raise _damaged(capsule, f"a member that leads elsewhere: {name!r}")
    if len(set(names)) != len(names):
        raise _damaged(capsule, "two members of one name")


def _damaged(where: object, found: str, *, expected: str | None = None) -> DamagedFileError:
    return DamagedFileError(
        "not a whole capsule", where=where, expected=expected, found=found, next_step="fetch or pack it again"
    )
