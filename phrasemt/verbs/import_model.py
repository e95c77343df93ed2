"""`phrasemt import`: copy an exported model to where studies find it, and print the lines of a study that use it."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from phrasemt.verbs._output import Output
from phrasemt.workflow.model_folder import new_folder, read_manifest, read_model_folder

_FOLDER = Path("resources/models")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check all files of a folder of `phrasemt export`, copy it, and print the lines of a study whose "
        "training starts from it, with its subwords."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of `phrasemt export`")
    parser.add_argument(
        "--to", type=Output, metavar="FOLDER", help=f"new folder (default: {_FOLDER}/<study>.<system>.<seed>)"
    )


def run(options: argparse.Namespace) -> None:
    """Import. Raises DamagedFileError for a file that is missing or altered, PhrasemtError if the place is taken."""
    read_model_folder(options.folder)
    manifest = read_manifest(options.folder)
    place = options.to or _FOLDER / f"{manifest.study}.{manifest.system}.{manifest.seed}"
    with new_folder(place) as temporary:
        shutil.copytree(options.folder, temporary, dirs_exist_ok=True)
        read_model_folder(temporary)
    exported = json.loads((place / "study.json").read_text(encoding="utf-8"))
    data, settings = exported["datasets"][manifest.dataset], manifest.settings
    subwords = {key: data["subwords"][key] for key in ("unit", "shared_vocabulary")}
    if settings.vocabulary_threshold is not None:
        subwords["vocabulary_threshold"] = settings.vocabulary_threshold
    model = {"family": settings.model.family, **settings.model.model_dump(mode="json", exclude_defaults=True)}
    print(f"{place}: lines of a study whose training starts from this model")
    print("datasets:\n  NAME:")
    print(f"    source_language: {settings.source_language}\n    target_language: {settings.target_language}")
    print(f"    tokenization: {json.dumps(data['tokenization'])}")
    print(f"    subwords: {json.dumps({'reuse': str(place), **subwords})}")
    print("systems:\n  NAME:")
    print(f"    model: {json.dumps(model)}")
    print(f"    init_from: {place}")
