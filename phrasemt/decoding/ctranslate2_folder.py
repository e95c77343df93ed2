"""A trained system as a folder for CTranslate2."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from phrasemt.artefacts.vocabulary import Vocabularies
from phrasemt.files.lines import write_text
from phrasemt.models.ctranslate2_export import export_ctranslate2
from phrasemt.models.weights import load_model
from phrasemt.workflow.model_folder import PLACES, new_folder
from phrasemt.workflow.trained_system import TrainedSystem


def write_ctranslate2_folder(folder: Path, system: TrainedSystem, texts: Mapping[str, str]) -> None:
    """Write a plain Transformer for CTranslate2, with the merges and counts that make subwords, and further files.

    Raises PhrasemtError for another family of models, without the package ctranslate2, and if the folder is there.
    """
    words = Vocabularies.read(system.files["source_vocabulary"], system.files["target_vocabulary"])
    settings = system.settings.model
    model = load_model(system.files["weights"], settings, words, trained=settings.trained_part)
    with new_folder(folder) as temporary:
        export_ctranslate2(model, settings, words, temporary)
        for role in system.files.keys() & {"codes", "source_counts", "target_counts"}:
            shutil.copyfile(system.files[role], temporary / PLACES[role])
        for name, text in texts.items():
            write_text(temporary / name, text)
