"""Model folders: everything that a trained system needs, in one folder that works on any machine.

    model.json                  settings of the system, where it comes from, and the sha256 of each other file
    weights.safetensors         weights, with the model's settings and the digests of its vocabularies
    source_vocabulary.tsv, target_vocabulary.tsv, codes.bpe, source_counts.txt, target_counts.txt
    parser/                     card and model files of the parser, of systems that read parses
    study.json                  the study

`phrasemt export` writes such a folder. The places of the files in it are fixed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.card import Card
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.fields import Name, Seed
from phrasemt.files.digests import check_file, digest_file
from phrasemt.files.lines import flush_to_disk, write_text
from phrasemt.workflow.paths import EXPORTED_MANIFEST, EXPORTED_WEIGHTS
from phrasemt.workflow.trained_system import SystemSettings, TrainedSystem, refuse_without_raw_text

MANIFEST = EXPORTED_MANIFEST
PLACES = {
    "weights": EXPORTED_WEIGHTS,
    "source_vocabulary": "source_vocabulary.tsv",
    "target_vocabulary": "target_vocabulary.tsv",
    "codes": "codes.bpe",
    "source_counts": "source_counts.txt",
    "target_counts": "target_counts.txt",
    "parser": "parser/annotator.json",
}


class ModelManifest(JsonFile, format=2):
    """The content of `model.json`. files: sha256 of each file, by its path in the folder."""

    again = "copy the folder again from where it was exported, or export it again with this version of phrasemt"

    phrasemt: str
    study: Name
    dataset: Name
    system: Name
    seed: Seed
    settings: SystemSettings
    files: dict[str, str]

    @property
    def name(self) -> str:
        return f"system {self.system} of study {self.study}, seed {self.seed}"


def write_model_folder(folder: Path, system: TrainedSystem, about: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Write a folder, which appears when it is complete.

    about: version, study, dataset, system and seed of `ModelManifest`. texts: further files by their name.
    Raises PhrasemtError if the folder is there already.
    """
    with new_folder(folder) as temporary:
        for role, path in system.files.items():
            if role == "parser":
                _copy_parser(path, temporary / PLACES[role])
            else:
                shutil.copyfile(path, temporary / PLACES[role])
        for name, text in texts.items():
            write_text(temporary / name, text)
        copies = sorted(path for path in temporary.rglob("*") if path.is_file())
        files = {path.relative_to(temporary).as_posix(): digest_file(path) for path in copies}
        ModelManifest(settings=system.settings, files=files, **about).write(temporary / MANIFEST)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder, which gets its name when the block ends without an error.

    Raises PhrasemtError if the folder is there already.
    """
    if folder.exists():
        raise PhrasemtError("the folder is there already", where=folder, next_step="name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    temporary.mkdir()
    try:
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file():
                flush_to_disk(path)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy_parser(card: Path, place: Path) -> None:
    """Copy a parser with its card, which then names the copies."""
    described = Card.read(card)
    described.verify()
    place.parent.mkdir()
    files = {}
    for role, file in described.files.items():
        copy = place.parent.absolute() / f"{role}.pt"
        shutil.copyfile(file.path, copy)
        files[role] = replace(file, path=copy)
    replace(described, files=files).write(place)


def read_manifest(folder: Path) -> ModelManifest:
    """The manifest of a folder.

    Raises PhrasemtError for a folder of something else, DamagedFileError for a damaged manifest.
    """
    if not (folder / MANIFEST).is_file():
        what = "not a model folder"
        raise PhrasemtError(
            what, where=folder, expected=f"a file {MANIFEST}", next_step="make one with `phrasemt export`"
        )
    return ModelManifest.read(folder / MANIFEST)


def read_model_folder(folder: Path) -> TrainedSystem:
    """The system of a folder. Reads all files once.

    Raises PhrasemtError for a folder of something else, DamagedFileError for a file that is missing or altered, and as
    `refuse_without_raw_text`.
    """
    manifest = read_manifest(folder)
    for name, expected in manifest.files.items():
        check_file(folder / name, expected, "not the file that was exported", next_step=manifest.again)
    refuse_without_raw_text(manifest.settings, manifest.name)
    roles = manifest.settings.roles
    if absent := [PLACES[role] for role in roles if PLACES[role] not in manifest.files]:
        what = "a file that the model needs is not listed"
        raise DamagedFileError(what, where=folder / MANIFEST, expected=", ".join(absent), next_step=manifest.again)
    files = {role: folder / PLACES[role] for role in roles}
    return TrainedSystem(manifest.name, manifest.settings, files)
