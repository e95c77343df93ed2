"""A trained system outside of the workflow: its settings and the files that it needs to translate raw text.

Its files are those of a finished study (`TrainedSystem.of_study`), or of a folder that `phrasemt export` writes, which
works on any machine (`read_model_folder`):

    model.json                  settings of the system, where it comes from, and the sha256 of each other file
    weights.safetensors         weights, with the model's settings and the digests of its vocabularies
    source_vocabulary.tsv, target_vocabulary.tsv, codes.bpe, source_counts.txt, target_counts.txt
    parser/                     card and model files of the parser, of systems that read parses
    study.json                  the study
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Evidence
from phrasemt.artefacts.syntax import Card
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.fields import Language, Name, Seed, Settings
from phrasemt.files.lines import new_folder, write_text
from phrasemt.files.system import check_file, digest_file
from phrasemt.study.architectures import ModelSettings
from phrasemt.study.schema import Decoding, Study, System
from phrasemt.study.tokenization import Tokenizer

EXPORTED_MANIFEST, EXPORTED_WEIGHTS = "model.json", "weights.safetensors"


class SystemSettings(Settings):
    """Everything besides files that decides a translation."""

    source_language: Language
    target_language: Language
    model: ModelSettings
    decoding: Decoding
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    vocabulary_threshold: int | None = None  # of the subwords; None: models read whole words

    @classmethod
    def of_study(cls, study: Study, dataset: str, system: str) -> Self:
        """The settings of a system on a data set of a study."""
        data = study.datasets[dataset]
        return cls(
            source_language=data.source_language,
            target_language=data.target_language,
            model=study.models[system].model,
            decoding=study.models[system].decoding,
            source_tokenizer=data.tokenizer("source"),
            target_tokenizer=data.tokenizer("target"),
            vocabulary_threshold=data.subwords.vocabulary_threshold if data.subwords.unit == "bpe" else None,
        )

    @property
    def roles(self) -> list[str]:
        """The roles of the files that the system needs."""
        subwords = ["codes", "source_counts", "target_counts"] if self.vocabulary_threshold is not None else []
        parser = ["parser"] if self.reads_parses else []
        return ["weights", "source_vocabulary", "target_vocabulary", *subwords, *parser]

    @property
    def reads_parses(self) -> bool:
        """Whether the model's phrases are cut from parse trees."""
        phrases = self.model.source_phrases
        return phrases is not None and phrases.reads_parses


@dataclass(frozen=True)
class TrainedSystem:
    """A trained system. name: for messages.

    files: by role. `weights`, `source_vocabulary` and `target_vocabulary` always; `codes`, `source_counts` and
    `target_counts` of systems with subwords; `parser`, the card of a parser, of systems that read parses.
    """

    name: str
    settings: SystemSettings
    files: Mapping[str, Path]

    @classmethod
    def of_study(cls, study: Study, dataset: str, system: str, seed: int) -> Self:
        """A system of a study that was trained here.

        Raises PhrasemtError for a system that does not translate raw text or is not trained yet,
        DamagedFileError for a file that is not the one that its stage wrote.
        """
        settings = SystemSettings.of_study(study, dataset, system)
        name = f"system {system} of study {study.study}"
        refuse_without_raw_text(settings, name)
        paths = Paths.of(study, dataset)
        places = {
            "weights": paths.weights.at(system=system, seed=seed),
            "source_vocabulary": paths.vocabulary.at(language=settings.source_language),
            "target_vocabulary": paths.vocabulary.at(language=settings.target_language),
            "codes": paths.codes,
            "source_counts": paths.subword_counts.at(language=settings.source_language),
            "target_counts": paths.subword_counts.at(language=settings.target_language),
            "parser": paths.card.at(annotator=study.datasets[dataset].source_parser),
        }
        found = {role: Path(places[role]) for role in settings.roles}
        for path in found.values():
            if not path.is_file():
                what = f"the {name} is not trained yet, or was trained elsewhere"
                next_step = "run the study, or translate with an exported folder (--model)"
                raise PhrasemtError(what, where=path, found="no such file", next_step=next_step)
            Evidence().check(path)
        return cls(name, settings, found)


def refuse_without_raw_text(settings: SystemSettings, name: str) -> None:
    """Raise PhrasemtError for a system that cannot translate text that is in no study."""
    if not settings.model.translates:
        raise PhrasemtError(f"the {name} is a language model, which does not translate")
    phrases = settings.model.source_phrases
    if phrases is not None and phrases.given is not None:
        what = f"the {name} reads phrases that its user gave, and nobody has any for other text"
        raise MismatchError(what, where=phrases.given, next_step="choose a system with another phrase.mode")


def initial_weights(system: System, seed: object) -> list[Path]:
    """The file that a system's training with this seed starts from; no file for random weights."""
    place = system.init_from
    if place is None:
        return []
    weights = Path(Paths.weights).name
    if place.suffix == Path(weights).suffix:
        return [place]
    return [place / EXPORTED_WEIGHTS if (place / EXPORTED_MANIFEST).is_file() else place / str(seed) / weights]


PLACES = {
    "weights": EXPORTED_WEIGHTS,
    "source_vocabulary": "source_vocabulary.tsv",
    "target_vocabulary": "target_vocabulary.tsv",
    "codes": "codes.bpe",
    "source_counts": "source_counts.txt",
    "target_counts": "target_counts.txt",
    "parser": "parser/annotator.json",
}


class ModelManifest(JsonFile, format=3):
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
        ModelManifest(settings=system.settings, files=files, **about).write(temporary / EXPORTED_MANIFEST)


def _copy_parser(card: Path, place: Path) -> None:
    """Copy a parser with its card, which then names the copies."""
    described = Card.read(card)
    described.verify()
    place.parent.mkdir()
    files = {}
    for role, file in described.files.items():
        copy = place.parent.absolute() / f"{role}.pt"
        shutil.copyfile(file.path, copy)
        files[role] = file.model_copy(update={"path": copy})
    described.model_copy(update={"files": files}).write(place)


def read_manifest(folder: Path) -> ModelManifest:
    """The manifest of a folder.

    Raises PhrasemtError for a folder of something else, DamagedFileError for a damaged manifest.
    """
    if not (folder / EXPORTED_MANIFEST).is_file():
        what = "not a model folder"
        raise PhrasemtError(
            what, where=folder, expected=f"a file {EXPORTED_MANIFEST}", next_step="make one with `phrasemt export`"
        )
    return ModelManifest.read(folder / EXPORTED_MANIFEST)


def read_model_folder(folder: Path) -> TrainedSystem:
    """The system of a folder. Reads all files once.

    Raises PhrasemtError for a folder of something else, DamagedFileError for a file that is missing or altered, and as
    `refuse_without_raw_text`.
    """
    manifest = read_manifest(folder)
    files = {role: folder / PLACES[role] for role in manifest.settings.roles}
    named = [folder.absolute() / name for name in manifest.files]
    if "parser" in files and files["parser"].is_file():
        named += [file.path for file in Card.read(files["parser"]).files.values()]
    for path in named:
        if not path.is_relative_to(folder.absolute()) or ".." in path.relative_to(folder.absolute()).parts:
            what = "a file of the model is outside of its folder"
            raise DamagedFileError(what, where=folder, found=path, next_step=manifest.again)
    for name, expected in manifest.files.items():
        check_file(folder / name, expected, "not the file that was exported", next_step=manifest.again)
    refuse_without_raw_text(manifest.settings, manifest.name)
    if absent := [PLACES[role] for role in files if PLACES[role] not in manifest.files]:
        what = "a file that the model needs is not listed"
        raise DamagedFileError(
            what, where=folder / EXPORTED_MANIFEST, expected=", ".join(absent), next_step=manifest.again
        )
    return TrainedSystem(manifest.name, manifest.settings, files)
