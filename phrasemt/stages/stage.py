"""The declaration of a stage: everything about it but its code and its rule.

A stage is one class here, one function `<name>` in its module, one subcommand and one rule, all of one name. It turns
input files into output files under settings that are a small part of the study. Its files are parameters of its
function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field

from phrasemt.artefacts.artefact import Pattern
from phrasemt.fields import Settings
from phrasemt.study.annotators import Chunker, Parser
from phrasemt.study.architectures import ModelInputs, ModelSettings, PhraseSegmentation
from phrasemt.study.datasets import Dataset
from phrasemt.study.schema import Study, System
from phrasemt.study.tokenization import Tokenizer

Wildcards = Mapping[str, str]
Use = Literal["input", "output", "folder"]
_Section = TypeVar("_Section")


def named(names: str = "", *, lists: str = "") -> dict[str, bool]:
    """The input files of a stage by name, and whether each is a list of files. The rule says of what kind they are."""
    return dict.fromkeys(names.split(), False) | dict.fromkeys(lists.split(), True)


def files(**kinds: Pattern) -> dict[str, Pattern]:
    """The output files of a stage, or its folders, with their kinds."""
    return kinds


def of(value: Callable[[StudyJob], object], **default: Any) -> Any:
    """A setting whose value the study has, such as `of(lambda job: job.system.training)`."""
    return Field(json_schema_extra={"of": value}, **default)  # type: ignore[dict-item]


def present(section: _Section | None) -> _Section:
    """A section that every study with such a job has."""
    assert section is not None
    return section


@dataclass(frozen=True)
class StageFile:
    """A file of a stage. many: whether it is a list of files.

    A folder stays between runs and is neither input nor output: Snakemake deletes the outputs of a job before it runs.
    """

    name: str
    use: Use
    many: bool

    @property
    def flag(self) -> str:
        """The flag of the command line."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class StudyJob:
    """A job of a study, by its wildcards. Its properties are what the wildcards name."""

    study: Study
    wildcards: Wildcards

    @property
    def dataset(self) -> Dataset:
        return self.study.datasets[self.wildcards["dataset"]]

    @property
    def annotator(self) -> Parser | Chunker:
        return self.study.annotators[self.wildcards["annotator"]]

    @property
    def segmentation(self) -> PhraseSegmentation:
        return self.study.segmentations[self.wildcards["segmenter"]]

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.dataset.tokenizer("target")

    @property
    def references(self) -> list[int]:
        """The number of references of each test set."""
        return [len(self.dataset.references(test_set)) for test_set in self.dataset.test_sets]

    @property
    def system(self) -> System:
        return self.study.models[self.wildcards["system"]]


class Stage(Settings):
    """Base of all declarations. The fields of a subclass are the settings that its function reads.

    Settings are data: a rule passes them to the subcommand as JSON, and they decide whether a finished artefact is
    still valid. A function reads their fields only. A value that is computed from the study (`of`) is a field, so that
    a change of the computation is a change of the settings.
    """

    module: ClassVar[str]
    """Module of the function `<name>(*, settings, cores, <files>)`."""
    inputs: ClassVar[Mapping[str, bool]] = {}
    """Whether each input is a list of files."""
    outputs: ClassVar[Mapping[str, Pattern]] = {}
    folders: ClassVar[Mapping[str, Pattern]] = {}
    """Folders that stay between runs."""
    resumes: ClassVar[bool] = False
    """Whether the stage may run in several processes and may stop before its end, to continue in the next run.

    Its function then takes `processes` and `minutes`, too.
    """
    job_name: ClassVar[str] = ""
    """Wildcards that distinguish the jobs of the stage, for logs; empty: those of its first output."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions stand in the sidecars of the outputs."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs of Moses that the stage runs, whose checksums stand in the sidecars of the outputs."""
    used_by_all_studies: ClassVar[bool] = False
    """Whether another study takes over the outputs (phrasemt/workflow/run_stage.py)."""

    @classmethod
    def stage_name(cls) -> str:
        """The name of the stage: TrainModel is train_model."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def stage_files(cls, use: Use | None = None) -> list[StageFile]:
        """The files of the stage, or those that it uses so: inputs, then outputs, then folders kept between runs."""
        inputs = [StageFile(name, "input", many=many) for name, many in cls.inputs.items()]
        outputs = [StageFile(name, "output", many=False) for name in cls.outputs]
        folders = [StageFile(name, "folder", many=False) for name in cls.folders]
        return [file for file in (*inputs, *outputs, *folders) if use in (None, file.use)]

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        """The settings of the stage for a job: values of the study (`of`), and its wildcards by their names."""
        job, values = StudyJob(study, wildcards), dict[str, Any]()
        for name, field in cls.model_fields.items():
            extra: Any = field.json_schema_extra
            if extra:
                values[name] = extra["of"](job)
            elif field.is_required():
                values[name] = wildcards[name]
        return cls.model_validate(values)

    def code_modules(self) -> tuple[str, ...]:
        """The modules whose code, with all that they import, decides the outputs."""
        return (self.module,)


class ModelStage(Stage):
    """Base of the stages that run a model. The code of the model's family belongs to the code of the stage."""

    libraries: ClassVar[tuple[str, ...]] = ("torch",)

    model: ModelSettings = of(lambda job: job.system.model)
    reads: ModelInputs = of(lambda job: job.system.model.model_inputs)

    def code_modules(self) -> tuple[str, ...]:
        return *super().code_modules(), f"phrasemt.models.{self.model.family}"
