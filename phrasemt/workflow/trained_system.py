"""A trained system outside of the workflow: its settings and the files that it needs to translate raw text.

The files are those of a finished study (`TrainedSystem.of_study`) or of an exported model folder
(`phrasemt.workflow.model_folder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from phrasemt.artefacts.sidecar import Evidence
from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.fields import Language, Settings
from phrasemt.study.architectures import ModelSettings
from phrasemt.study.schema import Decoding, Study
from phrasemt.study.tokenization import Tokenizer
from phrasemt.workflow.paths import Paths


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
