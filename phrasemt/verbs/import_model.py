"""`phrasemt import`: copy an exported model to where studies find it, and print the lines of a study that use it."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasemt.decoding.translator import Translator
from phrasemt.errors import DamagedFileError
from phrasemt.verbs._output import Output
from phrasemt.workflow.model_folder import MANIFEST, ModelManifest, new_folder, read_manifest, read_model_folder

_FOLDER = Path("resources/models")
_STUDY = "study.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check all files of a folder of `phrasemt export`, load the model, copy the files, and print the lines of a "
        "study whose training starts from it, with its subwords."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of `phrasemt export`")
    parser.add_argument(
        "--to", type=Output, metavar="FOLDER", help=f"new folder (default: {_FOLDER}/<study>.<system>.<seed>)"
    )


def run(options: argparse.Namespace) -> None:
    """Import. The folder appears when all is well.

    Raises DamagedFileError for a file that is missing, altered or unusable, MismatchError for files that do not belong
    together, PhrasemtError if the place is taken.
    """
    read_model_folder(options.folder)
    manifest = read_manifest(options.folder)
    place = options.to or _FOLDER / f"{manifest.study}.{manifest.system}.{manifest.seed}"
    with new_folder(place) as temporary:
        for name in (MANIFEST, *manifest.files):  # what else is there is no part of the model
            (temporary / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(options.folder / name, temporary / name)
        system = read_model_folder(temporary)
        Translator(system, decoding=system.settings.decoding, cores=1)  # raises the errors of files
        lines = list(_lines(place, manifest, _data(temporary, manifest)))
    print(*lines, sep="\n")


def _data(folder: Path, manifest: ModelManifest) -> dict[str, Any]:
    """The section of the data set in the exported study. Raises DamagedFileError if there is none."""
    try:
        data = json.loads((folder / _STUDY).read_text(encoding="utf-8"))["datasets"][manifest.dataset]
        return {"tokenization": data["tokenization"]} | {key: data["subwords"][key] for key in _SUBWORDS}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFileError(
            "not the study of an exported model", where=folder / _STUDY, found=repr(error), next_step=manifest.again
        ) from None


_SUBWORDS = ("unit", "shared_vocabulary")


def _lines(place: Path, manifest: ModelManifest, data: dict[str, Any]) -> Iterator[str]:
    settings = manifest.settings
    subwords = {key: data[key] for key in _SUBWORDS}
    if settings.vocabulary_threshold is not None:
        subwords["vocabulary_threshold"] = settings.vocabulary_threshold
    model = {"family": settings.model.family, **settings.model.model_dump(mode="json", exclude_defaults=True)}
    yield f"{place}: lines of a study whose training starts from this model"
    yield "datasets:\n  NAME:"
    yield f"    source_language: {settings.source_language}\n    target_language: {settings.target_language}"
    yield f"    tokenization: {json.dumps(data['tokenization'])}"
    yield f"    subwords: {json.dumps({'reuse': str(place), **subwords})}"
    yield "systems:\n  NAME:"
    yield f"    model: {json.dumps(model)}"
    yield f"    init_from: {place}"
